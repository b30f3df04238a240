/* See aclmodule.h. Owns: calls of the runtime and of models that take or give dictionaries.
 *
 * Dictionaries are read leniently, as in the vendor's module: a missing or mistyped key keeps its
 * zero. The exception is the configuration of malloc_with_cfg, where it raises KeyError.
 */
#include "gen/aclmodule_by_hand.h"

enum { kMaxEntries = 4096 };

/* The int under a key, or 0. */
static unsigned long long int_of(PyObject* dict, const char* key) {
  unsigned long long value = 0;
  PyObject* found = PyDict_Check(dict) ? PyDict_GetItemString(dict, key) : NULL;
  if (found == NULL || art_get_K(found, &value)) return 0;
  return value;
}

static PyObject* ints(Py_ssize_t count, const void* data, int size) {
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; ++i) {
    PyObject* item = NULL;
    if (size == 8) item = PyLong_FromLongLong(((const int64_t*)data)[i]);
    if (size == 4) item = PyLong_FromLong(((const int32_t*)data)[i]);
    if (size == 1) item = PyLong_FromLong(((const unsigned char*)data)[i]);
    if (item == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, i, item);
  }
  return list;
}

static PyObject* pairs(Py_ssize_t count, const int64_t data[][2]) {
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; ++i) {
    PyObject* item = ints(2, data[i], 8);
    if (item == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, i, item);
  }
  return list;
}

/* A count that C gave, kept inside the array it counts. */
static Py_ssize_t inside(size_t count, size_t most) {
  return (Py_ssize_t)(count < most ? count : most);
}

static PyObject* dims_dict(const aclmdlIODims* dims) {
  return Py_BuildValue("{s:N,s:k,s:N}", "name", art_text(dims->name), "dimCount",
                       (unsigned long)dims->dimCount, "dims",
                       ints(inside(dims->dimCount, ACL_MAX_DIM_CNT), dims->dims, 8));
}

static PyObject* with_code(PyObject* value, long code) { return art_pair(value, art_code(code)); }

static PyObject* dims_answer(aclError code, const aclmdlIODims* dims) {
  return with_code(code == 0 ? dims_dict(dims) : PyDict_New(), code);
}

PyObject* hand_mdl_get_input_dims(unsigned long modelDesc, unsigned long index) {
  aclmdlIODims dims = {0};
  return dims_answer(aclmdlGetInputDims((const aclmdlDesc*)modelDesc, index, &dims), &dims);
}

PyObject* hand_mdl_get_input_dims_v2(unsigned long modelDesc, unsigned long index) {
  aclmdlIODims dims = {0};
  return dims_answer(aclmdlGetInputDimsV2((const aclmdlDesc*)modelDesc, index, &dims), &dims);
}

PyObject* hand_mdl_get_output_dims(unsigned long modelDesc, unsigned long index) {
  aclmdlIODims dims = {0};
  return dims_answer(aclmdlGetOutputDims((const aclmdlDesc*)modelDesc, index, &dims), &dims);
}

PyObject* hand_mdl_get_cur_output_dims(unsigned long modelDesc, unsigned long index) {
  aclmdlIODims dims = {0};
  return dims_answer(aclmdlGetCurOutputDims((const aclmdlDesc*)modelDesc, index, &dims), &dims);
}

PyObject* hand_mdl_get_dynamic_batch(unsigned long modelDesc) {
  aclmdlBatch batch = {0};
  const aclError code = aclmdlGetDynamicBatch((const aclmdlDesc*)modelDesc, &batch);
  if (code != 0) return with_code(PyDict_New(), code);
  return with_code(
      Py_BuildValue("{s:k,s:N}", "batchCount", (unsigned long)batch.batchCount, "batch",
                    ints(inside(batch.batchCount, ACL_MAX_BATCH_NUM), batch.batch, 8)),
      code);
}

