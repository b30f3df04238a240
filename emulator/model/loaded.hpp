// A model on a device: its memory, its compiled program and the tasks of its executions.
// Owns: the device memory it allocated and the stream of blocking executions. Must never: check
// what only the ABI promises (datasets, argument order); that is in abi/model_exec.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/ref.hpp"
#include "core/context.hpp"
#include "core/event.hpp"
#include "core/stream.hpp"
#include "memory/owners.hpp"
#include "model/registry.hpp"
#include "model/variants.hpp"

namespace ascendrt::model {

// The threads that share the items of large kernels, of models and of single operators.
ops::Workers& compute_workers();

// Blocks of the caller for a model's work area and weights; null: the model allocates them.
struct ModelMemory {
  void* work = nullptr;
  uint64_t work_bytes = 0;
  void* weights = nullptr;
  uint64_t weight_bytes = 0;
  uint32_t priority = 0;  // of the stream of blocking runs; 0 is the highest
};

// A buffer of one execution, by device address.
struct DeviceBuffer {
  void* address = nullptr;
  uint64_t size = 0;
};

// An output as a run left it. The buffer is the caller's, or one that the run allocated because the
// caller gave none and only the run could tell the size.
struct OutputResult {
  TensorType type;
  DeviceBuffer buffer;
};

struct Buffers {
  std::vector<DeviceBuffer> inputs;
  std::vector<DeviceBuffer> outputs;
};

// Note [Executions of one model]: a model has one work area, so its executions take turns. The turn
// is taken on the device: an execution's first task waits for the event recorded behind the one
// before, so a thread that submits never waits for another stream. Executions of one stream are
// ordered anyhow. The lock that keeps two submitters apart is held while tasks are queued; a full
// queue then holds up other submitters of the same model, but no task ever needs that lock.
class DeviceModel final : public ExecutorBase {
 public:
  // Loads onto the device of the current context; weights are copied there and given up by `model`.
  // Raises 107002, 145000 (a given block is too small or no device memory), 207001.
  static std::shared_ptr<LoadedModel> load(Model model, const ModelMemory& memory);
  ~DeviceModel() override;

  static DeviceModel& of(const LoadedModel& loaded) {
    return static_cast<DeviceModel&>(*loaded.executor);
  }

  // What runs when no gear is chosen.
  const Program& program() const { return fixed_->program; }
  // What runs for a gear; compiled when it is asked for first, which costs as much as loading a
  // model of that one shape.
  VariantPtr variant_of_gear(const LoadedModel& loaded, size_t gear);
  // What runs for inputs of these shapes, of a model whose shapes only a run tells. Made when it is
  // asked for first, as for a gear. Raises 507011 for shapes that the network cannot take.
  VariantPtr variant_of_shapes(const LoadedModel& loaded, const std::vector<Dims>& shapes);
  const VariantPtr& only_variant() const { return fixed_; }
  core::Context& context() const { return *context_; }

  // Frees device memory; a failure is told on stderr only.
  static void release(void* block) noexcept;

  // Of the stream of blocking runs.
  void set_priority(uint32_t priority);
  uint32_t priority() const { return priority_.load(std::memory_order_relaxed); }

  enum class Use : uint8_t { kBlocking, kOnStream };
  // The first use decides; false when the model was used in the other way before.
  bool admits(Use use);

  // Runs on the given stream (null: the model's own) and waits. Raises 507011 with the reason when
  // it fails, 507046 when the time is over; the run then goes on and keeps the model alive.
  std::vector<OutputResult> execute(const std::shared_ptr<const LoadedModel>& loaded,
                                    const VariantPtr& variant, Buffers buffers,
                                    core::Stream* stream = nullptr, int64_t timeout_ms = -1);
  // Queues the execution; the model lives until it is done. Failures stay with the stream.
  void submit(const std::shared_ptr<const LoadedModel>& loaded, const VariantPtr& variant,
              core::Stream& stream, Buffers buffers);

 private:
  struct Execution;
  using ExecutionPtr = std::shared_ptr<Execution>;

  DeviceModel(const Model& model, const ModelMemory& memory);
  void place_weights(const Model& model, const ModelMemory& memory);
  void place_work(const Model& model, const ModelMemory& memory);
  void* allocate(uint64_t bytes);
  struct WorkBlock {
    void* address;
    uint64_t bytes;
    bool owned;
    ~WorkBlock();
  };
  using WorkPtr = std::shared_ptr<const WorkBlock>;

  WorkPtr new_work(uint64_t bytes) const;
  WorkPtr work_for(const Program& program);
  std::span<const uint8_t> weights_view() const;
  core::Stream& own_stream();
  void linger(std::shared_ptr<const LoadedModel> loaded);
  void queue(core::Stream& stream, const ExecutionPtr& execution);
  const char* view_weights(const Program& program) const;
  void begin(Execution& execution) const;
  void end(Execution& execution) const;

  base::Ref<core::Context> context_;
  VariantPtr fixed_;
  WorkPtr work_;  // runs that are under way keep an outgrown one
  void* weights_ = nullptr;
  uint64_t weight_bytes_ = 0;
  bool has_parts_only_ = false;  // of the weights those that runs read
  memory::Owner owner_;          // before the blocks that bear it
  std::vector<void*> owned_;
  base::Ref<core::Event> turn_;    // recorded behind every execution
  std::atomic<uint8_t> use_{255};  // 255: not used yet
  std::mutex submit_mutex_;        // Note [Executions of one model]
  std::mutex work_mutex_;          // of the growth of the work block
  VariantCache variants_;          // of gears, by their number, or of shapes
  std::mutex stream_mutex_;
  base::Ref<core::Stream> stream_;  // of blocking executions, made at the first one
  std::atomic<uint32_t> priority_;
  // This model, while a run of its own stream that nobody waits for any more may go on: the stream
  // must not be taken down by one of its own tasks.
  std::shared_ptr<const LoadedModel> lingering_;
};

}  // namespace ascendrt::model
