/* See aclmodule.h. Owns: calls whose argument says how another one is to be read (options,
 * attributes, kernels), texts of a length that C tells, and the memory of acl.media. */
#include "gen/aclmodule_by_hand.h"

enum { kMaxName = 4096 };

PyObject* hand_app_log(int logLevel, const char* message) {
  aclAppLog((aclLogLevel)logLevel, "python", "python", 0, "%s", message);
  Py_RETURN_NONE;
}

/* An int, or a dict with one int: values of options come in both forms. */
static uint32_t option_value(PyObject* value) {
  unsigned long long number = 0;
  Py_ssize_t position = 0;
  PyObject *key, *inner;
  if (value != NULL && PyDict_Check(value))
    value = PyDict_Next(value, &position, &key, &inner) ? inner : NULL;
  if (value == NULL || art_get_K(value, &number)) return 0;
  return (uint32_t)number;
}

/* [{id_key: a, 'value': v}, ...] as pairs of numbers; null with TypeError. */
static uint32_t* option_pairs(PyObject* list, const char* id_key, const char* name, int position,
                              const char* argument) {
  const Py_ssize_t count = PyList_Size(list);
  uint32_t* pairs = PyMem_Calloc((size_t)count * 2 + 1, sizeof(*pairs));
  if (pairs == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; pairs != NULL && i < count; ++i) {
    PyObject* entry = art_dict_in(list, i, name, position, argument);
    if (entry == NULL) {
      PyMem_Free(pairs);
      return NULL;
    }
    pairs[2 * i] = option_value(PyDict_GetItemString(entry, id_key));
    pairs[2 * i + 1] = option_value(PyDict_GetItemString(entry, "value"));
  }
  return pairs;
}

/* The caller frees options.options. */
static int read_load_options(PyObject* list, aclrtBinaryLoadOptions* options, const char* name,
                             int position) {
  uint32_t* pairs = option_pairs(list, "type", name, position, "options");
  if (pairs == NULL) return -1;
  options->numOpt = (size_t)PyList_Size(list);
  options->options = PyMem_Calloc(options->numOpt + 1, sizeof(*options->options));
  for (size_t i = 0; options->options != NULL && i < options->numOpt; ++i) {
    options->options[i].type = (aclrtBinaryLoadOptionType)pairs[2 * i];
    options->options[i].value.rsv[0] = pairs[2 * i + 1];
  }
  PyMem_Free(pairs);
  if (options->options == NULL) PyErr_NoMemory();
  return options->options == NULL ? -1 : 0;
}

static PyObject* load_binary(const char* path, const void* data, size_t length, PyObject* list,
                             const char* name) {
  aclrtBinaryLoadOptions options = {0};
  aclrtBinHandle handle = NULL;
  aclError code;
  if (read_load_options(list, &options, name, path != NULL ? 2 : 3)) return NULL;
  aclrtBinaryLoadOptions* given = options.numOpt == 0 ? NULL : &options;
  if (path != NULL)
    code = aclrtBinaryLoadFromFile(path, given, &handle);
  else
    code = aclrtBinaryLoadFromData(data, length, given, &handle);
  PyMem_Free(options.options);
  return art_pair(art_address(handle), art_code(code));
}

PyObject* hand_rt_binary_load_from_file(const char* binPath, PyObject* options) {
  return load_binary(binPath, NULL, 0, options, "acl.rt.binary_load_from_file");
}

PyObject* hand_rt_binary_load_from_data(unsigned long data, unsigned long length,
                                        PyObject* options) {
  return load_binary(NULL, (const void*)data, length, options, "acl.rt.binary_load_from_data");
}

