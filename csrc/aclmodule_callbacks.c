/* See aclmodule.h. Owns: the ways from C back into Python, and the threads that Python starts here.
 *
 * A callback takes the GIL on whatever thread C calls it from, so no call that may lead to one (or
 * wait for one) holds the GIL. An exception inside goes to sys.unraisablehook and is lost. After
 * the interpreter has begun to end, callbacks do nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "gen/aclmodule_by_hand.h"

/* Calls `function` with the one argument it takes over; null arguments are failures before. */
static PyObject* call_with(PyObject* function, PyObject* argument) {
  PyObject* result = NULL;
  if (argument != NULL) result = PyObject_CallFunctionObjArgs(function, argument, NULL);
  if (result == NULL) PyErr_WriteUnraisable(function);
  Py_XDECREF(argument);
  return result;
}

/* A function of a slot for the time of a call: meanwhile another one may come into the slot. */
static PyObject* held(PyObject* function) {
  Py_XINCREF(function);
  return function;
}

/* Puts `value` into the slot and returns what was there, still owned. */
static PyObject* exchange(PyObject** slot, PyObject* value) {
  PyObject* old = *slot;
  Py_XINCREF(value);
  *slot = value;
  return old;
}

/* The slot was filled before C was told, so that no event in between is lost: keep the new value if
 * C took it, else the old one. */
static PyObject* settle(PyObject** slot, PyObject* old, aclError code) {
  if (code == 0) {
    Py_XDECREF(old);
  } else {
    Py_XDECREF(exchange(slot, old));
    Py_XDECREF(old);
  }
  return art_code(code);
}

struct launched {
  PyObject* function;
  PyObject* argument;
};

static void run_launched(void* data) {
  struct launched* call = data;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_XDECREF(call_with(call->function, call->argument));
  Py_DECREF(call->function);
  free(call);
  PyGILState_Release(state);
}

PyObject* hand_rt_launch_callback(PyObject* fn, PyObject* userData, int blockType,
                                  unsigned long stream) {
  aclError code;
  struct launched* call = malloc(sizeof(*call));
  if (call == NULL) return PyErr_NoMemory();
  Py_INCREF(fn);
  Py_INCREF(userData);
  *call = (struct launched){fn, userData};
  ART_WITHOUT_GIL(code = aclrtLaunchCallback(run_launched, call, (aclrtCallbackBlockType)blockType,
                                             (aclrtStream)stream));
  if (code != 0) {
    Py_DECREF(fn);
    Py_DECREF(userData);
    free(call);
  }
  return art_code(code);
}

static PyObject* g_exception_function;

static void run_exception(aclrtExceptionInfo* info) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* function = held(g_exception_function);
  if (function != NULL) Py_XDECREF(call_with(function, art_address(info)));
  Py_XDECREF(function);
  PyGILState_Release(state);
}

PyObject* hand_rt_set_exception_info_callback(PyObject* callback) {
  aclError code;
  PyObject* function = callback == Py_None ? NULL : callback;
  PyObject* old = exchange(&g_exception_function, function);
  ART_WITHOUT_GIL(code = aclrtSetExceptionInfoCallback(function == NULL ? NULL : run_exception));
  return settle(&g_exception_function, old, code);
}

static PyObject* g_dump_function;

static PyObject* chunk_dict(const acldumpChunk* chunk) {
  return Py_BuildValue("{s:N,s:y#,s:I,s:I,s:L,s:i}", "file_name", art_text(chunk->fileName),
                       "data_buf", (const char*)chunk->dataBuf, (Py_ssize_t)chunk->bufLen,
                       "buf_len", chunk->bufLen, "is_last_chunk", chunk->isLastChunk, "offset",
                       (long long)chunk->offset, "flag", chunk->flag);
}

static int32_t run_dump(const acldumpChunk* chunk, int32_t length) {
  (void)length;
  if (!Py_IsInitialized()) return 0;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* function = held(g_dump_function);
  if (function != NULL) Py_XDECREF(call_with(function, chunk_dict(chunk)));
  Py_XDECREF(function);
  PyGILState_Release(state);
  return 0;
}

PyObject* hand_mdl_dump_reg_callback(PyObject* messageCallback, int flag) {
  aclError code;
  PyObject* old = exchange(&g_dump_function, messageCallback);
  ART_WITHOUT_GIL(code = acldumpRegCallback(run_dump, flag));
  return settle(&g_dump_function, old, code);
}

