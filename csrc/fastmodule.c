/* ascendrt._fast: the calls of the object layer that have to cost little.
 *
 * Handles and addresses are ints. A call answers its status; one that gives a value answers the
 * value, or the status as a negative number. Everything else goes through ascendrt._cffi; both use
 * the table of libascendrt_bind.so, which ascendrt._backend fills first.
 *
 * Must never: include a header of the emulator, hold the GIL while a call may wait, or use anything
 * outside the limited API of CPython 3.10.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "binding.h"
#include "gen/all.h"
#include "looks.h"

enum { kMostArguments = 8 };

/* Reads all arguments as addresses, handles, sizes or small numbers; 0 with TypeError or
 * OverflowError set when that cannot be. */
static int read_all(PyObject* const* argv, Py_ssize_t argc, Py_ssize_t wanted, uintptr_t* out) {
  if (argc != wanted) {
    PyErr_Format(PyExc_TypeError, "takes %zd arguments, got %zd", wanted, argc);
    return 0;
  }
  for (Py_ssize_t i = 0; i < argc; ++i) {
    out[i] = PyLong_AsSize_t(argv[i]);
    if (out[i] == (uintptr_t)-1 && PyErr_Occurred()) return 0;
  }
  return 1;
}

static PyObject* value_or(uintptr_t value, aclError status) {
  return status == 0 ? PyLong_FromSize_t(value) : PyLong_FromLong(-(long)status);
}

#define ART_ENTER(name, wanted)                                                          \
  static PyObject* fast_##name(PyObject* self, PyObject* const* argv, Py_ssize_t argc) { \
    uintptr_t v[kMostArguments];                                                         \
    (void)self;                                                                          \
    if (!read_all(argv, argc, wanted, v)) return NULL;

#define ART_LEAVE }

/* A call that may wait: other threads of Python go on meanwhile. */
#define ART_STATUS(name, wanted, expression)   \
  ART_ENTER(name, wanted)                      \
  aclError status;                             \
  PyThreadState* thread = PyEval_SaveThread(); \
  status = (expression);                       \
  PyEval_RestoreThread(thread);                \
  return PyLong_FromLong((long)status);        \
  ART_LEAVE

ART_STATUS(free, 1, aclrtFree((void*)v[0]))
ART_STATUS(record_event, 2, aclrtRecordEvent((aclrtEvent)v[0], (aclrtStream)v[1]))
ART_STATUS(stream_wait_event, 2, aclrtStreamWaitEvent((aclrtStream)v[0], (aclrtEvent)v[1]))
ART_STATUS(synchronize_stream, 1, aclrtSynchronizeStream((aclrtStream)v[0]))
ART_STATUS(synchronize_event, 1, aclrtSynchronizeEvent((aclrtEvent)v[0]))
ART_STATUS(memcpy, 5,
           aclrtMemcpy((void*)v[0], v[1], (const void*)v[2], v[3], (aclrtMemcpyKind)v[4]))
ART_STATUS(memcpy_async, 6,
           aclrtMemcpyAsync((void*)v[0], v[1], (const void*)v[2], v[3], (aclrtMemcpyKind)v[4],
                            (aclrtStream)v[5]))
ART_STATUS(memset_async, 5,
           aclrtMemsetAsync((void*)v[0], v[1], (int32_t)v[2], v[3], (aclrtStream)v[4]))
ART_STATUS(graph_execute_async, 2, aclmdlRIExecuteAsync((aclmdlRI)v[0], (aclrtStream)v[1]))

/* One copy of a run; the layout is that of ascendrt/_slot.py. */
struct art_copy {
  uint64_t target, room, source, size;
};

static aclError copy_all(const char* copies, Py_ssize_t bytes, aclrtMemcpyKind kind,
                         aclrtStream stream) {
  aclError status = 0;
  for (Py_ssize_t at = 0; status == 0 && at + (Py_ssize_t)sizeof(struct art_copy) <= bytes;
       at += (Py_ssize_t)sizeof(struct art_copy)) {
    struct art_copy copy;
    memcpy(&copy, copies + at, sizeof copy);
    status = aclrtMemcpyAsync((void*)(uintptr_t)copy.target, copy.room,
                              (const void*)(uintptr_t)copy.source, copy.size, kind, stream);
  }
  return status;
}

