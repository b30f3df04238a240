/* See aclmodule.h. Owns: the module and its submodules, refusals, tuples, lists of ints. */
#include "aclmodule.h"

#include <stdarg.h>

enum { kMaxToken = 64 };

/* One "name:type" of a spec; returns what follows it, or null at the end. */
static const char* next_token(const char* spec, char* name, char* type) {
  int length = 0;
  if (spec == NULL || sscanf(spec, " %63[^:]:%63s%n", name, type, &length) != 2) return NULL;
  return spec + length;
}

static int spec_length(const char* spec) {
  char name[kMaxToken], type[kMaxToken];
  int count = 0;
  while ((spec = next_token(spec, name, type)) != NULL) ++count;
  return count;
}

static int wrong_int(PyObject* value, char letter) {
  union {
    unsigned long k;
    unsigned long long K;
    unsigned int I;
    unsigned short H;
    unsigned char B;
    int i;
    short h;
    long l;
    long long L;
  } out;
  switch (letter) {
    case 'k':
      return art_get_k(value, &out.k);
    case 'K':
      return art_get_K(value, &out.K);
    case 'I':
      return art_get_I(value, &out.I);
    case 'H':
      return art_get_H(value, &out.H);
    case 'B':
      return art_get_B(value, &out.B);
    case 'i':
      return art_get_i(value, &out.i);
    case 'h':
      return art_get_h(value, &out.h);
    case 'l':
      return art_get_l(value, &out.l);
    case 'L':
      return art_get_L(value, &out.L);
    default:
      return art_get_b(value, &out.B);
  }
}

/* What the argument should have been, or null when it is right. */
static const char* expected(PyObject* value, const char* type) {
  const char* text;
  double number;
  if (strcmp(type, "dict") == 0) return PyDict_Check(value) ? NULL : "a dict";
  if (strcmp(type, "object") == 0) return NULL;
  if (strcmp(type, "list") == 0 || type[0] == '[') return PyList_Check(value) ? NULL : "a list";
  if (strcmp(type, "callable") == 0) return PyCallable_Check(value) ? NULL : "callable";
  if (strcmp(type, "callable?") == 0)
    return value == Py_None || PyCallable_Check(value) ? NULL : "callable or None";
  if (type[0] == 's') {
    if (!PyUnicode_Check(value)) return "str";
    return art_get_s(value, &text) ? "a str without NUL that UTF-8 can hold" : NULL;
  }
  if (type[0] == 'f' || type[0] == 'd') return art_get_d(value, &number) ? "a number" : NULL;
  if (!wrong_int(value, type[0])) return NULL;
  if (PyLong_Check(value)) return "in the range of its C type";
  PyObject* index = PyNumber_Index(value); /* true for NumPy's integers, not for its arrays */
  Py_XDECREF(index);
  return index != NULL ? "int (write int(...) around it)" : "int";
}

static int count_is_wrong(const char* spec, Py_ssize_t argc) {
  const Py_ssize_t total = spec_length(spec);
  const Py_ssize_t least = total - (strchr(spec, '?') != NULL);
  return argc < least || argc > total;
}

/* "float", "numpy.int64": a new str. */
static PyObject* type_name(PyObject* value) {
  PyObject* type = (PyObject*)Py_TYPE(value);
  PyObject* module = PyObject_GetAttrString(type, "__module__");
  PyObject* name = PyObject_GetAttrString(type, "__qualname__");
  PyObject* dotted = name;
  if (module != NULL && name != NULL && PyUnicode_CompareWithASCIIString(module, "builtins") != 0) {
    dotted = PyUnicode_FromFormat("%U.%U", module, name);
    Py_DECREF(name);
  }
  Py_XDECREF(module);
  return dotted;
}

PyObject* art_refuse(const char* name, const char* spec, PyObject* const* argv, Py_ssize_t argc) {
  static const char prefix[] = "args parse failed";
  char argument[kMaxToken], type[kMaxToken];
  PyErr_Clear();
  if (count_is_wrong(spec, argc))
    return PyErr_Format(PyExc_TypeError, "%s %s: it takes %d argument(s) (%s), %zd given", name,
                        prefix, spec_length(spec), spec, argc);
  for (Py_ssize_t i = 0; i < argc && (spec = next_token(spec, argument, type)) != NULL; ++i) {
    const char* wanted = expected(argv[i], type);
    PyErr_Clear();
    if (wanted == NULL) continue;
    PyObject* given = type_name(argv[i]);
    if (given != NULL)
      PyErr_Format(PyExc_TypeError, "%s %s: argument %zd (%s) must be %s, not %.80R (%U)", name,
                   prefix, i + 1, argument, wanted, argv[i], given);
    Py_XDECREF(given);
    return NULL;
  }
  return PyErr_Format(PyExc_TypeError, "%s %s", name, prefix);
}

