// Owns: see capture.hpp. Must never: call Stream::enqueue with the recording lock held.
#include "core/capture.hpp"

#include <algorithm>
#include <mutex>
#include <string>

#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/executor.hpp"
#include "core/runtime.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

struct Active {
  const Context* context;
  const ModelInstance* instance;
  int32_t mode;
  uint64_t thread;
};

// Captures under way; guarded by recording_mutex(), the count may be read without.
std::vector<Active>& actives() {
  static auto* const all = new std::vector<Active>;
  return *all;
}
std::atomic<uint32_t> g_active{0};

uint64_t this_thread() { return reinterpret_cast<uint64_t>(&thread_state()); }

std::string name_of(const Stream& stream) { return "stream " + std::to_string(stream.id()); }

// The part that records the stream, when it is captured. With the lock held.
Part* captured_part(const Stream& stream) {
  const Recording* recording = stream.recording();
  if (recording == nullptr || recording->mode != Recording::Mode::kCapture) return nullptr;
  return recording->instance->parts[recording->part].get();
}

Part& part_or_refuse(const Stream& stream) {
  Part* part = captured_part(stream);
  if (part == nullptr) {
    base::fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               name_of(stream) + " is not captured; call aclmdlRICaptureBegin first");
  }
  return *part;
}

void let_go(ModelInstance& instance) {
  for (const auto& event : instance.capture->events) event->set_capture(nullptr, nullptr);
  instance.capture.reset();
  std::erase_if(actives(), [&](const Active& each) { return each.instance == &instance; });
  g_active.store(static_cast<uint32_t>(actives().size()), std::memory_order_release);
  instance.release_sources();
}

[[noreturn]] void spoil(ModelInstance& instance, base::Code code, const std::string& text) {
  instance.capture->spoiled = true;
  base::fail(code, text + "; this spoils the capture");
}

// A stream of the context's own plays what is recorded from `source`.
Part& draw_in(ModelInstance& instance, Stream& source) {
  auto lane = Stream::create(instance.context_ref(), source.priority(), 0);
  return instance.add_part(lane, base::Ref<Stream>(&source), true);
}

// A side stream has joined when its last task is a record that a stream waits for which has joined.
bool joined(const ModelInstance& instance, size_t part, size_t depth) {
  if (part == 0) return true;
  if (depth > instance.parts.size()) return false;
  const auto& records = instance.parts[part]->records;
  if (records.empty() || records.back()->task.kind != TaskKind::kRecord) return false;
  const auto& waiting = records.back()->waited_by;
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](size_t other) { return joined(instance, other, depth + 1); });
}

void check_complete(const ModelInstance& instance) {
  for (const auto& condition : instance.conditions) {
    for (const auto& branch : condition->branches) {
      if (!branch->capture) continue;
      base::fail(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "the capture into branch instance " +
                                                             std::to_string(branch->id()) +
                                                             " is still open; end it first");
    }
  }
  std::string open;
  for (const auto& part : instance.parts) {
    if (part->recording.group_open) open = name_of(*part->source);
  }
  if (!open.empty()) {
    base::fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "the task group on " + open + " is open; call aclmdlRICaptureTaskGrpEnd first");
  }
  std::string apart;
  for (size_t i = 1; i < instance.parts.size(); ++i) {
    if (joined(instance, i, 0)) continue;
    apart += (apart.empty() ? "" : ", ") + name_of(*instance.parts[i]->source);
  }
  if (apart.empty()) return;
  base::fail(ACL_ERROR_RT_STREAM_UNJOINED,
             apart +
                 " did not join the stream that began the capture; record an event as its last "
                 "task and let the first stream wait for it");
}

}  // namespace

