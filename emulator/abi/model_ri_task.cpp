// Entries: looking at the tasks of model instances and changing them.
// Must never: change what runs before aclmdlRIUpdate.
#include <mutex>
#include <string>
#include <vector>

#include "abi/boundary.hpp"
#include "abi/model_ri.hpp"
#include "core/value.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

using core::Record;
using core::ValueTask;

// The calls are made twice: without an array for the number, then with one.
void give_out(const std::vector<void*>& all, void** array, uint32_t* count) {
  const uint32_t room = *count;
  if (array != nullptr && room < all.size()) {
    base::fail(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY,
               "the array has room for " + std::to_string(room) + " of " +
                   std::to_string(all.size()) + "; call with a null array for their number");
  }
  *count = static_cast<uint32_t>(all.size());
  if (array != nullptr) std::copy(all.begin(), all.end(), array);
}

base::Ref<Record> record_behind(aclmdlRITask handle) {
  check_not_null(handle, "task");
  auto record = base::handles().get<Record>(handle);
  if (!record) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               "the task is none that lives: its model instance was destroyed, or it is the handle "
               "of something else");
  }
  return record;
}

bool is_value(int32_t type) {
  return type == ACL_MODEL_RI_TASK_VALUE_WRITE || type == ACL_MODEL_RI_TASK_VALUE_WAIT;
}

void describe(const Record& record, aclmdlRITaskParams& params) {
  params = {};
  const int32_t type = core::record_type(record);
  params.type = static_cast<aclmdlRITaskType>(type);
  if (record.group) params.taskGrp = record.group->handle();
  if (type == ACL_MODEL_RI_TASK_VALUE_WRITE) {
    const auto& task = static_cast<const ValueTask&>(*record.task.extra);
    params.valueWriteTaskParams = {task.address, task.value};
  } else if (type == ACL_MODEL_RI_TASK_VALUE_WAIT) {
    const auto& task = static_cast<const ValueTask&>(*record.task.extra);
    params.valueWaitTaskParams = {task.address, task.value, task.flag};
  } else if (record.task.event) {  // the three of an event share their layout
    params.eventRecordTaskParams = {const_cast<void*>(record.task.event->handle),
                                    record.task.event->flags, 0};
  }
}

base::Ref<ValueTask> value_task_of(const aclmdlRITaskParams& params, int32_t type) {
  auto task = base::make_ref<ValueTask>();
  task->type = type;
  if (type == ACL_MODEL_RI_TASK_VALUE_WRITE) {
    task->address = params.valueWriteTaskParams.devAddr;
    task->value = params.valueWriteTaskParams.value;
  } else {
    task->address = params.valueWaitTaskParams.devAddr;
    task->value = params.valueWaitTaskParams.value;
    task->flag = params.valueWaitTaskParams.flag;
  }
  return task;
}

void apply(Record& record) {
  record.disabled = record.disabled || record.disable_at_update;
  if (!record.parameters) return;
  const base::Ref<ValueTask> task(static_cast<ValueTask*>(record.parameters.get()));
  if (record.body) record.body = std::make_shared<core::TaskBody>(core::value_body(task));
  record.task.extra = task;
  record.parameters = nullptr;
}

}  // namespace

extern "C" {

aclError art_emu_aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream* streams, uint32_t* numStreams) {
  return call<ApiId::aclmdlRIGetStreams>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(numStreams, "numStreams");
    const auto instance = core::instance_behind(modelRI);
    check_not_branch(*instance);
    const std::lock_guard lock(core::recording_mutex());
    std::vector<void*> all;
    for (const auto& part : instance->parts) all.push_back(part->stream->handle());
    give_out(all, streams, numStreams);
  });
}

aclError art_emu_aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask* tasks,
                                          uint32_t* numTasks) {
  return call<ApiId::aclmdlRIGetTasksByStream>([&] {
    check_not_null(stream, "stream");
    check_not_null(numTasks, "numTasks");
    const auto found = core::stream_behind(stream);
    const std::lock_guard lock(core::recording_mutex());
    const core::Part* part = core::find_part(*found).second;
    if (part == nullptr) {
      base::fail(ACL_ERROR_RT_STREAM_MODEL,
                 "stream " + std::to_string(found->id()) +
                     " belongs to no model instance; ask aclmdlRIGetStreams for its streams");
    }
    std::vector<void*> all;
    for (const auto& record : part->records) {
      if (record->handle() == nullptr) base::handles().insert(record);
      all.push_back(record->handle());
    }
    give_out(all, tasks, numTasks);
  });
}

aclError art_emu_aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t* id) {
  return call<ApiId::aclmdlRITaskGetSeqId>([&] {
    check_not_null(id, "id");
    *id = record_behind(task)->id;
  });
}

aclError art_emu_aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType* type) {
  return call<ApiId::aclmdlRITaskGetType>([&] {
    check_not_null(type, "type");
    *type = static_cast<aclmdlRITaskType>(core::record_type(*record_behind(task)));
  });
}

aclError art_emu_aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams* params) {
  return call<ApiId::aclmdlRITaskGetParams>([&] {
    check_not_null(params, "params");
    const auto record = record_behind(task);
    const std::lock_guard lock(core::recording_mutex());
    describe(*record, *params);
  });
}

aclError art_emu_aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams* params) {
  return call<ApiId::aclmdlRITaskSetParams>([&] {
    check_not_null(params, "params");
    const auto record = record_behind(task);
    const std::lock_guard lock(core::recording_mutex());
    const int32_t type = core::record_type(*record);
    if (type != raw(params->type)) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "the parameters are of task type " +
                                                 std::to_string(raw(params->type)) +
                                                 ", the task is of type " + std::to_string(type));
    }
    if (!is_value(type)) {
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "only tasks of aclrtValueWrite and aclrtValueWait take other parameters");
    }
    record->parameters = value_task_of(*params, type);
  });
}

aclError art_emu_aclmdlRITaskDisable(aclmdlRITask task) {
  return call<ApiId::aclmdlRITaskDisable>([&] {
    const auto record = record_behind(task);
    const std::lock_guard lock(core::recording_mutex());
    record->disable_at_update = true;
  });
}

aclError art_emu_aclmdlRIUpdate(aclmdlRI modelRI) {
  return call<ApiId::aclmdlRIUpdate>([&] {
    check_not_null(modelRI, "modelRI");
    const auto instance = core::instance_of_current(modelRI);
    check_recorded(*instance);
    const std::lock_guard lock(core::recording_mutex());
    if (instance->running()) {
      base::fail(ACL_ERROR_RT_MODEL_RUNNING,
                 "model instance " + std::to_string(instance->id()) +
                     " runs; synchronize the stream that runs it before it is changed");
    }
    for (const auto& part : instance->parts) {
      for (const auto& record : part->records) apply(*record);
    }
    instance->compile();
  });
}

}  // extern "C"