PyObject* art_refuse_plainly(const char* name, const char* spec, PyObject* const* argv,
                             Py_ssize_t argc) {
  char argument[kMaxToken], type[kMaxToken];
  const int total = spec_length(spec);
  PyErr_Clear();
  if (argc != total)
    return PyErr_Format(PyExc_TypeError, "function takes exactly %d argument%s (%zd given)", total,
                        total == 1 ? "" : "s", argc);
  for (Py_ssize_t i = 0; i < argc && (spec = next_token(spec, argument, type)) != NULL; ++i) {
    const char* wanted = expected(argv[i], type);
    PyErr_Clear();
    if (wanted == NULL) continue;
    if (strcmp(wanted, "callable") == 0) {
      PyErr_SetString(PyExc_TypeError, "parameter must be callable");
      return NULL;
    }
    PyObject* given = type_name(argv[i]);
    if (given != NULL)
      PyErr_Format(PyExc_TypeError, "argument %zd must be %s, not %U", i + 1, wanted, given);
    Py_XDECREF(given);
    return NULL;
  }
  return PyErr_Format(PyExc_TypeError, "%s: bad argument", name);
}

int art_refuse_part(PyObject* type, const char* name, int position, const char* argument,
                    PyObject* part, const char* problem) {
  PyErr_Clear();
  PyErr_Format(type, "%s args parse failed: argument %d (%s): %.80R %s", name, position, argument,
               part, problem);
  return -1;
}

PyObject* art_dict_in(PyObject* list, Py_ssize_t index, const char* name, int position,
                      const char* argument) {
  PyObject* member = PyList_GetItem(list, index);
  if (member == NULL || PyDict_Check(member)) return member;
  art_refuse_part(PyExc_TypeError, name, position, argument, member, "is no dict");
  return NULL;
}

PyObject* art_tuple(int count, ...) {
  va_list values;
  PyObject* tuple = PyTuple_New(count);
  int failed = tuple == NULL;
  va_start(values, count);
  for (int i = 0; i < count; ++i) {
    PyObject* value = va_arg(values, PyObject*);
    failed |= value == NULL;
    if (tuple != NULL)
      PyTuple_SetItem(tuple, i, value);
    else
      Py_XDECREF(value);
  }
  va_end(values);
  if (failed) Py_CLEAR(tuple);
  return tuple;
}