PyObject* hand_mdl_get_dynamic_hw(unsigned long modelDesc, unsigned long index) {
  aclmdlHW hw = {0};
  const aclError code = aclmdlGetDynamicHW((const aclmdlDesc*)modelDesc, index, &hw);
  if (code != 0) return with_code(PyDict_New(), code);
  return with_code(Py_BuildValue("{s:k,s:N}", "hwCount", (unsigned long)hw.hwCount, "hw",
                                 pairs(inside(hw.hwCount, ACL_MAX_HW_NUM),
                                       (const int64_t (*)[2])(const void*)hw.hw)),
                   code);
}

PyObject* hand_mdl_get_input_dims_range(unsigned long modelDesc, unsigned long index) {
  aclmdlIODimsRange range = {0};
  const aclError code = aclmdlGetInputDimsRange((const aclmdlDesc*)modelDesc, index, &range);
  if (code != 0) return with_code(PyDict_New(), code);
  return with_code(
      Py_BuildValue("{s:k,s:N}", "rangeCount", (unsigned long)range.rangeCount, "range",
                    pairs(inside(range.rangeCount, ACL_MAX_DIM_CNT),
                          (const int64_t (*)[2])(const void*)range.range)),
      code);
}

static PyObject* too_many(void) {
  Py_INCREF(Py_None);
  return with_code(Py_None, ACL_ERROR_INVALID_PARAM);
}

static PyObject* dims_list(const aclmdlIODims* dims, unsigned long count) {
  PyObject* list = PyList_New((Py_ssize_t)count);
  for (unsigned long i = 0; list != NULL && i < count; ++i) {
    PyObject* item = dims_dict(&dims[i]);
    if (item == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, (Py_ssize_t)i, item);
  }
  return list;
}

PyObject* hand_mdl_get_input_dynamic_dims(unsigned long modelDesc, unsigned long index,
                                          unsigned long gearCount) {
  if (gearCount > kMaxEntries) return too_many();
  aclmdlIODims* dims = PyMem_Calloc(gearCount + 1, sizeof(*dims));
  if (dims == NULL) return PyErr_NoMemory();
  const aclError code =
      aclmdlGetInputDynamicDims((const aclmdlDesc*)modelDesc, index, dims, gearCount);
  PyObject* answer = with_code(code == 0 ? dims_list(dims, gearCount) : PyList_New(0), code);
  PyMem_Free(dims);
  return answer;
}

PyObject* hand_mdl_set_input_dynamic_dims(unsigned int modelId, unsigned long dataset,
                                          unsigned long index, PyObject* dims) {
  aclmdlIODims read = {.dimCount = int_of(dims, "dimCount")};
  PyObject* name = PyDict_GetItemString(dims, "name");
  PyObject* list = PyDict_GetItemString(dims, "dims");
  const char* text;
  if (name != NULL && !art_get_s(name, &text)) strncpy(read.name, text, sizeof(read.name) - 1);
  PyErr_Clear();
  if (list != NULL && PyList_Check(list)) {
    struct art_list sizes = {0};
    if (art_list_read(&sizes, list, 'L', 1, "acl.mdl.set_input_dynamic_dims", 4, "dims")) {
      art_list_free(&sizes);
      return NULL;
    }
    memcpy(read.dims, sizes.data, 8 * (size_t)inside((size_t)sizes.count, ACL_MAX_DIM_CNT));
    art_list_free(&sizes);
  }
  return art_code(aclmdlSetInputDynamicDims(modelId, (aclmdlDataset*)dataset, index, &read));
}

PyObject* hand_get_tensor_desc_dim_range(unsigned long desc, unsigned long index,
                                         unsigned long dimRangeNum) {
  if (dimRangeNum > kMaxEntries) return too_many();
  int64_t range[kMaxEntries] = {0};
  const aclError code =
      aclGetTensorDescDimRange((const aclTensorDesc*)desc, index, dimRangeNum, range);
  return with_code(ints((Py_ssize_t)dimRangeNum, range, 8), code);
}

PyObject* hand_get_cann_attribute_list(void) {
  const aclCannAttr* list = NULL;
  size_t count = 0;
  const aclError code = aclGetCannAttributeList(&list, &count);
  PyObject* values = ints(list == NULL ? 0 : (Py_ssize_t)count, list, 4);
  return art_tuple(3, values, PyLong_FromSize_t(count), art_code(code));
}

