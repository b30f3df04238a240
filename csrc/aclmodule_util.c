/* See aclmodule.h. Owns: addresses of bytes and arrays, and the reverse.
 *
 * An address does not keep its object alive: the caller does. NumPy is imported by the array
 * functions alone.
 */
#include "gen/aclmodule_by_hand.h"

enum { kWritable = 0x200 }; /* PyBUF_WRITE, which the limited API names since 3.11 only */

static PyObject* numpy(void) { return PyImport_ImportModule("numpy"); }

static int deprecated(const char* name, const char* instead) {
  return PyErr_WarnFormat(PyExc_DeprecationWarning, 1, "acl.util.%s is deprecated, use %s", name,
                          instead);
}

/* 0, or -1 with ValueError when it is no array. */
static int check_array(PyObject* array, const char* name) {
  PyObject* module = numpy();
  PyObject* type = module == NULL ? NULL : PyObject_GetAttrString(module, "ndarray");
  const int is_array = type == NULL ? -1 : PyObject_IsInstance(array, type);
  Py_XDECREF(module);
  Py_XDECREF(type);
  if (is_array == 0)
    PyErr_Format(PyExc_ValueError, "acl.util.%s: %S is no numpy.ndarray", name, Py_TYPE(array));
  return is_array == 1 ? 0 : -1;
}

/* array.ctypes.data, without ctypes. */
static PyObject* data_address(PyObject* array) {
  PyObject* interface = PyObject_GetAttrString(array, "__array_interface__");
  PyObject* pair = interface == NULL ? NULL : PyMapping_GetItemString(interface, "data");
  PyObject* address = pair == NULL ? NULL : PySequence_GetItem(pair, 0);
  Py_XDECREF(interface);
  Py_XDECREF(pair);
  return address;
}

PyObject* hand_util_numpy_to_ptr(PyObject* array) {
  if (check_array(array, "numpy_to_ptr") || deprecated("numpy_to_ptr", "bytes_to_ptr")) return NULL;
  return data_address(array);
}

PyObject* hand_util_numpy_contiguous_to_ptr(PyObject* array) {
  if (check_array(array, "numpy_contiguous_to_ptr") ||
      deprecated("numpy_contiguous_to_ptr", "bytes_to_ptr"))
    return NULL;
  PyObject* module = numpy();
  PyObject* contiguous =
      module == NULL ? NULL : PyObject_CallMethod(module, "ascontiguousarray", "O", array);
  Py_XDECREF(module);
  if (contiguous == NULL) return NULL;
  return art_pair(data_address(contiguous), contiguous);
}

/* NumPy's number of a type -> its dtype. */
static PyObject* dtype_of(PyObject* module, int number) {
  static const char letters[] = "?bBhHiIlLqQfdgFDGSUVMme";
  for (const char* letter = letters; *letter != '\0'; ++letter) {
    PyObject* dtype = PyObject_CallMethod(module, "dtype", "s#", letter, (Py_ssize_t)1);
    PyObject* found = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "num");
    const long value = found == NULL ? -1 : PyLong_AsLong(found);
    Py_XDECREF(found);
    if (found == NULL || value == number) {
      if (found == NULL) Py_CLEAR(dtype);
      return dtype;
    }
    Py_DECREF(dtype);
  }
  return PyErr_Format(PyExc_ValueError, "acl.util.ptr_to_numpy: NumPy has no type number %d",
                      number);
}

/* Bytes of an array of this shape; -1 with an exception. */
static Py_ssize_t bytes_of(PyObject* shape, PyObject* dtype) {
  PyObject* item = PyObject_GetAttrString(dtype, "itemsize");
  Py_ssize_t bytes = item == NULL ? -1 : PyLong_AsSsize_t(item);
  Py_XDECREF(item);
  for (Py_ssize_t i = 0; bytes >= 0 && i < PyTuple_Size(shape); ++i) {
    const Py_ssize_t length = PyNumber_AsSsize_t(PyTuple_GetItem(shape, i), PyExc_OverflowError);
    if (length == -1 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Format(
          PyExc_TypeError,
          "acl.util.ptr_to_numpy args parse failed: argument 2 (shape) must hold int, not %R",
          PyTuple_GetItem(shape, i));
      return -1;
    }
    if (length < 0 || (length > 0 && bytes > PY_SSIZE_T_MAX / length)) {
      PyErr_Format(PyExc_ValueError, "acl.util.ptr_to_numpy: %R is no possible shape", shape);
      return -1;
    }
    bytes *= length;
  }
  return bytes;
}

static PyObject* view(PyObject* module, unsigned long ptr, PyObject* shape, PyObject* dtype) {
  const Py_ssize_t bytes = bytes_of(shape, dtype);
  PyObject* memory =
      bytes < 0 ? NULL : PyMemoryView_FromMemory((char*)(uintptr_t)ptr, bytes, kWritable);
  PyObject* array =
      memory == NULL ? NULL : PyObject_CallMethod(module, "ndarray", "OOO", shape, dtype, memory);
  Py_XDECREF(memory);
  return array;
}

static int refuse_null(unsigned long ptr, const char* name) {
  if (ptr != 0) return 0;
  PyErr_Format(PyExc_ValueError, "acl.util.%s: the pointer is 0 (did the allocation fail?)", name);
  return -1;
}

PyObject* hand_util_ptr_to_numpy(unsigned long ptr, PyObject* shape, int type) {
  static const char name[] = "ptr_to_numpy";
  if (!PyTuple_Check(shape))
    return PyErr_Format(PyExc_TypeError,
                        "acl.util.%s args parse failed: argument 2 (shape) must be a tuple, not %S",
                        name, Py_TYPE(shape));
  if (refuse_null(ptr, name) || deprecated(name, "ptr_to_bytes and numpy.frombuffer")) return NULL;
  PyObject* module = numpy();
  PyObject* dtype = module == NULL ? NULL : dtype_of(module, type);
  PyObject* array = dtype == NULL ? NULL : view(module, ptr, shape, dtype);
  Py_XDECREF(module);
  Py_XDECREF(dtype);
  return array;
}

PyObject* hand_util_bytes_to_ptr(PyObject* data) {
  if (!PyBytes_Check(data))
    return PyErr_Format(PyExc_ValueError, "acl.util.bytes_to_ptr: %S is not bytes", Py_TYPE(data));
  return art_address(PyBytes_AsString(data));
}

PyObject* hand_util_ptr_to_bytes(unsigned long ptr, unsigned long size) {
  if (refuse_null(ptr, "ptr_to_bytes")) return NULL;
  if (size > (unsigned long)PY_SSIZE_T_MAX) return PyErr_NoMemory();
  return PyBytes_FromStringAndSize((const char*)(uintptr_t)ptr, (Py_ssize_t)size);
}