PyObject* art_text(const char* text) {
  if (text == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

char* art_buffer(unsigned long size, unsigned long limit) {
  char* buffer;
  if (limit != 0 && size >= limit) {
    PyErr_Format(PyExc_ValueError, "a length of %lu is too much: it must be below %lu", size,
                 limit);
    return NULL;
  }
  buffer = size > (unsigned long)PY_SSIZE_T_MAX - 1 ? NULL : PyMem_Calloc(1, size + 1);
  if (buffer == NULL) PyErr_NoMemory();
  return buffer;
}

/* Writes one member; -1 when it does not fit (PyLong_AsLongLong leaves OverflowError). */
static int store(void* place, char letter, PyObject* integer) {
  long long value;
  if (letter == 'k' || letter == 'K') {
    *(unsigned long long*)place = PyLong_AsUnsignedLongLongMask(integer);
    return 0;
  }
  value = PyLong_AsLongLong(integer);
  if (value == -1 && PyErr_Occurred()) return -1;
  if (letter == 'L') {
    *(long long*)place = value;
    return 0;
  }
  if (letter == 'i' ? value < INT_MIN || value > INT_MAX : value < 0 || value > UINT_MAX) return -1;
  *(unsigned int*)place = (unsigned int)value;
  return 0;
}

/* The ints of one member of the list: itself, or the two of a pair. */
static PyObject* part_of(PyObject* member, int width, int index) {
  if (width == 1) {
    Py_INCREF(member);
    return member;
  }
  if (!PySequence_Check(member) || PySequence_Size(member) != width) {
    PyErr_Clear();
    return NULL;
  }
  return PySequence_GetItem(member, index);
}

/* One int of a member, which is held: what makes a number of it may empty the list. */
static int read_part(void* place, PyObject* member, char letter, int width, int index,
                     const char* name, int position, const char* argument) {
  PyObject* part = part_of(member, width, index);
  PyObject* integer = part == NULL ? NULL : PyNumber_Index(part);
  Py_XDECREF(part);
  if (integer == NULL)
    return art_refuse_part(PyExc_TypeError, name, position, argument, member,
                           width == 1 ? "is no int" : "is no pair of ints");
  const int failed = store(place, letter, integer);
  Py_DECREF(integer);
  if (!failed) return 0;
  return art_refuse_part(PyExc_ValueError, name, position, argument, member,
                         "does not fit its C type");
}

int art_list_read(struct art_list* list, PyObject* value, char letter, int width, const char* name,
                  int position, const char* argument) {
  const size_t size = letter == 'i' || letter == 'I' ? 4 : 8;
  list->count = PyList_Size(value);
  list->data = PyMem_Calloc((size_t)list->count * (size_t)width + 1, size);
  if (list->data == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < list->count * width; ++i) {
    PyObject* member = PyList_GetItem(value, i / width);
    if (member == NULL) return -1;
    Py_INCREF(member);
    const int failed = read_part((char*)list->data + (size_t)i * size, member, letter, width,
                                 (int)(i % width), name, position, argument);
    Py_DECREF(member);
    if (failed) return -1;
  }
  return 0;
}

void art_list_free(struct art_list* list) { PyMem_Free(list->data); }

int art_list_differ(Py_ssize_t first, Py_ssize_t second, const char* name, const char* first_name,
                    const char* second_name) {
  if (first == second) return 0;
  PyErr_Format(PyExc_ValueError, "%s: %s stands for %zd, but %s has %zd members", name, first_name,
               first, second_name, second);
  return -1;
}

/* module.__getattr__: says what is meant instead of a name that does not exist. `self` is the name
 * of the module. */
static PyObject* no_attribute(PyObject* self, PyObject* name) {
  PyObject* helper = PyImport_ImportModule("ascendrt._pyacl");
  PyObject* result = NULL;
  if (helper != NULL) {
    result = PyObject_CallMethod(helper, "no_attribute", "OO", self, name);
    Py_DECREF(helper);
  }
  return result;
}

static PyMethodDef getattr_method = {"__getattr__", no_attribute, METH_O, NULL};

static int fill(PyObject* module, const char* name, PyMethodDef* methods) {
  PyObject* text = PyUnicode_FromString(name);
  PyObject* helper = text == NULL ? NULL : PyCFunction_New(&getattr_method, text);
  int failed = helper == NULL || PyModule_AddFunctions(module, methods) ||
               PyObject_SetAttrString(module, "__getattr__", helper);
  Py_XDECREF(text);
  Py_XDECREF(helper);
  return failed ? -1 : 0;
}

static int add_submodule(PyObject* parent, const struct art_module* entry) {
  char dotted[kMaxToken];
  snprintf(dotted, sizeof(dotted), "acl.%s", entry->name);
  PyObject* module = PyModule_New(dotted);
  int failed = module == NULL || fill(module, dotted, entry->methods) ||
               PyDict_SetItemString(PyImport_GetModuleDict(), dotted, module) ||
               PyObject_SetAttrString(parent, entry->name, module);
  Py_XDECREF(module);
  return failed ? -1 : 0;
}

/* Binds the table first: without libraries there is no module, as with the vendor's. */
static int load_libraries(PyObject* module) {
  PyObject* helper = PyImport_ImportModule("ascendrt._pyacl");
  PyObject* done = NULL;
  if (helper != NULL) done = PyObject_CallMethod(helper, "imported", "O", module);
  Py_XDECREF(helper);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

static int execute(PyObject* module) {
  if (load_libraries(module)) return -1;
  for (const struct art_module* entry = art_modules; entry->name != NULL; ++entry) {
    const int failed =
        entry->name[0] == '\0' ? fill(module, "acl", entry->methods) : add_submodule(module, entry);
    if (failed) return -1;
  }
  return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void*)execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "acl",
    .m_doc = "The vendor's Python interface of AscendCL, on an NPU or on an emulated one.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_acl(void) { return PyModuleDef_Init(&definition); }