/* The caller frees cfg.attrs. */
static int read_launch_config(PyObject* list, aclrtLaunchKernelCfg* cfg, const char* name) {
  uint32_t* pairs = option_pairs(list, "id", name, 4, "cfg");
  if (pairs == NULL) return -1;
  cfg->numAttrs = (size_t)PyList_Size(list);
  cfg->attrs = PyMem_Calloc(cfg->numAttrs + 1, sizeof(*cfg->attrs));
  for (size_t i = 0; cfg->attrs != NULL && i < cfg->numAttrs; ++i) {
    cfg->attrs[i].id = (aclrtLaunchKernelAttrId)pairs[2 * i];
    cfg->attrs[i].value.rsv[0] = pairs[2 * i + 1];
  }
  PyMem_Free(pairs);
  if (cfg->attrs == NULL) PyErr_NoMemory();
  return cfg->attrs == NULL ? -1 : 0;
}

PyObject* hand_rt_launch_kernel_with_config(unsigned long funcHandle, unsigned int numBlocks,
                                            unsigned long stream, PyObject* cfg,
                                            unsigned long argsHandle, unsigned long reserve) {
  aclrtLaunchKernelCfg read = {0};
  aclError code;
  if (read_launch_config(cfg, &read, "acl.rt.launch_kernel_with_config")) return NULL;
  ART_WITHOUT_GIL(code = aclrtLaunchKernelWithConfig((aclrtFuncHandle)funcHandle, numBlocks,
                                                     (aclrtStream)stream, &read,
                                                     (aclrtArgsHandle)argsHandle, (void*)reserve));
  PyMem_Free(read.attrs);
  return art_code(code);
}

/* The place holders are [{'addrOffset': a, 'dataOffset': d}, ...]; the caller frees the result. */
static aclrtPlaceHolderInfo* place_holders(PyObject* list, const char* name) {
  const Py_ssize_t count = PyList_Size(list);
  aclrtPlaceHolderInfo* infos = PyMem_Calloc((size_t)count + 1, sizeof(*infos));
  if (infos == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; infos != NULL && i < count; ++i) {
    PyObject* entry = art_dict_in(list, i, name, 7, "placeHolders");
    if (entry == NULL) {
      PyMem_Free(infos);
      return NULL;
    }
    infos[i].addrOffset = option_value(PyDict_GetItemString(entry, "addrOffset"));
    infos[i].dataOffset = option_value(PyDict_GetItemString(entry, "dataOffset"));
  }
  return infos;
}

PyObject* hand_rt_launch_kernel_with_host_args(unsigned long funcHandle, unsigned int numBlocks,
                                               unsigned long stream, PyObject* cfg,
                                               unsigned long hostArgs, unsigned long argsSize,
                                               PyObject* placeHolders,
                                               unsigned long placeHolderNum) {
  static const char name[] = "acl.rt.launch_kernel_with_host_args";
  aclrtLaunchKernelCfg read = {0};
  aclError code;
  if (art_list_differ((Py_ssize_t)placeHolderNum, PyList_Size(placeHolders), name, "placeHolderNum",
                      "placeHolders") ||
      read_launch_config(cfg, &read, name))
    return NULL;
  aclrtPlaceHolderInfo* infos = place_holders(placeHolders, name);
  if (infos == NULL) {
    PyMem_Free(read.attrs);
    return NULL;
  }
  ART_WITHOUT_GIL(code = aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)funcHandle, numBlocks,
                                                       (aclrtStream)stream, &read, (void*)hostArgs,
                                                       argsSize, infos, placeHolderNum));
  PyMem_Free(infos);
  PyMem_Free(read.attrs);
  return art_code(code);
}

PyObject* hand_rt_wait_and_reset_notify(unsigned long notify, unsigned long stream,
                                        long long timeout) {
  aclError code;
  if (timeout < 0 || timeout > UINT_MAX)
    return PyErr_Format(PyExc_TypeError,
                        "acl.rt.wait_and_reset_notify args parse failed: argument 3 (timeout) is "
                        "%lld, it must lie between 0 and 4294967295",
                        timeout);
  ART_WITHOUT_GIL(
      code = aclrtWaitAndResetNotify((aclrtNotify)notify, (aclrtStream)stream, (uint32_t)timeout));
  return art_code(code);
}

enum value_kind { kInt32, kPath, kAddress, kSize };