namespace {

// With the lock held.
void open_capture(const base::Ref<ModelInstance>& instance, Stream& stream, int32_t mode) {
  draw_in(*instance, stream);
  instance->state = ModelInstance::State::kRecording;
  instance->capture = std::make_unique<Capture>();
  instance->capture->mode = mode;
  instance->capture->thread = this_thread();
  actives().push_back({&stream.context(), instance.get(), mode, this_thread()});
  g_active.store(static_cast<uint32_t>(actives().size()), std::memory_order_release);
}

}  // namespace

void begin_capture(const base::Ref<Stream>& stream, int32_t mode, ModelInstance* branch) {
  base::Ref<ModelInstance> instance(branch);
  base::Ref<ModelInstance> made;
  try {
    const std::lock_guard lock(recording_mutex());
    if (branch != nullptr && branch->state != ModelInstance::State::kOpen) {
      base::fail(ACL_ERROR_RT_MODEL_CAPTURED,
                 "branch instance " + std::to_string(branch->id()) + " was captured already");
    }
    if (stream->recording() != nullptr) {
      base::fail(ACL_ERROR_RT_STREAM_CAPTURED, name_of(*stream) + " is captured already");
    }
    if (!instance) {
      const base::Ref<Context> context(&stream->context());
      made = instance = ModelInstance::create(context, ModelInstance::Origin::kCapture);
    }
    open_capture(instance, *stream, mode);
  } catch (...) {
    if (made) {
      base::handles().remove<ModelInstance>(made->handle());
      made->close();
    }
    throw;
  }
}

namespace {

// Ends the recording; what is wrong with it is raised.
void finish_capture(ModelInstance& instance, const Stream& stream) {
  const Capture& capture = *instance.capture;
  const bool other_thread =
      capture.mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && capture.thread != this_thread();
  const bool spoiled = capture.spoiled;
  let_go(instance);
  if (other_thread) {
    base::fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
               "another thread began the capture of " + name_of(stream) +
                   " in a mode that is not RELAXED; the capture is thrown away");
  }
  if (spoiled) {
    base::fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
               "a call failed during the capture of " + name_of(stream) +
                   "; nothing is kept of it, see the earlier error");
  }
  check_complete(instance);
  instance.compile();
  instance.state = ModelInstance::State::kComplete;
}

}  // namespace

base::Ref<ModelInstance> end_capture(Stream& stream) {
  base::Ref<ModelInstance> instance;
  try {
    const std::lock_guard lock(recording_mutex());
    Part& part = part_or_refuse(stream);
    if (part.recording.part != 0) {
      base::fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                 name_of(stream) + " was drawn into the capture that " +
                     name_of(*part.recording.instance->parts[0]->source) + " began; end it there");
    }
    instance = base::Ref<ModelInstance>(part.recording.instance);
    finish_capture(*instance, stream);
  } catch (...) {
    if (instance && instance->origin() == ModelInstance::Origin::kCapture) {
      base::handles().remove<ModelInstance>(instance->handle());
      instance->close();
    }
    throw;
  }
  return instance;
}

void drop_capture(ModelInstance& instance) {
  const std::lock_guard lock(recording_mutex());
  if (instance.capture) let_go(instance);
}

CaptureInfo capture_info(const Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  const Part* part = captured_part(stream);
  if (part == nullptr) return {};
  base::Ref<ModelInstance> instance(part->recording.instance);
  const int32_t status = instance->capture->spoiled ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                                                    : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  return {status, std::move(instance)};
}

// ---- modes

int32_t exchange_capture_mode(int32_t mode) {
  return std::exchange(thread_state().capture_mode, mode);
}

