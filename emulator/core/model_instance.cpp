// Owns: making, compiling, running and ending model instances.
// Must never: hold the recording lock while it waits.
#include "core/model_instance.hpp"

#include <algorithm>
#include <mutex>

#include "base/log.hpp"
#include "core/capture.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

constexpr size_t kMaxRecords = 60'000;  // where the chip's own figure is unknown

std::atomic<uint32_t> g_next_id{0};

// All that live, so that a context can end its own. Guarded by recording_mutex().
std::vector<ModelInstance*>& all_instances() {
  static auto* const all = new std::vector<ModelInstance*>;
  return *all;
}

bool is_plain_body(const Record& record) {
  return record.sort == Record::Sort::kTask && record.task.kind == TaskKind::kBody;
}

bool is_external(const Task& task) {
  return (task.kind == TaskKind::kRecord || task.kind == TaskKind::kWait) &&
         task.event->rule != WaitRule::kLevel;
}

}  // namespace

base::RankedMutex& recording_mutex() {
  static auto* const mutex = new base::RankedMutex(base::Rank::kRecording);
  return *mutex;
}

Condition::~Condition() {
  try {
    if (value != nullptr) memory::free_device(value);
  } catch (const base::Error& error) {
    base::warn_once("condition memory",
                    "the memory of a condition was gone before its model instance: " + error.text);
  }
}

struct ModelInstance::Run : GraphRun {
  explicit Run(ModelInstance& instance) : instance_(instance) {
    graph = instance.graph_;
    owner = base::Ref<const base::Counted>(&instance);
    instance.runs_.fetch_add(1, std::memory_order_relaxed);
  }
  // release: who sees the count sees what the replay did.
  ~Run() override { instance_.runs_.fetch_sub(1, std::memory_order_release); }

 private:
  ModelInstance& instance_;
};

ModelInstance::ModelInstance(const base::Ref<Context>& context, Origin origin)
    : context_(context),
      origin_(origin),
      id_(g_next_id.fetch_add(1, std::memory_order_relaxed) + 1) {}

base::Ref<ModelInstance> ModelInstance::create(const base::Ref<Context>& context, Origin origin) {
  base::Ref<ModelInstance> instance(new ModelInstance(context, origin));
  base::handles().insert(instance);
  all_instances().push_back(instance.get());
  return instance;
}

ModelInstance::~ModelInstance() = default;

// ---- recording

Part& ModelInstance::add_part(const base::Ref<Stream>& stream, const base::Ref<Stream>& source,
                              bool head) {
  auto part = std::make_unique<Part>();
  part->stream = stream;
  part->source = source;
  part->track.graph = graph_.get();
  part->track.lane = &stream->state();
  part->track.head = head;
  part->recording.mode =
      origin_ == Origin::kBuild ? Recording::Mode::kBuild : Recording::Mode::kCapture;
  part->recording.instance = this;
  part->recording.part = parts.size();
  executor().set_track(stream->state(), &part->track);
  parts.push_back(std::move(part));
  source->set_recording(&parts.back()->recording);
  return *parts.back();
}

std::vector<base::Ref<Record>> ModelInstance::remove_part(Part& part) {
  part.source->set_recording(nullptr);
  executor().set_track(part.stream->state(), nullptr);
  const size_t at = part.recording.part;
  std::vector<base::Ref<Record>> removed = std::move(part.records);
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
  for (size_t i = at; i < parts.size(); ++i) parts[i]->recording.part = i;
  return removed;
}

Record& ModelInstance::append(Part& part, Task task) {
  const int32_t known = context_->device().soc().persistent_tasks;
  const size_t limit = known > 0 ? static_cast<size_t>(known) : kMaxRecords;
  if (part.records.size() >= limit) {
    base::fail(ACL_ERROR_RT_STREAM_TASK_FULL,
               "stream " + std::to_string(part.source->id()) + " has " + std::to_string(limit) +
                   " recorded tasks, its queue takes no more; spread them over several streams");
  }
  auto record = base::make_ref<Record>();
  record->id = next_id_++;
  if (task.body) record->body = std::make_shared<TaskBody>(std::move(task.body));
  record->task = std::move(task);
  record->task.body = {};
  record->task.id = record->id;
  if (part.recording.group_open) {
    record->group = part.recording.group;
    part.recording.group->records.push_back(record.get());
  }
  part.records.push_back(record);
  return *record;
}