static enum value_kind kind_of(int attr) {
  switch (attr) {
    case ACL_MDL_PRIORITY_INT32:
    case ACL_MDL_WITHOUT_GRAPH_INT32:
      return kInt32;
    case ACL_MDL_PATH_PTR:
    case ACL_MDL_WEIGHT_PATH_PTR:
      return kPath;
    case ACL_MDL_MEM_ADDR_PTR:
    case ACL_MDL_WEIGHT_ADDR_PTR:
    case ACL_MDL_WORKSPACE_ADDR_PTR:
    case ACL_MDL_INPUTQ_ADDR_PTR:
    case ACL_MDL_OUTPUTQ_ADDR_PTR:
    case ACL_MDL_MODEL_DESC_PTR:
    case ACL_MDL_KERNEL_PTR:
    case ACL_MDL_KERNEL_ARGS_PTR:
    case ACL_MDL_STATIC_TASK_PTR:
    case ACL_MDL_DYNAMIC_TASK_PTR:
    case ACL_MDL_FIFO_PTR:
      return kAddress;
    default:
      return kSize;
  }
}

/* `value` is read as the attribute wants it: an int of 32 or 64 bits, an address, or a path. */
PyObject* hand_mdl_set_config_opt(unsigned long handle, int attr, PyObject* value) {
  static const char* const specs[] = {
      "handle:object attr:object value:i", "handle:object attr:object value:s",
      "handle:object attr:object value:k", "handle:object attr:object value:K"};
  union {
    int i;
    const char* s;
    unsigned long k;
    unsigned long long K;
  } read = {0};
  int wrong;
  size_t size = sizeof(read);
  const enum value_kind kind = kind_of(attr);
  switch (kind) {
    case kInt32:
      wrong = art_get_i(value, &read.i);
      size = sizeof(read.i);
      break;
    case kPath:
      wrong = art_get_s(value, &read.s);
      break;
    case kAddress:
      wrong = art_get_k(value, &read.k);
      break;
    default:
      wrong = art_get_K(value, &read.K);
      break;
  }
  if (wrong)
    return art_refuse("acl.mdl.set_config_opt", specs[kind], (PyObject*[]){Py_None, Py_None, value},
                      3);
  return art_code(
      aclmdlSetConfigOpt((aclmdlConfigHandle*)handle, (aclmdlConfigAttr)attr, &read, size));
}

PyObject* hand_mdl_set_exec_config_opt(unsigned long handle, unsigned long attr,
                                       unsigned int value) {
  const unsigned long long wide = value; /* the low half comes first: both widths read right */
  const int is_wide = attr >= ACL_MDL_WORK_ADDR_PTR && attr <= ACL_MDL_MEC_TIMETHR_SIZET;
  return art_code(aclmdlSetExecConfigOpt((aclmdlExecConfigHandle*)handle,
                                         (aclmdlExecConfigAttr)attr, &wide, is_wide ? 8 : 4));
}

PyObject* hand_mdl_create_and_get_op_desc(unsigned int deviceId, unsigned int streamId,
                                          unsigned int taskId, unsigned long opNameLen) {
  aclTensorDesc *input = NULL, *output = NULL;
  size_t inputs = 0, outputs = 0;
  char name[kMaxName + 1] = "";
  aclError code = ACL_ERROR_INVALID_PARAM;
  if (opNameLen <= kMaxName)
    code = aclmdlCreateAndGetOpDesc(deviceId, streamId, taskId, name, opNameLen, &input, &inputs,
                                    &output, &outputs);
  return art_tuple(6, art_text(name), art_address(input), PyLong_FromSize_t(inputs),
                   art_address(output), PyLong_FromSize_t(outputs), art_code(code));
}

