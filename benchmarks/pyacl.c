/* Rivals of the module `acl` for benchmarks/pyacl.py: raw METH_FASTCALL functions that do nothing
 * but take and give what the real calls do, and a loop over the ABI without Python. Must never use
 * the limited API: this is how fast an extension can be. */
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

/* () -> (value, code), as rt.get_device. */
static PyObject* none_to_pair(PyObject* self, PyObject* const* argv, Py_ssize_t argc) {
  PyObject* pair = PyTuple_New(2);
  (void)self, (void)argv, (void)argc;
  if (pair == NULL) return NULL;
  PyTuple_SET_ITEM(pair, 0, PyLong_FromLong(0));
  PyTuple_SET_ITEM(pair, 1, PyLong_FromLong(0));
  return pair;
}

/* (handle) -> (value, code), as rt.query_event_status. */
static PyObject* handle_to_pair(PyObject* self, PyObject* const* argv, Py_ssize_t argc) {
  if (argc != 1 || !PyLong_Check(argv[0])) return PyErr_Format(PyExc_TypeError, "one int");
  if (PyLong_AsUnsignedLongMask(argv[0]) == 0) return PyErr_Format(PyExc_ValueError, "null");
  return none_to_pair(self, argv, argc);
}

/* (int) -> code, as rt.peek_at_last_error. */
static PyObject* int_to_code(PyObject* self, PyObject* const* argv, Py_ssize_t argc) {
  (void)self;
  if (argc != 1) return PyErr_Format(PyExc_TypeError, "one int");
  const long value = PyLong_AsLong(argv[0]);
  if (value == -1 && PyErr_Occurred()) return NULL;
  return PyLong_FromLong(value);
}

typedef int (*record_function)(void*, void*);
typedef int (*synchronize_function)(void*);

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* (library, event, stream, rounds) -> ns of aclrtRecordEvent and aclrtSynchronizeStream from C. */
static PyObject* handoff(PyObject* self, PyObject* args) {
  const char* path;
  unsigned long event, stream, rounds;
  int failed = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "skkk", &path, &event, &stream, &rounds)) return NULL;
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  record_function record = (record_function)(intptr_t)dlsym(library, "aclrtRecordEvent");
  synchronize_function synchronize =
      (synchronize_function)(intptr_t)dlsym(library, "aclrtSynchronizeStream");
  const double start = now_ns();
  for (unsigned long i = 0; i < rounds; ++i) {
    failed |= record((void*)event, (void*)stream);
    failed |= synchronize((void*)stream);
  }
  const double elapsed = now_ns() - start;
  if (failed) return PyErr_Format(PyExc_RuntimeError, "a call failed");
  return PyFloat_FromDouble(elapsed / (double)rounds);
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    FAST(none_to_pair),
    FAST(handle_to_pair),
    FAST(int_to_code),
    {"handoff", handoff, METH_VARARGS, NULL},
    {0},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "pyacl_rivals",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_pyacl_rivals(void) { return PyModule_Create(&definition); }