PyObject* hand_mdl_dump_unreg_callback(void) {
  ART_WITHOUT_GIL(acldumpUnregCallback());
  Py_XDECREF(exchange(&g_dump_function, NULL));
  Py_RETURN_NONE;
}

/* The C callback is not told the operator's type: update_params, which is what calls it, notes it.
 */
static PyObject* g_compile_functions; /* type -> function */
static _Thread_local const char* g_compiling;

static PyObject* addresses(int count, const aclTensorDesc* const* descs) {
  PyObject* list = PyList_New(count);
  for (int i = 0; list != NULL && i < count; ++i) {
    PyObject* item = art_address(descs[i]);
    if (item == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, i, item);
  }
  return list;
}

static aclError run_compile(int inputs, const aclTensorDesc* const* input, int outputs,
                            const aclTensorDesc* const* output, const aclopAttr* attr,
                            aclopKernelDesc* kernel) {
  long code = ACL_ERROR_INTERNAL_ERROR;
  if (!Py_IsInitialized() || g_compiling == NULL) return (aclError)code;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* function = held(PyDict_GetItemString(g_compile_functions, g_compiling));
  PyObject* result = NULL;
  if (function != NULL) {
    result =
        PyObject_CallFunction(function, "iNiNNN", inputs, addresses(inputs, input), outputs,
                              addresses(outputs, output), art_address(attr), art_address(kernel));
    if (result == NULL) PyErr_WriteUnraisable(function);
  }
  if (result != NULL) code = PyLong_Check(result) ? PyLong_AsLong(result) : 0;
  Py_XDECREF(result);
  Py_XDECREF(function);
  PyGILState_Release(state);
  return (aclError)code;
}

PyObject* hand_op_register_compile_func(const char* opType, PyObject* func) {
  if (g_compile_functions == NULL) g_compile_functions = PyDict_New();
  if (g_compile_functions == NULL) return NULL;
  const aclError code = aclopRegisterCompileFunc(opType, run_compile);
  if (code == 0 && PyDict_SetItemString(g_compile_functions, opType, func)) return NULL;
  return art_code(code);
}

PyObject* hand_op_update_params(const char* opType, PyObject* inputDesc, PyObject* outputDesc,
                                unsigned long attr) {
  static const char name[] = "acl.op.update_params";
  struct art_list inputs = {0}, outputs = {0};
  PyObject* result = NULL;
  if (!art_list_read(&inputs, inputDesc, 'k', 1, name, 2, "inputDesc") &&
      !art_list_read(&outputs, outputDesc, 'k', 1, name, 3, "outputDesc")) {
    aclError code;
    g_compiling = opType;
    ART_WITHOUT_GIL(code = aclopUpdateParams(opType, (int)inputs.count, inputs.data,
                                             (int)outputs.count, outputs.data,
                                             (const aclopAttr*)attr));
    g_compiling = NULL;
    result = art_code(code);
  }
  art_list_free(&inputs);
  art_list_free(&outputs);
  return result;
}

/* Custom allocators. C hands over no data of ours, so the latest function of a kind serves all. As
 * in the vendor's module what the functions return is dropped: C sees null.
 * src: hicann/runtime python/pyACL */
enum { kAlloc, kAllocAdvise, kFree, kAddress, kAllocatorKinds };
static PyObject* g_allocator[kAllocatorKinds];

static void run_allocator(int kind, const char* format, const void* first, size_t size,
                          const void* second) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* function = held(g_allocator[kind]);
  PyObject* result = NULL;
  if (function != NULL) {
    const unsigned long a = (unsigned long)first, b = size, c = (unsigned long)second;
    result = strcmp(format, "kk") == 0 && kind == kFree
                 ? PyObject_CallFunction(function, format, a, c)
                 : PyObject_CallFunction(function, format, a, b, c);
    if (result == NULL) PyErr_WriteUnraisable(function);
  }
  Py_XDECREF(result);
  Py_XDECREF(function);
  PyGILState_Release(state);
}

static void* run_alloc(aclrtAllocator allocator, size_t size) {
  run_allocator(kAlloc, "kk", allocator, size, NULL);
  return NULL;
}

static void* run_alloc_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr address) {
  run_allocator(kAllocAdvise, "kkk", allocator, size, address);
  return NULL;
}