bool capture_forbids_blocking() {
  // acquire: pairs with the release of who began a capture.
  if (g_active.load(std::memory_order_acquire) == 0) return false;
  const int32_t exchanged = thread_state().capture_mode;
  if (exchanged == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return false;
  const auto context = current_context_or_null();
  const std::lock_guard lock(recording_mutex());
  bool any = false;
  bool global = false;
  bool own_global = false;
  bool own_local = false;
  for (const Active& each : actives()) {
    const bool own = each.thread == this_thread();
    any = any || each.context == context.get();
    if (each.mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) {
      global = global || each.context == context.get();
      own_global = own_global || own;
    } else if (each.mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL) {
      own_local = own_local || own;
    }
  }
  if (!any) return false;
  if (exchanged == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) return global || own_local;
  return own_global || own_local;
}

void check_blocking_allowed() {
  if (!capture_forbids_blocking()) return;
  base::fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
             "a capture is under way whose mode forbids blocking copies and sets; use the "
             "asynchronous call on the captured stream, or allow it for this thread with "
             "aclmdlRICaptureThreadExchangeMode (RELAXED)");
}

// ---- events

bool capture_record(Event& event, Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part* part = captured_part(stream);
  if (part == nullptr) return false;
  ModelInstance& instance = *part->recording.instance;
  if (event.kind() == EventKind::kEx) {
    if (!event.has_sync()) return true;  // nothing to wait for is recorded
    Task task;
    task.kind = TaskKind::kRecord;
    task.name = "aclrtRecordEvent";
    task.event = base::make_ref<EventState>(WaitRule::kLevel);
    task.event->handle = event.handle();
    task.event->flags = event.flags();
    instance.add_inner(task.event);
    event.set_capture(&instance, &instance.append(*part, std::move(task)));
  } else {
    event.set_capture(&instance, nullptr);
  }
  instance.capture->events.emplace_back(&event);
  return event.kind() == EventKind::kEx;
}

void check_not_captured(const Event& event, const Stream& stream) {
  if (!stream.is_default() || !event.captured()) return;
  base::fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
             "the event is part of a capture, and the default stream cannot be drawn into one");
}

namespace {

void wait_within(ModelInstance& instance, Part& part, Record& record) {
  Task task;
  task.kind = TaskKind::kWait;
  task.name = "aclrtStreamWaitEvent";
  task.event = record.task.event;
  instance.append(part, std::move(task));
  record.waited_by.push_back(part.recording.part);
}

// A wait for an event that no capture has recorded, on a captured stream.
bool wait_outside(const Event& event, ModelInstance& instance) {
  if (event.kind() != EventKind::kEx) return false;  // an EXTERNAL event
  if (!event.recorded()) return true;
  spoil(instance, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
        "a captured stream waits for an event that was recorded outside the capture");
}

}  // namespace

bool capture_wait(Event& event, Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part* part = captured_part(stream);
  ModelInstance* origin = event.capture();
  if (origin == nullptr) {
    return part != nullptr && wait_outside(event, *part->recording.instance);
  }
  if (stream.is_default()) {
    spoil(*origin, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
          "the event is part of a capture, and the default stream cannot be drawn into one");
  }
  if (part != nullptr && part->recording.instance != origin) {
    part->recording.instance->capture->spoiled = true;
    spoil(*origin, ACL_ERROR_STREAM_CAPTURE_CONFLICT,
          "the event and " + name_of(stream) + " belong to different captures");
  }
  Record* const record = event.captured_record();
  if (record == nullptr) return false;  // an EXTERNAL event
  if (part == nullptr) {
    if (stream.recording() != nullptr) return false;
    try {
      part = &draw_in(*origin, stream);
    } catch (const base::Error&) {
      origin->capture->spoiled = true;
      throw;
    }
  }
  const auto& own = part->records;
  const bool same =
      std::any_of(own.begin(), own.end(), [&](const auto& each) { return each.get() == record; });
  if (!same) wait_within(*origin, *part, *record);
  return true;
}

// ---- task groups

void begin_task_group(Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Recording& recording = part_or_refuse(stream).recording;
  if (recording.group_open) {
    base::fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "a task group is open on " + name_of(stream) + " already");
  }
  recording.group = base::make_ref<TaskGroup>();
  recording.group->instance = base::Ref<ModelInstance>(recording.instance);
  recording.group_open = true;
}