#define FIELD(member) {#member, offsetof(aclAippInfo, member), sizeof(((aclAippInfo*)0)->member)}
static const struct field {
  const char* name;
  size_t offset;
  size_t size;
} aipp_ints[] = {
    FIELD(inputFormat),       FIELD(srcImageSizeW),    FIELD(srcImageSizeH),
    FIELD(cropSwitch),        FIELD(loadStartPosW),    FIELD(loadStartPosH),
    FIELD(cropSizeW),         FIELD(cropSizeH),        FIELD(resizeSwitch),
    FIELD(resizeOutputW),     FIELD(resizeOutputH),    FIELD(paddingSwitch),
    FIELD(leftPaddingSize),   FIELD(rightPaddingSize), FIELD(topPaddingSize),
    FIELD(bottomPaddingSize), FIELD(cscSwitch),        FIELD(rbuvSwapSwitch),
    FIELD(axSwapSwitch),      FIELD(singleLineMode),   FIELD(matrixR0C0),
    FIELD(matrixR0C1),        FIELD(matrixR0C2),       FIELD(matrixR1C0),
    FIELD(matrixR1C1),        FIELD(matrixR1C2),       FIELD(matrixR2C0),
    FIELD(matrixR2C1),        FIELD(matrixR2C2),       FIELD(outputBias0),
    FIELD(outputBias1),       FIELD(outputBias2),      FIELD(inputBias0),
    FIELD(inputBias1),        FIELD(inputBias2),       FIELD(meanChn0),
    FIELD(meanChn1),          FIELD(meanChn2),         FIELD(meanChn3),
    FIELD(srcFormat),         FIELD(srcDatatype),      FIELD(srcDimNum),
    FIELD(shapeCount),
};
static const struct field aipp_floats[] = {
    FIELD(minChn0),     FIELD(minChn1),     FIELD(minChn2),     FIELD(minChn3),
    FIELD(varReciChn0), FIELD(varReciChn1), FIELD(varReciChn2), FIELD(varReciChn3),
};

static PyObject* aipp_int(const aclAippInfo* info, const struct field* field) {
  const char* place = (const char*)info + field->offset;
  int8_t narrow;
  int32_t middle;
  size_t wide;
  if (field->size == sizeof(narrow)) return PyLong_FromLong((memcpy(&narrow, place, 1), narrow));
  if (field->size == sizeof(middle)) return PyLong_FromLong((memcpy(&middle, place, 4), middle));
  return PyLong_FromSize_t((memcpy(&wide, place, 8), wide));
}