PyObject* hand_get_cann_version(unsigned int name) {
  aclCANNPackageVersion version = {0};
  const aclError code = aclsysGetCANNVersion((aclCANNPackageName)name, &version);
  PyObject* dict = Py_BuildValue(
      "{s:N,s:N,s:N,s:N,s:N,s:N}", "version", art_text(version.version), "major_version",
      art_text(version.majorVersion), "minor_version", art_text(version.minorVersion),
      "release_version", art_text(version.releaseVersion), "patch_version",
      art_text(version.patchVersion), "reserved", art_text(version.reserved));
  return art_pair(dict, PyLong_FromUnsignedLong((unsigned int)code));
}

PyObject* hand_rt_get_device_utilization_rate(int deviceId) {
  aclrtUtilizationInfo info = {0};
  const aclError code = aclrtGetDeviceUtilizationRate(deviceId, &info);
  PyObject* dict = Py_BuildValue(
      "{s:i,s:i,s:i,s:i,s:N}", "cube_utilization", info.cubeUtilization, "vector_utilization",
      info.vectorUtilization, "aicpu_utilization", info.aicpuUtilization, "memory_utilization",
      info.memoryUtilization, "utilization_extend", art_address(info.utilizationExtend));
  return art_pair(dict, PyLong_FromUnsignedLong((unsigned int)code));
}

PyObject* hand_rt_device_get_uuid(int deviceId) {
  aclrtUuid uuid = {0};
  const aclError code = aclrtDeviceGetUuid(deviceId, &uuid);
  return with_code(Py_BuildValue("{s:N}", "bytes", ints(sizeof(uuid.bytes), uuid.bytes, 1)), code);
}

PyObject* hand_rt_pointer_get_attributes(unsigned long ptr) {
  aclrtPtrAttributes found = {0};
  const aclError code = aclrtPointerGetAttributes((const void*)ptr, &found);
  PyObject* dict =
      Py_BuildValue("{s:{s:I,s:i},s:I,s:N}", "location", "id", found.location.id, "type",
                    (int)found.location.type, "page_size", found.pageSize, "rsv",
                    ints(sizeof(found.rsv) / sizeof(found.rsv[0]), found.rsv, 4));
  return with_code(dict, code);
}

static aclrtPhysicalMemProp physical_prop(PyObject* dict) {
  PyObject* location = PyDict_GetItemString(dict, "location");
  aclrtPhysicalMemProp prop = {
      .handleType = (aclrtMemHandleType)int_of(dict, "handleType"),
      .allocationType = (aclrtMemAllocationType)int_of(dict, "allocationType"),
      .memAttr = (aclrtMemAttr)int_of(dict, "memAttr"),
      .reserve = int_of(dict, "reserve"),
  };
  if (location == NULL) return prop;
  prop.location.id = (uint32_t)int_of(location, "id");
  prop.location.type = (aclrtMemLocationType)int_of(location, "type");
  return prop;
}

PyObject* hand_rt_malloc_physical(unsigned long size, PyObject* prop, unsigned long long flags) {
  const aclrtPhysicalMemProp read = physical_prop(prop);
  aclrtDrvMemHandle handle = NULL;
  const aclError code = aclrtMallocPhysical(&handle, size, &read, flags);
  return with_code(art_address(handle), code);
}

PyObject* hand_rt_mem_get_allocation_granularity(PyObject* prop, int option) {
  aclrtPhysicalMemProp read = physical_prop(prop);
  size_t granularity = 0;
  const aclError code =
      aclrtMemGetAllocationGranularity(&read, (aclrtMemGranularityOptions)option, &granularity);
  return with_code(PyLong_FromSize_t(granularity), code);
}

/* The member of a dict; KeyError when it is missing. */
static PyObject* required(PyObject* dict, const char* key) {
  PyObject* found = PyDict_Check(dict) ? PyDict_GetItemString(dict, key) : NULL;
  if (found == NULL) PyErr_SetString(PyExc_KeyError, key);
  return found;
}