base::Ref<TaskGroup> end_task_group(Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Recording& recording = part_or_refuse(stream).recording;
  if (!recording.group_open) {
    base::fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group is open on " + name_of(stream) +
                                                       "; call aclmdlRICaptureTaskGrpBegin first");
  }
  recording.group_open = false;
  base::handles().insert(recording.group);
  return std::move(recording.group);
}

namespace {

// What streams record into while they update; guarded by recording_mutex().
std::vector<std::pair<const Stream*, std::unique_ptr<Recording>>>& updates() {
  static auto* const all = new std::vector<std::pair<const Stream*, std::unique_ptr<Recording>>>;
  return *all;
}

}  // namespace

void begin_task_update(Stream& stream, const base::Ref<TaskGroup>& group) {
  const std::lock_guard lock(recording_mutex());
  if (stream.recording() != nullptr) {
    base::fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "an update is open on " + name_of(stream) + " already");
  }
  auto recording = std::make_unique<Recording>();
  recording->mode = Recording::Mode::kUpdate;
  recording->group = group;
  stream.set_recording(recording.get());
  updates().emplace_back(&stream, std::move(recording));
}

void end_task_update(Stream& stream) {
  base::Ref<TaskGroup> group;
  auto bodies = std::make_shared<std::vector<TaskBody>>();
  {
    const std::lock_guard lock(recording_mutex());
    Recording* recording = stream.recording();
    if (recording == nullptr || recording->mode != Recording::Mode::kUpdate) {
      base::fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                 "no update is open on " + name_of(stream) +
                     "; call aclmdlRICaptureTaskUpdateBegin first");
    }
    group = recording->group;
    *bodies = std::move(recording->replacements);
    stream.set_recording(nullptr);
    std::erase_if(updates(), [&](const auto& each) { return each.first == &stream; });
  }
  if (bodies->size() != group->records.size()) {
    base::fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
               "the update has " + std::to_string(bodies->size()) + " tasks, the task group " +
                   std::to_string(group->records.size()) + "; nothing was updated");
  }
  stream.submit(Engine::kNone, "aclmdlRICaptureTaskUpdate", [group, bodies]() -> base::Code {
    group->instance->swap_bodies(*group, *bodies);
    return 0;
  });
}

// ---- conditions

base::Ref<Condition> create_condition(const base::Ref<ModelInstance>& instance, uint32_t start,
                                      bool assign) {
  auto condition = base::make_ref<Condition>();
  condition->value = memory::allocate_device(instance->context().device().index(), sizeof(uint64_t),
                                             ACL_MEM_MALLOC_HUGE_FIRST);
  condition->start = start;
  condition->assign = assign;
  memory::copy(condition->value, &condition->start, sizeof condition->start);
  const std::lock_guard lock(recording_mutex());
  if (!instance->capture) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "model instance " + std::to_string(instance->id()) + " is not being captured");
  }
  condition->instance = instance.get();
  base::handles().insert(condition);
  instance->conditions.push_back(condition);
  return condition;
}

void add_branches(const base::Ref<Condition>& condition, int32_t type, uint32_t count,
                  Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  Part& part = part_or_refuse(stream);
  ModelInstance& instance = *part.recording.instance;
  if (condition->instance != &instance || !condition->branches.empty()) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the condition was made for another model instance than " + name_of(stream) +
                   " is captured into, or was used by an earlier condition task; one handle serves "
                   "one task");
  }
  for (uint32_t i = 0; i < count; ++i) {
    condition->branches.push_back(
        ModelInstance::create(instance.context_ref(), ModelInstance::Origin::kBranch));
  }
  condition->type = type;
  Task task;
  task.name = "condition";
  Record& record = instance.append(part, std::move(task));
  record.sort = Record::Sort::kBranch;
  record.condition = condition;
}

}  // namespace ascendrt::core