Part* ModelInstance::part_of(const Stream& stream) const {
  for (const auto& part : parts) {
    if (part->stream.get() == &stream) return part.get();
  }
  return nullptr;
}

void ModelInstance::release_sources() {
  for (const auto& part : parts) {
    if (part->source->recording() == &part->recording) part->source->set_recording(nullptr);
  }
}

base::Ref<Stream> player_of(Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  const Recording* recording = stream.recording();
  if (recording == nullptr || recording->mode == Recording::Mode::kUpdate) {
    return base::Ref<Stream>(&stream);
  }
  return recording->instance->parts[recording->part]->stream;
}

bool records_as(const Stream& stream, Recording::Mode mode) {
  if (stream.recording() == nullptr) return false;
  const std::lock_guard lock(recording_mutex());
  const Recording* recording = stream.recording();
  return recording != nullptr && recording->mode == mode;
}

namespace {

void replace(Recording& recording, Task& task) {
  const auto& records = recording.group->records;
  const size_t at = recording.replacements.size();
  const bool fits = at < records.size() && records[at]->task.kind == task.kind &&
                    records[at]->task.engine == task.engine;
  if (!fits) {
    base::fail(
        ACL_ERROR_RT_MODEL_UPDATE_FAILED,
        "task " + std::to_string(at) + " of the update (" + task.name + ") does not match " +
            (at < records.size() ? std::string("the recorded one (") + records[at]->task.name + ")"
                                 : std::to_string(records.size()) + " recorded tasks") +
            "; the tasks of an update are as many and of the same kinds as those of the "
            "task group");
  }
  recording.replacements.push_back(std::move(task.body));
}

}  // namespace

bool record_task(Stream& stream, Task& task) {
  const std::lock_guard lock(recording_mutex());
  Recording* recording = stream.recording();
  if (recording == nullptr) return false;
  if (recording->mode == Recording::Mode::kUpdate) {
    replace(*recording, task);
  } else {
    ModelInstance& instance = *recording->instance;
    instance.append(*instance.parts[recording->part], std::move(task));
  }
  return true;
}

// ---- compiling

void ModelInstance::compile() {
  std::vector<std::pair<uint32_t, std::pair<Track*, size_t>>> externals;
  graph_->tracks.clear();
  for (const auto& part : parts) {
    compile(*part, externals);
    graph_->tracks.push_back(&part->track);
  }
  // Issued in the order in which they were recorded, whatever the stream.
  std::sort(externals.begin(), externals.end(),
            [](const auto& left, const auto& right) { return left.first < right.first; });
  graph_->externals.clear();
  for (const auto& [id, place] : externals) {
    place.first->steps[place.second].external = static_cast<int32_t>(graph_->externals.size());
    graph_->externals.push_back(place);
  }
}

// Tasks of one engine that follow each other become one step: nothing else of the instance can come
// between them, so a chain costs one task of the scheduler. Where time is modelled each has its
// own.
void ModelInstance::compile(
    Part& part, std::vector<std::pair<uint32_t, std::pair<Track*, size_t>>>& externals) {
  auto& steps = part.track.steps;
  auto& records = part.records;
  steps.clear();
  if (part.recording.part == 0) compile_defaults(part);
  for (size_t at = 0; at < records.size();) {
    Record& record = *records[at];
    record.first_step = steps.size();
    const size_t first = at++;
    if (record.sort == Record::Sort::kLabel) record.label->step = steps.size();
    if (record.sort == Record::Sort::kLabel || record.disabled) continue;
    if (record.sort == Record::Sort::kBranch) {
      compile_branch(part, record);
      continue;
    }
    while (is_plain_body(record) && !time_is_modelled() && at < records.size() &&
           is_plain_body(*records[at]) && records[at]->task.engine == record.task.engine) {
      records[at++]->first_step = steps.size();
    }
    Step& step = steps.emplace_back();
    step.model.kind = record.task.kind;
    step.model.engine = record.task.engine;
    step.model.name = record.task.name;
    step.model.id = record.id;
    step.model.thread_id = record.task.thread_id;
    step.model.timeout_ns = record.task.timeout_ns;
    step.model.event = record.task.event;
    step.model.host = record.task.host;
    step.model.extra = record.task.extra;
    step.model.timing = record.task.timing;
    if (record.body) step.body = [this, &part, first, at] { return play(part, first, at); };
    if (is_external(record.task)) externals.push_back({record.id, {&part.track, steps.size() - 1}});
  }
}

