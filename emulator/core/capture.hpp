// Capture: streams record what is put on them, into a model instance.
// Owns: the rules of begin, end, side streams and modes. Must never: touch the scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ref.hpp"
#include "core/event.hpp"
#include "core/model_instance.hpp"

namespace ascendrt::core {

struct Capture {
  int32_t mode = 0;     // aclmdlRICaptureMode
  uint64_t thread = 0;  // that began
  bool spoiled = false;
  std::vector<base::Ref<Event>> events;  // that are part of it, to be let go at its end
};

// Begins on the stream; into a branch when one is given. Raises 107027, 107026, 207008.
void begin_capture(const base::Ref<Stream>& stream, int32_t mode, ModelInstance* branch);
// The instance, complete. Raises 107029, 107036, 107038, 507903, 107045, 107033, 107025; from
// 107038 on the capture is over.
base::Ref<ModelInstance> end_capture(Stream& stream);

// Ends the capture of an instance, if one is under way, without a result.
void drop_capture(ModelInstance& instance);

struct CaptureInfo {
  int32_t status = 0;  // aclmdlRICaptureStatus
  base::Ref<ModelInstance> instance;
};
CaptureInfo capture_info(const Stream& stream);

// Swaps the calling thread's mode.
int32_t exchange_capture_mode(int32_t mode);
// Whether a blocking call is forbidden in the current context by a capture that is under way.
bool capture_forbids_blocking();
// Raises 107030 when it is.
void check_blocking_allowed();

// What Event does on a stream that records; false: as on any other stream.
// Recording an event. Only ex events are looked at.
bool capture_record(Event& event, Stream& stream);
// Waiting for one: draws the stream into the event's capture. Raises 107024, 107031, 107032.
bool capture_wait(Event& event, Stream& stream);
// 107031: the default stream and an event that is part of a capture.
void check_not_captured(const Event& event, const Stream& stream);

// Raise 107029 (begin, end: not capturing), 107033 (out of order).
void begin_task_group(Stream& stream);
base::Ref<TaskGroup> end_task_group(Stream& stream);
// The stream replaces the tasks of the group. Raises 107033, 107040.
void begin_task_update(Stream& stream, const base::Ref<TaskGroup>& group);
void end_task_update(Stream& stream);

// A condition for the instance that is being captured. Raises 107000.
base::Ref<Condition> create_condition(const base::Ref<ModelInstance>& instance, uint32_t start,
                                      bool assign);
// Makes `count` branches and puts the choice on the capturing stream.
void add_branches(const base::Ref<Condition>& condition, int32_t type, uint32_t count,
                  Stream& stream);

}  // namespace ascendrt::core