static void run_free(aclrtAllocator allocator, aclrtAllocatorBlock block) {
  run_allocator(kFree, "kk", allocator, 0, block);
}

static void* run_address(aclrtAllocatorBlock block) {
  run_allocator(kAddress, "k", block, 0, NULL);
  return NULL;
}

static PyObject* keep_allocator(aclError code, int kind, PyObject* function) {
  if (code == 0) Py_XDECREF(exchange(&g_allocator[kind], function));
  return art_code(code);
}

PyObject* hand_rt_allocator_set_alloc_func_to_desc(unsigned long allocatorDesc, PyObject* func) {
  return keep_allocator(
      aclrtAllocatorSetAllocFuncToDesc((aclrtAllocatorDesc)allocatorDesc, run_alloc), kAlloc, func);
}

PyObject* hand_rt_allocator_set_alloc_advise_func_to_desc(unsigned long allocatorDesc,
                                                          PyObject* func) {
  return keep_allocator(
      aclrtAllocatorSetAllocAdviseFuncToDesc((aclrtAllocatorDesc)allocatorDesc, run_alloc_advise),
      kAllocAdvise, func);
}

PyObject* hand_rt_allocator_set_free_func_to_desc(unsigned long allocatorDesc, PyObject* func) {
  return keep_allocator(
      aclrtAllocatorSetFreeFuncToDesc((aclrtAllocatorDesc)allocatorDesc, run_free), kFree, func);
}

PyObject* hand_rt_allocator_set_get_addr_from_block_func_to_desc(unsigned long allocatorDesc,
                                                                 PyObject* func) {
  return keep_allocator(
      aclrtAllocatorSetGetAddrFromBlockFuncToDesc((aclrtAllocatorDesc)allocatorDesc, run_address),
      kAddress, func);
}

/* Threads of util.start_thread. The list is touched under the GIL only. */
struct thread {
  pthread_t id;
  PyObject* function;
  PyObject* argument; /* None: the function is called without */
  PyObject* error;    /* what it raised, as str */
  struct thread* next;
};
static struct thread* g_threads;

static PyObject* raised_text(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject* text = value == NULL ? NULL : PyObject_Str(value);
  if (text == NULL) PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return text != NULL ? text : PyUnicode_FromString("an exception without a text");
}

static void* thread_main(void* data) {
  struct thread* thread = data;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* argument = thread->argument == Py_None ? NULL : thread->argument;
  PyObject* result = PyObject_CallFunctionObjArgs(thread->function, argument, NULL);
  if (result == NULL) thread->error = raised_text();
  Py_XDECREF(result);
  Py_CLEAR(thread->function);
  Py_CLEAR(thread->argument);
  PyGILState_Release(state);
  return NULL;
}

PyObject* hand_util_start_thread(PyObject* function, PyObject* arguments) {
  int code;
  struct thread* thread = calloc(1, sizeof(*thread));
  if (thread == NULL) return PyErr_NoMemory();
  Py_INCREF(function);
  Py_INCREF(arguments);
  thread->function = function;
  thread->argument = arguments;
  /* A thread that only waits for reports would hold up Ctrl-C for ever. As the vendor's module. */
  signal(SIGINT, SIG_DFL);
  ART_WITHOUT_GIL(code = pthread_create(&thread->id, NULL, thread_main, thread));
  if (code != 0) {
    Py_DECREF(function);
    Py_DECREF(arguments);
    free(thread);
    return art_pair(PyLong_FromLong(0), art_code(code));
  }
  thread->next = g_threads;
  g_threads = thread;
  return art_pair(PyLong_FromUnsignedLongLong((unsigned long long)thread->id), art_code(0));
}

/* Joins: the function has to end by itself. An id that was not started here, or was joined before,
 * gives ESRCH. */
PyObject* hand_util_stop_thread(unsigned long long thread_id) {
  int code;
  struct thread** place = &g_threads;
  while (*place != NULL && (unsigned long long)(*place)->id != thread_id) place = &(*place)->next;
  struct thread* thread = *place;
  if (thread == NULL) return art_code(ESRCH);
  *place = thread->next;
  ART_WITHOUT_GIL(code = pthread_join(thread->id, NULL));
  PyObject* error = thread->error;
  free(thread);
  if (error == NULL) return art_code(code);
  PyErr_SetObject(PyExc_RuntimeError, error);
  Py_DECREF(error);
  return NULL;
}
