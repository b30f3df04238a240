/* What the generated and the hand-written parts of the Python module `acl` share.
 *
 * The module is a drop-in for the vendor's C extension: handles are ints, statuses come back as
 * ints, a wrong argument raises TypeError "<dotted name> args parse failed". It calls the ABI
 * through the table of libascendrt_bind.so, which ascendrt._pyacl fills when `acl` is imported.
 *
 *   gen/aclmodule.c          one function per call, method tables (generated)
 *   aclmodule.c              the modules, errors, lists
 *   aclmodule_dicts.c        calls that take or give dictionaries and lists
 *   aclmodule_callbacks.c    calls through which Python functions are called back; threads
 *   aclmodule_util.c         addresses of bytes and arrays
 *
 * Must never: include a header of the emulator, hold the GIL while a call may wait, or use
 * anything outside the limited API of CPython 3.10.
 */
#ifndef ASCENDRT_ACLMODULE_H_
#define ASCENDRT_ACLMODULE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "binding.h"
#include "gen/all.h"
#include "looks.h"

struct art_module {
  const char* name; /* below `acl`; "" is the module itself */
  PyMethodDef* methods;
};
extern const struct art_module art_modules[]; /* ends with a null name */

/* Raise TypeError for the first wrong argument. `spec` is "name:type name:type ...". The second
 * form has CPython's own texts, where the vendor's module leaves them. Both return null. */
PyObject* art_refuse(const char* name, const char* spec, PyObject* const* argv, Py_ssize_t argc);
PyObject* art_refuse_plainly(const char* name, const char* spec, PyObject* const* argv,
                             Py_ssize_t argc);

/* Raises `type` for a member or a value that the spec cannot tell of; returns -1. */
int art_refuse_part(PyObject* type, const char* name, int position, const char* argument,
                    PyObject* part, const char* problem);
/* A member of a list that must be a dict: borrowed, or null with TypeError. */
PyObject* art_dict_in(PyObject* list, Py_ssize_t index, const char* name, int position,
                      const char* argument);

/* A tuple that takes over `count` objects; null (and nothing leaked) when one of them is null. */
PyObject* art_tuple(int count, ...);

/* The same for two objects: most answers are a value and a status. */
static inline PyObject* art_pair(PyObject* first, PyObject* second) {
  PyObject* pair = first == NULL || second == NULL ? NULL : PyTuple_Pack(2, first, second);
  Py_XDECREF(first);
  Py_XDECREF(second);
  return pair;
}

/* str, or None for null. Bytes that are no UTF-8 are replaced. */
PyObject* art_text(const char* text);

/* A zeroed buffer of `size` bytes and a terminator; free with PyMem_Free. Null with ValueError when
 * `limit` is not 0 and `size` reaches it. */
char* art_buffer(unsigned long size, unsigned long limit);

/* A list of ints as a C array: letter i or I (4 bytes), k, K or L (8 bytes); `width` 2 reads pairs.
 */
struct art_list {
  void* data;
  Py_ssize_t count;
};
/* 0, or -1 with TypeError (no list, no ints) or ValueError (an int that does not fit). */
int art_list_read(struct art_list* list, PyObject* value, char letter, int width, const char* name,
                  int position, const char* argument);
void art_list_free(struct art_list* list);
/* -1 with ValueError when the lengths differ. */
int art_list_differ(Py_ssize_t first, Py_ssize_t second, const char* name, const char* first_name,
                    const char* second_name);

/* CPython's format units. 0, or -1 (an exception may be set; the caller replaces it). */
static inline int art_get_K(PyObject* value, unsigned long long* out) {
  if (!Py_IS_TYPE(value, &PyLong_Type) && !PyLong_Check(value)) return -1;
  *out = PyLong_AsUnsignedLongLongMask(value);
  return 0;
}

static inline int art_get_k(PyObject* value, unsigned long* out) {
  if (!Py_IS_TYPE(value, &PyLong_Type) && !PyLong_Check(value)) return -1;
  *out = PyLong_AsUnsignedLongMask(value);
  return 0;
}

/* I, H and B wrap and take whatever has __index__. */
static inline int art_masked(PyObject* value, unsigned long* out) {
  *out = PyLong_AsUnsignedLongMask(value);
  return *out == (unsigned long)-1 && PyErr_Occurred() ? -1 : 0;
}

static inline int art_get_I(PyObject* value, unsigned int* out) {
  unsigned long wide;
  if (art_masked(value, &wide)) return -1;
  *out = (unsigned int)wide;
  return 0;
}

static inline int art_get_H(PyObject* value, unsigned short* out) {
  unsigned long wide;
  if (art_masked(value, &wide)) return -1;
  *out = (unsigned short)wide;
  return 0;
}

static inline int art_get_B(PyObject* value, unsigned char* out) {
  unsigned long wide;
  if (art_masked(value, &wide)) return -1;
  *out = (unsigned char)wide;
  return 0;
}

/* l, i, h and b refuse what does not fit. */
static inline int art_get_l(PyObject* value, long* out) {
  *out = PyLong_AsLong(value);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static inline int art_get_L(PyObject* value, long long* out) {
  *out = PyLong_AsLongLong(value);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static inline int art_get_i(PyObject* value, int* out) {
  long wide;
  if (art_get_l(value, &wide) || wide < INT_MIN || wide > INT_MAX) return -1;
  *out = (int)wide;
  return 0;
}

static inline int art_get_h(PyObject* value, short* out) {
  long wide;
  if (art_get_l(value, &wide) || wide < SHRT_MIN || wide > SHRT_MAX) return -1;
  *out = (short)wide;
  return 0;
}

static inline int art_get_b(PyObject* value, unsigned char* out) {
  long wide;
  if (art_get_l(value, &wide) || wide < 0 || wide > UCHAR_MAX) return -1;
  *out = (unsigned char)wide;
  return 0;
}

static inline int art_get_d(PyObject* value, double* out) {
  *out = PyFloat_AsDouble(value);
  return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static inline int art_get_f(PyObject* value, float* out) {
  double wide;
  if (art_get_d(value, &wide)) return -1;
  *out = (float)wide;
  return 0;
}

/* The text lives as long as the str. */
static inline int art_get_s(PyObject* value, const char** out) {
  Py_ssize_t size;
  if (!PyUnicode_Check(value)) return -1;
  *out = PyUnicode_AsUTF8AndSize(value, &size);
  return *out == NULL || strlen(*out) != (size_t)size ? -1 : 0;
}

/* Runs one statement while other Python threads may run. */
#define ART_WITHOUT_GIL(statement)                  \
  do {                                              \
    PyThreadState* art_state = PyEval_SaveThread(); \
    statement;                                      \
    PyEval_RestoreThread(art_state);                \
  } while (0)

static inline PyObject* art_code(long code) { return PyLong_FromLong(code); }
static inline PyObject* art_address(const void* address) {
  return PyLong_FromUnsignedLong((unsigned long)(uintptr_t)address);
}

#endif /* ASCENDRT_ACLMODULE_H_ */