// Conditions that begin each replay with their first value.
void ModelInstance::compile_defaults(Part& part) {
  std::vector<base::Ref<Condition>> assigned;
  for (const auto& each : conditions) {
    if (each->assign) assigned.push_back(each);
  }
  if (assigned.empty()) return;
  Step& step = part.track.steps.emplace_back();
  step.model.name = "condition";
  step.body = [assigned]() -> base::Code {
    for (const auto& each : assigned) memory::copy(each->value, &each->start, sizeof each->start);
    return 0;
  };
}

// decide; branch 0; to the end (a loop: to decide); branch 1; ...
void ModelInstance::compile_branch(Part& part, Record& record) {
  auto& steps = part.track.steps;
  const base::Ref<Condition> condition = record.condition;
  const size_t decide = steps.size();
  const size_t end = decide + 1 + 2 * condition->branches.size();
  const bool loop = condition->type == ACL_MODEL_RI_COND_TYPE_WHILE;
  Step& step = steps.emplace_back();
  step.model.name = record.task.name;
  step.model.id = record.id;
  step.body = [condition, &part, decide, end]() -> base::Code {
    uint64_t value = 0;
    memory::copy(&value, condition->value, sizeof value);
    const size_t count = condition->branches.size();
    size_t chosen = static_cast<size_t>(value);
    if (condition->type == ACL_MODEL_RI_COND_TYPE_IF) chosen = value != 0 ? 0 : 1;
    if (condition->type == ACL_MODEL_RI_COND_TYPE_WHILE) chosen = value != 0 ? 0 : count;
    part.track.next = chosen < count ? decide + 1 + 2 * chosen : end;
    return 0;
  };
  for (const auto& branch : condition->branches) {
    Step& play = steps.emplace_back();
    play.model.kind = TaskKind::kReplay;
    play.model.name = "branch";
    play.model.id = record.id;
    auto run = base::make_ref<GraphRun>();
    run->graph = branch->graph_;
    run->owner = branch;
    play.model.extra = run;
    steps.emplace_back().go_to = static_cast<int32_t>(loop ? decide : end);
  }
}

// ---- running

// Runs the records of a step. After a failure the step is played again for the ones behind it, so
// that the scheduler decides whether the stream goes on at all.
base::Code ModelInstance::play(Part& part, size_t first, size_t last) {
  size_t at = std::max(first, std::exchange(part.track.resume, 0));
  if (at >= last) at = first;
  for (; at < last; ++at) {
    const Record& record = *part.records[at];
    if (record.disabled) continue;
    std::shared_ptr<TaskBody> swapped;
    if (record.group) {
      const std::lock_guard lock(bodies_);
      swapped = record.body;
    }
    const auto went_on = [&] {
      if (at + 1 == last) return;
      part.track.resume = at + 1;
      --part.track.next;
    };
    try {
      const base::Code code = swapped ? (*swapped)() : (*record.body)();
      if (code == 0) continue;
      went_on();
      return code;
    } catch (base::Error& error) {
      went_on();
      if (last - first > 1) {
        error.text = "recorded task " + std::to_string(record.id) + " (" + record.task.name +
                     "): " + error.text;
      }
      throw;
    }
  }
  return 0;
}

// With the lock held.
void ModelInstance::check_open() const {
  if (!closed) return;
  base::fail(ACL_ERROR_RT_INVALID_HANDLE,
             "model instance " + std::to_string(id_) + " was destroyed by another thread");
}

base::Ref<GraphRun> ModelInstance::new_run() {
  check_open();
  base::Ref<GraphRun> run(new Run(*this));
  run->issued.reserve(graph_->externals.size());
  return run;
}

void ModelInstance::submit(Stream& stream) {
  Task task;
  task.kind = TaskKind::kReplay;
  task.name = "aclmdlRIExecute";
  {
    const std::lock_guard lock(recording_mutex());
    task.extra = new_run();
  }
  stream.enqueue(std::move(task));
}

void ModelInstance::execute(int32_t timeout_ms) {
  base::Ref<Stream> stream;
  bool made = false;
  {
    const std::lock_guard lock(recording_mutex());
    check_open();
    made = !own_stream_;
    if (made) own_stream_ = Stream::create(context_, 0, 0);
    stream = own_stream_;
  }
  if (made) base::handles().remove<Stream>(stream->handle());
  submit(*stream);
  stream->synchronize_or_raise(timeout_ms);
}