/* A run of a model in a stream. */
struct art_run {
  uint32_t model;
  const aclmdlDataset* feed;
  aclmdlDataset* fetch;
  aclrtStream stream;
  aclrtEvent before, turn; /* what the first copy and the execution wait for; may be null */
  aclrtEvent computed, over;
  const char *ins, *outs;
  Py_ssize_t ins_size, outs_size;
};

enum art_step { kWait = 1, kCopy, kExecute, kRecord };

/* 0, or the step that failed; its status is in *status. */
static int queue_run(const struct art_run* run, aclError* status) {
  const aclrtStream stream = run->stream;
#define ART_STEP(step, call) \
  if ((*status = (call)) != 0) return (step)
  if (run->before != NULL) ART_STEP(kWait, aclrtStreamWaitEvent(stream, run->before));
  ART_STEP(kCopy, copy_all(run->ins, run->ins_size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  if (run->turn != NULL) ART_STEP(kWait, aclrtStreamWaitEvent(stream, run->turn));
  ART_STEP(kExecute, aclmdlExecuteAsync(run->model, run->feed, run->fetch, stream));
  ART_STEP(kRecord, aclrtRecordEvent(run->computed, stream));
  ART_STEP(kCopy, copy_all(run->outs, run->outs_size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  ART_STEP(kRecord, aclrtRecordEvent(run->over, stream));
#undef ART_STEP
  return 0;
}

/* Everything of a run in one call: the parts of it reach the device together. */
static PyObject* fast_queue_run(PyObject* self, PyObject* const* argv, Py_ssize_t argc) {
  enum { kNumbers = 8 };
  uintptr_t v[kMostArguments];
  char *ins = NULL, *outs = NULL;
  Py_ssize_t ins_size = 0, outs_size = 0;
  (void)self;
  if (argc != kNumbers + 2) {
    PyErr_Format(PyExc_TypeError, "takes %d arguments, got %zd", kNumbers + 2, argc);
    return NULL;
  }
  if (!read_all(argv, kNumbers, kNumbers, v)) return NULL;
  if (PyBytes_AsStringAndSize(argv[kNumbers], &ins, &ins_size) != 0) return NULL;
  if (PyBytes_AsStringAndSize(argv[kNumbers + 1], &outs, &outs_size) != 0) return NULL;
  const struct art_run run = {
      .model = (uint32_t)v[0],
      .feed = (const aclmdlDataset*)v[1],
      .fetch = (aclmdlDataset*)v[2],
      .stream = (aclrtStream)v[3],
      .before = (aclrtEvent)v[4],
      .turn = (aclrtEvent)v[5],
      .computed = (aclrtEvent)v[6],
      .over = (aclrtEvent)v[7],
      .ins = ins,
      .outs = outs,
      .ins_size = ins_size,
      .outs_size = outs_size,
  };
  aclError status = 0;
  PyThreadState* thread = PyEval_SaveThread();
  const int step = queue_run(&run, &status);
  PyEval_RestoreThread(thread);
  return PyLong_FromLongLong(((long long)step << 32) | (uint32_t)status);
}

/* The dict of open Context objects, once watch_contexts() has told. */
static PyObject* open_contexts;

static PyObject* fast_watch_contexts(PyObject* self, PyObject* const* argv, Py_ssize_t argc) {
  (void)self;
  if (argc != 1 || !PyDict_Check(argv[0])) {
    PyErr_SetString(PyExc_TypeError, "takes the dict of open contexts");
    return NULL;
  }
  PyObject* before = open_contexts;
  Py_INCREF(argv[0]);
  open_contexts = argv[0];
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

/* Calls that neither wait nor lead to a function of Python, but for looks. */
ART_ENTER(set_context, 1)
return PyLong_FromLong((long)aclrtSetCurrentContext((aclrtContext)v[0]));
ART_LEAVE

/* 0 when the thread has none. */
ART_ENTER(get_context, 0)
aclrtContext context = NULL;
return PyLong_FromSize_t(aclrtGetCurrentContext(&context) == 0 ? (uintptr_t)context : 0);
ART_LEAVE

ART_ENTER(event_status, 1)
aclrtEventRecordedStatus state = 0;
PyThreadState* thread = art_look();
aclError status = aclrtQueryEventStatus((aclrtEvent)v[0], &state);
art_look_over(thread);
return value_or((uintptr_t)state, status);
ART_LEAVE

ART_ENTER(stream_status, 1)
aclrtStreamStatus state = 0;
PyThreadState* thread = art_look();
aclError status = aclrtStreamQuery((aclrtStream)v[0], &state);
art_look_over(thread);
return value_or((uintptr_t)state, status);
ART_LEAVE

#define ART_ROW(name, text) {#name, (PyCFunction)(void (*)(void))fast_##name, METH_FASTCALL, text}

static PyMethodDef methods[] = {
    ART_ROW(free, "free(address, /)\n--\n\naclrtFree; gives the code"),
    ART_ROW(record_event, "record_event(event, stream, /)\n--\n\naclrtRecordEvent"),
    ART_ROW(stream_wait_event, "stream_wait_event(stream, event, /)\n--\n\naclrtStreamWaitEvent"),
    ART_ROW(synchronize_stream, "synchronize_stream(stream, /)\n--\n\naclrtSynchronizeStream"),
    ART_ROW(synchronize_event, "synchronize_event(event, /)\n--\n\naclrtSynchronizeEvent"),
    ART_ROW(memcpy, "memcpy(dst, room, src, size, kind, /)\n--\n\naclrtMemcpy"),
    ART_ROW(memcpy_async,
            "memcpy_async(dst, room, src, size, kind, stream, /)\n--\n\naclrtMemcpyAsync"),
    ART_ROW(memset_async,
            "memset_async(address, room, byte, size, stream, /)\n--\n\naclrtMemsetAsync"),
    ART_ROW(
        queue_run,
        "queue_run(model, feed, fetch, stream, before, turn, computed, over, ins, outs, /)\n--\n\n"
        "A run with its copies; gives 0 or step << 32 | code"),
    ART_ROW(graph_execute_async,
            "graph_execute_async(graph, stream, /)\n--\n\naclmdlRIExecuteAsync"),
    ART_ROW(watch_contexts,
            "watch_contexts(contexts, /)\n--\n\nWhile the dict holds any, Block joins its context"),
    ART_ROW(set_context, "set_context(context, /)\n--\n\naclrtSetCurrentContext"),
    ART_ROW(get_context, "get_context()\n--\n\naclrtGetCurrentContext; gives 0 for none"),
    ART_ROW(event_status, "event_status(event, /)\n--\n\naclrtQueryEventStatus; status or -code"),
    ART_ROW(stream_status, "stream_status(stream, /)\n--\n\naclrtStreamQuery; status or -code"),
    {NULL, NULL, 0, NULL},
};

/* An allocation on the device: the base of ascendrt.Memory. What is rare is a method of that. */
struct block {
  PyObject_HEAD uintptr_t address;
  uintptr_t context; /* that it was made in: threads that have none use it there; 0 for none */
  Py_ssize_t size_bytes;
  char closed;
};

static PyObject* block_new(PyTypeObject* type, PyObject* args, PyObject* names) {
  struct block* self = (struct block*)PyType_GenericNew(type, args, names);
  if (self != NULL) self->closed = 1;
  return (PyObject*)self;
}

/* 0 for a call that answered, -1 for one that raised. */
static int done(PyObject* answer) {
  Py_XDECREF(answer);
  return answer == NULL ? -1 : 0;
}

static int load_libraries(void) {
  PyObject* loader = PyImport_ImportModule("ascendrt._backend");
  PyObject* loaded = loader == NULL ? NULL : PyObject_CallMethod(loader, "load", NULL);
  Py_XDECREF(loader);
  return done(loaded);
}

/* A size of 1 byte or more; -1 with an exception for anything else. ascendrt/numbers.py has the
 * texts. */
static Py_ssize_t size_of_allocation(PyObject* given) {
  const Py_ssize_t size = PyLong_AsSsize_t(given);
  if (size > 0) return size;
  PyErr_Clear();
  PyObject* numbers = PyImport_ImportModule("ascendrt.numbers");
  PyObject* number =
      numbers == NULL ? NULL : PyObject_CallMethod(numbers, "allocation", "O", given);
  const Py_ssize_t checked = number == NULL ? -1 : PyLong_AsSsize_t(number);
  Py_XDECREF(number);
  Py_XDECREF(numbers);
  return checked;
}

static int block_init(PyObject* object, PyObject* args, PyObject* names) {
  static char* keywords[] = {"size_bytes", NULL};
  struct block* self = (struct block*)object;
  PyObject* given = NULL;
  void* pointer = NULL;
  aclrtContext context = NULL;
  if (!self->closed) {
    PyErr_SetString(PyExc_ValueError, "this Memory has its allocation already");
    return -1;
  }
  if (names == NULL && PyTuple_Size(args) == 1) {
    given = PyTuple_GetItem(args, 0);
  } else if (!PyArg_ParseTupleAndKeywords(args, names, "O:Memory", keywords, &given)) {
    return -1;
  }
  const Py_ssize_t size = size_of_allocation(given);
  if (size < 0) return -1;
  if (art_bind_symbol_count() == 0 && load_libraries() != 0) return -1;
  const aclError status = aclrtMalloc(&pointer, (size_t)size, ACL_MEM_MALLOC_HUGE_FIRST);
  if (status != 0) {
    return done(PyObject_CallMethod(object, "_not_allocated", "nl", size, (long)status));
  }
  self->address = (uintptr_t)pointer;
  self->size_bytes = size;
  self->context = aclrtGetCurrentContext(&context) == 0 ? (uintptr_t)context : 0;
  self->closed = 0;
  if (open_contexts != NULL && PyDict_Size(open_contexts) > 0) {
    return done(PyObject_CallMethod(object, "_join_context", NULL));
  }
  return 0;
}

static PyObject* block_close(PyObject* object, PyObject* nothing) {
  struct block* self = (struct block*)object;
  (void)nothing;
  if (!self->closed) {
    aclError status;
    self->closed = 1;
    PyThreadState* thread = PyEval_SaveThread();
    status = aclrtFree((void*)self->address);
    PyEval_RestoreThread(thread);
    if (status != 0) return PyObject_CallMethod(object, "_not_freed", "l", (long)status);
  }
  Py_RETURN_NONE;
}

static void block_finalize(PyObject* object) {
  PyObject *type, *value, *trace;
  if (((struct block*)object)->closed) return;
  PyErr_Fetch(&type, &value, &trace);
  if (done(PyObject_CallMethod(object, "_abandoned", NULL)) != 0) {
    PyErr_WriteUnraisable(object);
  }
  PyErr_Restore(type, value, trace);
}

static void block_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
  give_back(object);
  Py_DECREF(type);
}

static PyMethodDef block_methods[] = {
    {"close", block_close, METH_NOARGS,
     "close()\n--\n\nFree the memory; further calls do nothing.\n\n"
     "Raises: AclError when it was freed before."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef block_members[] = {
    {"size_bytes", T_PYSSIZET, offsetof(struct block, size_bytes), 0, "Units: bytes."},
    {"_address", T_ULONG, offsetof(struct block, address), 0, NULL},
    {"_context", T_ULONG, offsetof(struct block, context), 0, NULL},
    {"_closed", T_BOOL, offsetof(struct block, closed), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, "Block(size_bytes)\n--\n\nAn allocation of device memory."},  // inspect reads it
    {Py_tp_new, block_new},
    {Py_tp_init, block_init},
    {Py_tp_finalize, block_finalize},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_tp_members, block_members},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "ascendrt._fast.Block",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = block_slots,
};

static int add_block(PyObject* module) {
  PyObject* type = PyType_FromSpec(&block_spec);
  if (type != NULL && PyModule_AddObject(module, "Block", type) == 0) return 0;
  Py_XDECREF(type);
  return -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_block}, {0, NULL}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ascendrt._fast",
    .m_doc = "Fast calls of the object layer; see ascendrt/_lib.py.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__fast(void);

PyMODINIT_FUNC PyInit__fast(void) { return PyModuleDef_Init(&definition); }
