// Model instances: recorded tasks that are played again. They come from a capture (capture.hpp) or
// are built by hand on bound streams. Owns: the records, what they compile to, and the streams that
// play them. Must never: run a task, or change what plays.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "core/context.hpp"
#include "core/graph.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

class ModelInstance;
struct Capture;

// One lock for all that records: instances, captures, labels and what streams record into. Callers
// may be inside a base::Peek: who holds it never removes a handle, which waits for those.
base::RankedMutex& recording_mutex();

// A place in a track that others jump to.
class Label : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kLabel;
  explicit Label(const base::Ref<Context>& owner) : context(owner) {}
  const base::Ref<Context> context;
  ModelInstance* instance = nullptr;  // once set
  Track* track = nullptr;
  size_t step = 0;
};

struct LabelList : base::Object {
  static constexpr base::Kind kKind = base::Kind::kLabelList;
  std::vector<base::Ref<Label>> labels;
};

// A value in device memory that decides which branch of a capture runs.
struct Condition : base::Object {
  static constexpr base::Kind kKind = base::Kind::kCondition;
  ~Condition() override;
  ModelInstance* instance = nullptr;
  void* value = nullptr;  // 8 bytes of device memory
  uint64_t start = 0;
  bool assign = false;  // set to `start` when a replay begins
  int32_t type = 0;
  std::vector<base::Ref<ModelInstance>> branches;
};

// Records that an update replaces; members of the instance that made it.
struct TaskGroup : base::Object {
  static constexpr base::Kind kKind = base::Kind::kTaskGroup;
  base::Ref<ModelInstance> instance;
  std::vector<struct Record*> records;
};

// One recorded task. Its handle is what aclmdlRIGetTasksByStream gives out.
struct Record : base::Object {
  static constexpr base::Kind kKind = base::Kind::kRecordedTask;
  enum class Sort : uint8_t { kTask, kControl, kLabel, kBranch };
  Sort sort = Sort::kTask;
  uint32_t id = 0;  // in the order of recording, of the whole instance
  bool disabled = false;
  bool disable_at_update = false;
  Task task;                       // without its body
  std::shared_ptr<TaskBody> body;  // swapped by updates, under TaskGroup's instance's lock
  base::Ref<TaskGroup> group;
  base::Ref<Label> label;
  base::Ref<Condition> condition;
  base::Ref<Watch> parameters;    // of value tasks, from the next update on
  std::vector<size_t> waited_by;  // records of a capture: tracks with a wait for it
  size_t first_step = 0;
};

struct Recording {
  enum class Mode : uint8_t { kCapture, kBuild, kUpdate };
  Mode mode = Mode::kBuild;
  ModelInstance* instance = nullptr;
  size_t part = 0;
  base::Ref<TaskGroup> group;  // kCapture: open; kUpdate: being replaced
  bool group_open = false;
  std::vector<TaskBody> replacements;  // kUpdate
};

// A track with its records and streams.
struct Part {
  Track track;
  base::Ref<Stream> stream;  // plays it
  base::Ref<Stream> source;  // recorded from; the same when built by hand
  Recording recording;
  std::vector<base::Ref<Record>> records;
};

class ModelInstance : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kModelInstance;
  enum class Origin : uint8_t { kCapture, kBuild, kBranch };
  enum class State : uint8_t { kOpen, kRecording, kComplete };

  // Inserts the handle; recording_mutex() is held. kBranch: made by a condition of a capture.
  static base::Ref<ModelInstance> create(const base::Ref<Context>& context, Origin origin);

  Context& context() const { return *context_; }
  const base::Ref<Context>& context_ref() const { return context_; }
  Origin origin() const { return origin_; }
  uint32_t id() const { return id_; }

  // ---- with recording_mutex() held
  State state = State::kOpen;
  bool end_task = false;
  bool closed = false;  // takes no replay any more
  std::string name;
  std::unique_ptr<Capture> capture;  // while it is captured
  std::vector<std::pair<void (*)(void*), void*>> on_destroy;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<base::Ref<Condition>> conditions;

  Part& add_part(const base::Ref<Stream>& stream, const base::Ref<Stream>& source, bool head);
  // 507002 when the stream's queue is full.
  Record& append(Part& part, Task task);
  // The records, whose handles are to be removed without the lock.
  std::vector<base::Ref<Record>> remove_part(Part& part);
  // Turns the records into what is played. The instance does not run.
  void compile();
  void add_inner(const base::Ref<EventState>& level) { graph_->inner.push_back(level); }
  // The part that the stream plays; null when it plays none.
  Part* part_of(const Stream& stream) const;
  // Streams record into it no more.
  void release_sources();

  // ---- without it
  bool running() const { return runs_.load(std::memory_order_acquire) > 0; }
  // Queues a replay. The instance lives until it is done.
  void submit(Stream& stream);
  // Runs it on a stream of its own and waits; false when the time is over.
  void execute(int32_t timeout_ms);
  // Ends the replay under way with 507023.
  void abort();
  // From now on it is not run; false when it runs.
  bool retire();
  // Ends its streams; dead handles for what it gave out.
  void close();
  std::string json(bool verbose) const;
  void swap_bodies(TaskGroup& group, std::vector<TaskBody>& bodies);

 private:
  ModelInstance(const base::Ref<Context>& context, Origin origin);
  ~ModelInstance() override;
  struct Run;
  void forget_records();
  void compile(Part& part, std::vector<std::pair<uint32_t, std::pair<Track*, size_t>>>& externals);
  void compile_defaults(Part& part);
  void compile_branch(Part& part, Record& record);
  base::Code play(Part& part, size_t first, size_t last);
  void check_open() const;
  base::Ref<GraphRun> new_run();

  const base::Ref<Context> context_;
  const Origin origin_;
  const uint32_t id_;
  uint32_t next_id_ = 0;
  const base::Ref<Graph> graph_ = base::make_ref<Graph>();
  std::atomic<uint32_t> runs_{0};  // submitted, not done
  base::RankedMutex bodies_{base::Rank::kLeaf};
  base::Ref<Stream> own_stream_;  // of execute()
};

// aclmdlRITaskType of a recorded task.
int32_t record_type(const Record& record);

// What Stream::enqueue calls: false when the stream records nothing any more.
bool record_task(Stream& stream, Task& task);
// The stream that will play what this one records; the stream itself when it records nothing.
base::Ref<Stream> player_of(Stream& stream);
bool records_as(const Stream& stream, Recording::Mode mode);

// The instance behind a handle: raises 107017; of another context than the current one: 107004.
base::Ref<ModelInstance> instance_behind(void* handle);
base::Ref<ModelInstance> instance_of_current(void* handle);
// The instance that a stream belongs to and its part; recording_mutex() is held.
std::pair<ModelInstance*, Part*> find_part(const Stream& stream);
// Whether a stream is bound to an instance, or is one of its own.
bool in_instance(const Stream& stream);
// Ends all instances of a context that is torn down.
void close_instances(const Context& context);

// Jumps, as tasks of a bound stream. Raise 107005 when a stream is not bound to the same instance.
void set_label(Label& label, Stream& stream);
void switch_label(const void* index, uint32_t count, const base::Ref<LabelList>& list,
                  Stream& stream);
void switch_stream(const void* left, int32_t condition, const void* right, int32_t type,
                   Stream& target, Stream& stream);
void active_stream(Stream& target, Stream& stream);

}  // namespace ascendrt::core