static int read_attribute(PyObject* entry, aclrtMallocAttribute* out) {
  PyObject* attr = required(entry, "attr");
  PyObject* value = attr == NULL ? NULL : required(entry, "value");
  if (value == NULL) return -1;
  out->attr = (aclrtMallocAttrType)int_of(entry, "attr");
  if (out->attr == ACL_RT_MEM_ATTR_MODULE_ID)
    out->value.moduleId = (uint16_t)int_of(value, "moduleId");
  if (out->attr == ACL_RT_MEM_ATTR_DEVICE_ID)
    out->value.deviceId = (uint32_t)int_of(value, "deviceId");
  if (out->attr == ACL_RT_MEM_ATTR_VA_FLAG) out->value.vaFlag = (uint32_t)int_of(value, "vaFlag");
  return 0;
}

/* {} or {'numAttrs': n, 'attrs': [{'attr': a, 'value': {...}}, ...]}; the caller frees attrs. */
static int read_config(PyObject* dict, aclrtMallocConfig* config, const char* name, int position) {
  if (PyDict_Size(dict) == 0) return 0;
  PyObject* count = required(dict, "numAttrs");
  PyObject* list = count == NULL ? NULL : required(dict, "attrs");
  if (list == NULL) return -1;
  const unsigned long long wanted = int_of(dict, "numAttrs");
  if (!PyList_Check(list) || wanted > (unsigned long long)PyList_Size(list)) {
    return art_refuse_part(PyExc_TypeError, name, position, "cfg", dict,
                           "has no list attrs with numAttrs members");
  }
  config->attrs = PyMem_Calloc((size_t)wanted + 1, sizeof(*config->attrs));
  if (config->attrs == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (; config->numAttrs < wanted; ++config->numAttrs) {
    PyObject* entry = art_dict_in(list, (Py_ssize_t)config->numAttrs, name, position, "cfg");
    if (entry == NULL || read_attribute(entry, &config->attrs[config->numAttrs])) return -1;
  }
  return 0;
}

enum malloc_kind { kDevice, kTaskScheduler, kHost };
static const char* const malloc_names[] = {
    "acl.rt.malloc_with_cfg", "acl.rt.malloc_for_task_scheduler", "acl.rt.malloc_host_with_cfg"};

static PyObject* malloc_with(enum malloc_kind kind, unsigned long size, int policy, PyObject* cfg) {
  aclrtMallocConfig read = {0};
  aclrtMallocConfig* config = PyDict_Size(cfg) == 0 ? NULL : &read;
  const aclrtMemMallocPolicy how = (aclrtMemMallocPolicy)policy;
  void* ptr = NULL;
  aclError code = 0;
  PyObject* answer = NULL;
  if (!read_config(cfg, &read, malloc_names[kind], kind == kHost ? 2 : 3)) {
    if (kind == kDevice) code = aclrtMallocWithCfg(&ptr, size, how, config);
    if (kind == kTaskScheduler) code = aclrtMallocForTaskScheduler(&ptr, size, how, config);
    if (kind == kHost) code = aclrtMallocHostWithCfg(&ptr, size, config);
    answer = with_code(art_address(ptr), code);
  }
  PyMem_Free(read.attrs);
  return answer;
}

PyObject* hand_rt_malloc_with_cfg(unsigned long size, int policy, PyObject* cfg) {
  return malloc_with(kDevice, size, policy, cfg);
}

PyObject* hand_rt_malloc_for_task_scheduler(unsigned long size, int policy, PyObject* cfg) {
  return malloc_with(kTaskScheduler, size, policy, cfg);
}

PyObject* hand_rt_malloc_host_with_cfg(unsigned long size, PyObject* cfg) {
  return malloc_with(kHost, size, 0, cfg);
}

PyObject* hand_rt_get_stream_attribute(unsigned long stream, int stmAttrType) {
  aclrtStreamAttrValue value = {.reserve = {0}};
  const aclError code =
      aclrtGetStreamAttribute((aclrtStream)stream, (aclrtStreamAttr)stmAttrType, &value);
  PyObject* dict = Py_BuildValue(
      "{s:K,s:I,s:I,s:N}", "failureMode", (unsigned long long)value.failureMode, "overflowSwitch",
      value.overflowSwitch, "userCustomTag", value.userCustomTag, "reserved",
      ints(sizeof(value.reserve) / sizeof(value.reserve[0]), value.reserve, 4));
  return with_code(dict, code);
}

/* The values share their storage: the type of the attribute says which key counts. */
PyObject* hand_rt_set_stream_attribute(unsigned long stream, int stmAttrType, PyObject* value) {
  aclrtStreamAttrValue read = {.reserve = {0}};
  if (stmAttrType == ACL_STREAM_ATTR_FAILURE_MODE) read.failureMode = int_of(value, "failureMode");
  if (stmAttrType == ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK)
    read.overflowSwitch = (uint32_t)int_of(value, "overflowSwitch");
  if (stmAttrType == ACL_STREAM_ATTR_USER_CUSTOM_TAG)
    read.userCustomTag = (uint32_t)int_of(value, "userCustomTag");
  if (stmAttrType == ACL_STREAM_ATTR_CACHE_OP_INFO)
    read.cacheOpInfoSwitch = (uint32_t)int_of(value, "cacheOpInfoSwitch");
  if (stmAttrType == ACL_STREAM_ATTR_PRIORITY)
    read.streamPriority = (uint32_t)int_of(value, "streamPriority");
  return art_code(
      aclrtSetStreamAttribute((aclrtStream)stream, (aclrtStreamAttr)stmAttrType, &read));
}

PyObject* hand_rt_get_group_info_detail(unsigned long groupInfo, int groupIndex, int attr) {
  int32_t values[kMaxEntries] = {0};
  size_t bytes = 0;
  const aclError code =
      aclrtGetGroupInfoDetail((const aclrtGroupInfo*)groupInfo, groupIndex, (aclrtGroupAttr)attr,
                              values, sizeof(values), &bytes);
  if (bytes > sizeof(values))
    return PyErr_Format(PyExc_RuntimeError, "acl.rt.get_group_info_detail: %zu bytes given", bytes);
  return with_code(ints((Py_ssize_t)(bytes / sizeof(values[0])), values, 4), code);
}

PyObject* hand_rt_get_mem_uce_info(int deviceId, unsigned int arraySize) {
  aclrtMemUceInfo* infos = PyMem_Calloc((size_t)arraySize + 1, sizeof(*infos));
  size_t count = 0;
  if (infos == NULL) return PyErr_NoMemory();
  const aclError code = aclrtGetMemUceInfo(deviceId, infos, arraySize, &count);
  PyObject* list = PyList_New(0);
  for (Py_ssize_t i = 0; list != NULL && i < inside(count, arraySize); ++i) {
    PyObject* item = Py_BuildValue("{s:N,s:N,s:N}", "addr", art_address(infos[i].addr), "len",
                                   PyLong_FromSize_t(infos[i].len), "reserved",
                                   ints(UCE_INFO_RESERVED_SIZE, infos[i].reserved, 8));
    if (item == NULL || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  PyMem_Free(infos);
  return with_code(list, code);
}

PyObject* hand_rt_mem_uce_repair(int deviceId, PyObject* memUceInfoArray) {
  static const char name[] = "acl.rt.mem_uce_repair";
  const Py_ssize_t count = PyList_Size(memUceInfoArray);
  aclrtMemUceInfo* infos = PyMem_Calloc((size_t)count + 1, sizeof(*infos));
  if (infos == NULL) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* entry = art_dict_in(memUceInfoArray, i, name, 2, "memUceInfoArray");
    if (entry == NULL) {
      PyMem_Free(infos);
      return NULL;
    }
    infos[i].addr = (void*)(uintptr_t)int_of(entry, "addr");
    infos[i].len = (size_t)int_of(entry, "len");
  }
  const aclError code = aclrtMemUceRepair(deviceId, infos, (size_t)count);
  PyMem_Free(infos);
  return art_code(code);
}
