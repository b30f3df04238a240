// Jumps between the tracks of a model instance: labels, switches, activations.
// Must never: jump outside the instance whose task it is.
#include <algorithm>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "core/context.hpp"
#include "core/model_instance.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

constexpr size_t kStop = SIZE_MAX;

// With the recording lock held: the part that the bound stream is built into.
Part& built_part(const Stream& stream) {
  const Recording* recording = stream.recording();
  if (recording == nullptr || recording->mode != Recording::Mode::kBuild) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL, "stream " + std::to_string(stream.id()) +
                                              " is not bound to a model instance; call "
                                              "aclmdlRIBindStream first");
  }
  return *recording->instance->parts[recording->part];
}

Part& part_of_same(const Stream& target, const Part& part) {
  Part& other = built_part(target);
  if (other.recording.instance != part.recording.instance) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL, "streams " + std::to_string(target.id()) + " and " +
                                              std::to_string(part.source->id()) +
                                              " are bound to different model instances");
  }
  return other;
}

void add_jump(Part& part, const char* name, TaskBody body) {
  Task task;
  task.name = name;
  task.body = std::move(body);
  part.recording.instance->append(part, std::move(task)).sort = Record::Sort::kControl;
}

void jump(Track& from, Track& to, size_t step) {
  if (&from == &to) {
    from.next = step;
    return;
  }
  from.next = kStop;
  from.starts = &to;
  from.starts_at = step;
}

bool holds(int64_t left, int32_t condition, int64_t right) {
  switch (condition) {
    case ACL_RT_EQUAL:
      return left == right;
    case ACL_RT_NOT_EQUAL:
      return left != right;
    case ACL_RT_GREATER:
      return left > right;
    case ACL_RT_GREATER_OR_EQUAL:
      return left >= right;
    case ACL_RT_LESS:
      return left < right;
    default:
      return left <= right;
  }
}

int64_t load(const void* address, int32_t type) {
  if (type == ACL_RT_SWITCH_INT32) {
    int32_t value = 0;
    memory::copy(&value, address, sizeof value);
    return value;
  }
  int64_t value = 0;
  memory::copy(&value, address, sizeof value);
  return value;
}

}  // namespace

void set_label(Label& label, Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part& part = built_part(stream);
  if (label.instance != nullptr) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the label was set before; one label marks one place, create another");
  }
  Task task;
  task.name = "aclrtSetLabel";
  Record& record = part.recording.instance->append(part, std::move(task));
  record.sort = Record::Sort::kLabel;
  record.label = base::Ref<Label>(&label);
  label.instance = part.recording.instance;
  label.track = &part.track;
}

void switch_label(const void* index, uint32_t count, const base::Ref<LabelList>& list,
                  Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part& part = built_part(stream);
  add_jump(part, "aclrtSwitchLabelByIndex", [index, count, list, &part]() -> base::Code {
    uint32_t wanted = 0;
    memory::copy(&wanted, index, sizeof wanted);
    const Label& label =
        *list->labels[std::min<size_t>({wanted, count - 1U, list->labels.size() - 1})];
    if (label.instance != part.recording.instance) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "label " + std::to_string(wanted) +
                     " of the list was not set on a stream of this model instance");
    }
    jump(part.track, *label.track, label.step);
    return 0;
  });
}

void switch_stream(const void* left, int32_t condition, const void* right, int32_t type,
                   Stream& target, Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part& part = built_part(stream);
  Part& other = part_of_same(target, part);
  add_jump(part, "aclrtSwitchStream",
           [left, condition, right, type, &part, &other]() -> base::Code {
             if (holds(load(left, type), condition, load(right, type))) {
               jump(part.track, other.track, 0);
             }
             return 0;
           });
}

void active_stream(Stream& target, Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part& part = built_part(stream);
  Part& other = part_of_same(target, part);
  add_jump(part, "aclrtActiveStream", [&part, &other]() -> base::Code {
    part.track.starts = &other.track;
    part.track.starts_at = 0;
    return 0;
  });
}

}  // namespace ascendrt::core