static PyObject* aipp_dict(const aclAippInfo* info) {
  PyObject* dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < sizeof(aipp_ints) / sizeof(aipp_ints[0]); ++i) {
    PyObject* value = aipp_int(info, &aipp_ints[i]);
    if (value == NULL || PyDict_SetItemString(dict, aipp_ints[i].name, value)) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  for (size_t i = 0; dict != NULL && i < sizeof(aipp_floats) / sizeof(aipp_floats[0]); ++i) {
    float number;
    memcpy(&number, (const char*)info + aipp_floats[i].offset, sizeof(number));
    PyObject* value = PyFloat_FromDouble(number);
    if (value == NULL || PyDict_SetItemString(dict, aipp_floats[i].name, value)) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

PyObject* hand_mdl_get_first_aipp_info(unsigned int modelId, unsigned long index) {
  aclAippInfo* info = PyMem_Calloc(1, sizeof(*info)); /* a third of a megabyte */
  if (info == NULL) return PyErr_NoMemory();
  const aclError code = aclmdlGetFirstAippInfo(modelId, index, info);
  PyObject* answer = code == 0 ? aipp_dict(info) : Py_None;
  if (code != 0) Py_INCREF(answer);
  PyMem_Free(info);
  return art_pair(answer, art_code(code));
}

/* A list from a list or from whatever has tolist() (an array); null with TypeError. */
static PyObject* as_list(PyObject* values, const char* name) {
  if (PyList_Check(values)) {
    Py_INCREF(values);
    return values;
  }
  PyObject* list = PyObject_CallMethod(values, "tolist", NULL);
  if (list != NULL && PyList_Check(list)) return list;
  Py_XDECREF(list);
  PyErr_Clear();
  art_refuse_part(PyExc_TypeError, name, 3, "values", values, "is no list and no array");
  return NULL;
}

enum list_kind { kBools, kInts, kFloats };

static aclError set_list(enum list_kind kind, aclopAttr* attr, const char* key, int count,
                         const void* data) {
  if (kind == kBools) return aclopSetAttrListBool(attr, key, count, data);
  if (kind == kInts) return aclopSetAttrListInt(attr, key, count, data);
  return aclopSetAttrListFloat(attr, key, count, data);
}

/* One member as the kind wants it; -1 with TypeError, or ValueError for an int that is too large.
 */
static int put_member(enum list_kind kind, void* data, Py_ssize_t i, PyObject* member,
                      const char* name) {
  static const char* const wanted[] = {"has no truth", "is no int", "is no number"};
  long long number = 0;
  int failed;
  if (member == NULL) return -1;
  if (kind == kBools) {
    const int truth = PyObject_IsTrue(member);
    ((uint8_t*)data)[i] = truth == 1;
    failed = truth < 0;
  } else if (kind == kFloats) {
    failed = art_get_f(member, &((float*)data)[i]);
  } else {
    failed = art_get_L(member, &number);
    ((int64_t*)data)[i] = number;
  }
  if (!failed) return 0;
  if (PyErr_ExceptionMatches(PyExc_OverflowError))
    return art_refuse_part(PyExc_ValueError, name, 3, "values", member, "does not fit its C type");
  return art_refuse_part(PyExc_TypeError, name, 3, "values", member, wanted[kind]);
}

static PyObject* set_attr_list(enum list_kind kind, unsigned long attr, const char* key,
                               PyObject* values, const char* name) {
  PyObject *list = as_list(values, name), *answer = NULL;
  if (list == NULL) return NULL;
  const Py_ssize_t count = PyList_Size(list);
  void* data = PyMem_Calloc((size_t)count + 1, 8);
  int failed = data == NULL;
  if (failed) PyErr_NoMemory();
  for (Py_ssize_t i = 0; !failed && i < count; ++i) {
    PyObject* member = PyList_GetItem(list, i); /* held: its truth or number may empty the list */
    Py_XINCREF(member);
    failed = put_member(kind, data, i, member, name);
    Py_XDECREF(member);
  }
  if (!failed) answer = art_code(set_list(kind, (aclopAttr*)attr, key, (int)count, data));
  PyMem_Free(data);
  Py_DECREF(list);
  return answer;
}

PyObject* hand_op_set_attr_list_bool(unsigned long attr, const char* attrName, PyObject* values) {
  return set_attr_list(kBools, attr, attrName, values, "acl.op.set_attr_list_bool");
}

PyObject* hand_op_set_attr_list_int(unsigned long attr, const char* attrName, PyObject* values) {
  return set_attr_list(kInts, attr, attrName, values, "acl.op.set_attr_list_int");
}

PyObject* hand_op_set_attr_list_float(unsigned long attr, const char* attrName, PyObject* values) {
  return set_attr_list(kFloats, attr, attrName, values, "acl.op.set_attr_list_float");
}

PyObject* hand_op_set_attr_list_string(unsigned long attr, const char* attrName, PyObject* values) {
  const Py_ssize_t count = PyList_Size(values);
  PyObject* answer = NULL;
  const char** texts = PyMem_Calloc((size_t)count + 1, sizeof(*texts));
  if (texts == NULL) return PyErr_NoMemory();
  Py_ssize_t i = 0;
  while (i < count && !art_get_s(PyList_GetItem(values, i), &texts[i])) ++i;
  if (i == count)
    answer = art_code(aclopSetAttrListString((aclopAttr*)attr, attrName, (int)count, texts));
  else
    art_refuse_part(PyExc_TypeError, "acl.op.set_attr_list_string", 3, "values",
                    PyList_GetItem(values, i), "is no str without NUL that UTF-8 can hold");
  PyMem_Free(texts);
  return answer;
}

PyObject* hand_op_set_attr_list_list_int(unsigned long attr, const char* attrName,
                                         PyObject* values) {
  static const char name[] = "acl.op.set_attr_list_list_int";
  const Py_ssize_t count = PyList_Size(values);
  struct art_list* lists = PyMem_Calloc((size_t)count + 1, sizeof(*lists));
  const int64_t** data = PyMem_Calloc((size_t)count + 1, sizeof(*data));
  int* lengths = PyMem_Calloc((size_t)count + 1, sizeof(*lengths));
  PyObject* answer = NULL;
  int failed = lists == NULL || data == NULL || lengths == NULL;
  if (failed) PyErr_NoMemory();
  for (Py_ssize_t i = 0; !failed && i < count; ++i) {
    PyObject* member = PyList_GetItem(values, i);
    Py_XINCREF(member);
    failed = member == NULL || !PyList_Check(member);
    if (member != NULL && failed)
      art_refuse_part(PyExc_TypeError, name, 3, "values", member, "is no list");
    else if (member != NULL)
      failed = art_list_read(&lists[i], member, 'L', 1, name, 3, "values");
    Py_XDECREF(member);
    data[i] = lists[i].data;
    lengths[i] = (int)lists[i].count;
  }
  if (!failed)
    answer =
        art_code(aclopSetAttrListListInt((aclopAttr*)attr, attrName, (int)count, lengths, data));
  for (Py_ssize_t i = 0; lists != NULL && i < count; ++i) art_list_free(&lists[i]);
  PyMem_Free(lists);
  PyMem_Free(data);
  PyMem_Free(lengths);
  return answer;
}

/* C keeps the address of the descriptor, so each stays for the life of the process. */
PyObject* hand_prof_create_subscribe_config(unsigned char timeInfoSwitch, int aicoreMetrics,
                                            int fd) {
  int* kept = PyMem_Calloc(1, sizeof(*kept));
  if (kept == NULL) return PyErr_NoMemory();
  *kept = fd;
  return art_address(aclprofCreateSubscribeConfig((int8_t)timeInfoSwitch,
                                                  (aclprofAicoreMetrics)aicoreMetrics, kept));
}

typedef aclError (*length_function)(const void*, size_t, uint32_t, size_t*);

/* (text or None, status): the length is asked for first. */
static PyObject* profiled_text(length_function length, int is_type, unsigned long opInfo,
                               unsigned long opInfoLen, unsigned int index) {
  const void* info = (const void*)opInfo;
  size_t size = 0;
  aclError code = length(info, opInfoLen, index, &size);
  char* text = code == 0 ? art_buffer(size, 0) : NULL;
  if (code == 0 && text == NULL) return NULL;
  if (code == 0)
    code = is_type ? aclprofGetOpType(info, opInfoLen, index, text, size)
                   : aclprofGetOpName(info, opInfoLen, index, text, size);
  PyObject* answer = art_pair(art_text(code == 0 ? text : NULL), art_code(code));
  PyMem_Free(text);
  return answer;
}

PyObject* hand_prof_get_op_type_v2(unsigned long opInfo, unsigned long opInfoLen,
                                   unsigned int index) {
  return profiled_text(aclprofGetOpTypeLen, 1, opInfo, opInfoLen, index);
}

PyObject* hand_prof_get_op_name_v2(unsigned long opInfo, unsigned long opInfoLen,
                                   unsigned int index) {
  return profiled_text(aclprofGetOpNameLen, 0, opInfo, opInfoLen, index);
}

/* Memory of the picture units is device memory. Where no library of theirs is loaded, the runtime
 * gives it. */
PyObject* hand_media_dvpp_malloc(unsigned long size) {
  aclError (*own)(void**, size_t) = NULL;
  void *found = art_bind_symbol("acldvppMalloc"), *ptr = NULL;
  memcpy(&own, &found, sizeof(found));
  const aclError code =
      own != NULL ? own(&ptr, size) : aclrtMalloc(&ptr, size, ACL_MEM_MALLOC_HUGE_FIRST);
  return art_pair(art_address(ptr), art_code(code));
}

PyObject* hand_media_dvpp_free(unsigned long devPtr) {
  aclError (*own)(void*) = NULL, code;
  void* found = art_bind_symbol("acldvppFree");
  memcpy(&own, &found, sizeof(found));
  ART_WITHOUT_GIL(code = own != NULL ? own((void*)devPtr) : aclrtFree((void*)devPtr));
  return art_code(code);
}