void ModelInstance::abort() {
  executor().abort(*graph_, {ACL_ERROR_RT_MODEL_ABORT_NORMAL,
                             "model instance " + std::to_string(id_) + " was aborted"});
}

void ModelInstance::swap_bodies(TaskGroup& group, std::vector<TaskBody>& bodies) {
  const std::lock_guard lock(bodies_);
  for (size_t i = 0; i < bodies.size(); ++i) {
    group.records[i]->body = std::make_shared<TaskBody>(std::move(bodies[i]));
  }
}

// ---- ends

bool ModelInstance::retire() {
  const std::lock_guard lock(recording_mutex());
  closed = closed || !running();
  return closed;
}

void ModelInstance::close() {
  std::vector<base::Ref<Stream>> ended;
  std::vector<base::Ref<Condition>> gone;
  {
    const std::lock_guard lock(recording_mutex());
    closed = true;
    release_sources();
    std::erase(all_instances(), this);
    for (const auto& part : parts) {
      if (part->stream.get() != part->source.get()) ended.push_back(part->stream);
    }
    if (own_stream_) ended.push_back(own_stream_);
    gone.swap(conditions);
  }
  for (const auto& condition : gone) {
    base::handles().remove<Condition>(condition->handle());
    for (const auto& branch : condition->branches) {
      base::handles().remove<ModelInstance>(branch->handle());
      branch->close();
    }
  }
  executor().retire(*graph_, {ACL_ERROR_RT_MODEL_ABORT_NORMAL,
                              "model instance " + std::to_string(id_) + " was ended"});
  for (const auto& stream : ended) {
    base::handles().remove<Stream>(stream->handle());
    stream->shut_down(false);
  }
  forget_records();
}

// Takes back the handles of what was recorded, and what would hold the instance.
void ModelInstance::forget_records() {
  std::vector<base::Ref<Record>> records;
  std::vector<base::Ref<TaskGroup>> groups;
  {
    const std::lock_guard lock(recording_mutex());
    for (const auto& part : parts) {
      executor().set_track(part->stream->state(), nullptr);
      for (const auto& record : part->records) {
        records.push_back(record);
        if (record->group) groups.push_back(std::move(record->group));
        if (record->label) record->label->instance = nullptr;
      }
      if (part->recording.group) groups.push_back(std::move(part->recording.group));
    }
  }
  for (const auto& record : records) base::handles().remove<Record>(record->handle());
  for (const auto& group : groups) base::handles().remove<TaskGroup>(group->handle());
}

std::pair<ModelInstance*, Part*> find_part(const Stream& stream) {
  for (ModelInstance* instance : all_instances()) {
    if (Part* part = instance->part_of(stream)) return {instance, part};
  }
  return {nullptr, nullptr};
}

bool in_instance(const Stream& stream) {
  const std::lock_guard lock(recording_mutex());
  return find_part(stream).first != nullptr;
}

void close_instances(const Context& context) {
  std::vector<base::Ref<ModelInstance>> mine;
  {
    const std::lock_guard lock(recording_mutex());
    for (ModelInstance* instance : all_instances()) {
      if (&instance->context() == &context && instance->origin() != ModelInstance::Origin::kBranch)
        mine.emplace_back(instance);
    }
  }
  for (const auto& instance : mine) {
    base::handles().remove<ModelInstance>(instance->handle());
    drop_capture(*instance);
    instance->close();
  }
}

base::Ref<ModelInstance> instance_behind(void* handle) {
  auto instance = base::handles().get<ModelInstance>(handle);
  if (!instance) {
    base::fail(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the model instance handle is none that lives: it was destroyed, its context too, or "
        "it is the handle of something else");
  }
  return instance;
}

base::Ref<ModelInstance> instance_of_current(void* handle) {
  auto instance = instance_behind(handle);
  const auto context = current_context();
  if (&instance->context() != context.get()) {
    base::fail(ACL_ERROR_RT_MODEL_CONTEXT,
               "model instance " + std::to_string(instance->id()) + " belongs to context " +
                   std::to_string(instance->context().id()) +
                   ", but the calling thread's current context is " +
                   std::to_string(context->id()) + "; call aclrtSetCurrentContext first");
  }
  return instance;
}

}  // namespace ascendrt::core
