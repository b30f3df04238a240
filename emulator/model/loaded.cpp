// Owns: loading onto a device and the task bodies of executions.
// Must never: touch client memory but through memory::view, and only inside tasks.
#include "model/loaded.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/failed_op.hpp"
#include "memory/memory.hpp"
#include "model/convert_shapes.hpp"
#include "model/gears.hpp"
#include "model/imported.hpp"
#include "model/om_container.hpp"
#include "model/types.hpp"

namespace ascendrt::model {
namespace {

int compute_threads() {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(base::env_int("ASCENDRT_COMPUTE_THREADS", std::min(cores, 16U), 1, 256));
}

}  // namespace

// Threads that share the items of one kernel; helpers are started by the first large kernel.
ops::Workers& compute_workers() {
  static auto* const shared = new ops::Workers(compute_threads());  // leaked: may outlive main
  return *shared;
}

namespace {

// A job costs about a microsecond, and several more when the helpers sleep.
ops::Workers& workers_for(const Step& step) {
  constexpr int64_t kWorthSharing = 200'000;
  return step.operations < kWorthSharing ? ops::Workers::serial() : compute_workers();
}

bool is_device_memory(const void* address) {
  const memory::Place place = memory::locate(address).place;
  return place == memory::Place::kDevice || place == memory::Place::kManaged;
}

[[noreturn]] void fail_run(const std::string& text) {
  base::fail(ACL_ERROR_RT_MODEL_EXECUTE, text);
}

core::Engine engine_of(const Step& step) {
  const std::string_view type = step.type;
  const auto has = [&](std::string_view part) { return type.find(part) != std::string_view::npos; };
  const bool cube = has("Conv") || has("MatMul") || has("Attention");
  return cube ? core::Engine::kCube : core::Engine::kVector;
}

// The kernel as the modelled clock sees it: multiplications and additions of cube ops count as two.
core::Load load_of(const Step& step) {
  core::Load load;
  const bool cube = engine_of(step) == core::Engine::kCube;
  load.flops = static_cast<double>(step.operations) * (cube ? 2 : 1);
  load.label = step.name.c_str();
  load.rate = core::Rate::kVector;
  for (const auto* values : {&step.inputs, &step.outputs}) {
    for (const Value& value : *values) {
      if (value.place.home == Place::Home::kNone) continue;
      load.bytes +=
          static_cast<uint64_t>(value.type.shape.elements()) * dtype_size(value.type.dtype);
    }
  }
  if (!cube) return load;
  const auto dtype = step.outputs.empty() ? ACL_FLOAT : step.outputs[0].type.dtype;
  load.rate = dtype == ACL_FLOAT ? core::Rate::kFp32 : core::Rate::kFp16;
  if (dtype == ACL_INT32 || dtype == ACL_INT8 || dtype == ACL_UINT8) load.rate = core::Rate::kInt8;
  return load;
}

}  // namespace

struct DeviceModel::Execution {
  Execution(const DeviceModel& device, uint32_t model_id, VariantPtr chosen, void* work_block,
            Buffers given)
      : model(device),
        id(model_id),
        variant(std::move(chosen)),
        work(work_block),
        buffers(std::move(given)) {}

  const DeviceModel& model;
  uint32_t id;
  VariantPtr variant;
  void* work;
  Buffers buffers;
  bool waited_for = false;  // the caller takes over what the run allocates
  // What must live as long as the tasks; null when the caller waits for them.
  std::shared_ptr<const LoadedModel> keep;
  WorkPtr keep_work;
  std::vector<void*>
      made;  // memory of outputs that came without; the caller's once the run is over
  Frame frame;
  std::atomic<bool> failed{false};     // for the rest of this run
  std::atomic<bool> cancelled{false};  // not all of it was queued

  // Runs a part unless an earlier one failed. Every failure is the run's: the device would report
  // no more than that, the text says what it was.
  template <class F>
  base::Code guard(F&& part, const Step* step = nullptr) {
    if (failed.load(std::memory_order_relaxed) || cancelled.load(std::memory_order_relaxed)) {
      return 0;
    }
    try {
      part();
      return 0;
    } catch (const base::Error& error) {
      fail(error.text, step);
    } catch (const std::exception& error) {
      fail(error.what(), step);
    }
  }

  [[noreturn]] void fail(const std::string& text, const Step* step) {
    failed.store(true, std::memory_order_relaxed);
    const std::string node = step == nullptr ? "" : ", node '" + step->name + "'";
    fail_run("model " + std::to_string(id) + node + ": " + text);
  }

  std::vector<HostBuffer> view(const std::vector<DeviceBuffer>& list, const char* what,
                               int64_t (*bytes)(const Program&, size_t)) const;

  base::Code run_step(size_t index);
  core::OpTensor tensor_of(const Value& value) const;
};

namespace {

// How much of a tensor of `wanted` bytes there is at an address. The device would use the model's
// size whatever the data buffer says (up to 64 bytes more are let through); here only as far as
// the allocation goes.
uint64_t usable(const DeviceBuffer& buffer, uint64_t wanted, memory::Place place) {
  if (buffer.size >= wanted || place != memory::Place::kDevice)
    return std::min(buffer.size, wanted);
  const memory::Allocation block = memory::find_device(buffer.address);
  const auto before = static_cast<uint64_t>(static_cast<const char*>(buffer.address) -
                                            static_cast<const char*>(block.start));
  return std::min(wanted, block.size_bytes - before);
}

}  // namespace

std::vector<HostBuffer> DeviceModel::Execution::view(const std::vector<DeviceBuffer>& list,
                                                     const char* what,
                                                     int64_t (*bytes)(const Program&,
                                                                      size_t)) const {
  std::vector<HostBuffer> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t fixed = bytes(variant->program, i);
    const auto wanted = fixed < 0 ? list[i].size : static_cast<uint64_t>(fixed);
    const auto place = memory::locate(list[i].address).place;
    const bool reachable = place == memory::Place::kDevice || place == memory::Place::kManaged ||
                           (place == memory::Place::kPinned && memory::open_mode());
    if (!reachable && wanted > 0) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 std::string(what) + " " + std::to_string(i) +
                     " is no device memory; allocate it with aclrtMalloc and copy to it");
    }
    const uint64_t used = wanted > 0 ? usable(list[i], wanted, place) : 0;
    out.push_back({used > 0 ? memory::view(list[i].address, used) : nullptr, used});
  }
  return out;
}

core::OpTensor DeviceModel::Execution::tensor_of(const Value& value) const {
  void* address = nullptr;
  if (value.place.home == Place::Home::kWork) {
    address = static_cast<char*>(work) + value.place.offset;
  } else if (value.place.home == Place::Home::kWeights) {
    address = static_cast<char*>(model.weights_) + value.place.offset;
  } else if (value.place.home == Place::Home::kInput) {
    address = buffers.inputs[static_cast<size_t>(value.place.offset)].address;
  }
  return {value.type.dtype, to_dims(value.type.shape), address};
}

base::Code DeviceModel::Execution::run_step(size_t index) {
  const Step& step = variant->program.steps()[index];
  const auto run = [&] {
    try {
      const ops::Stop stop(core::task_interruption());
      variant->program.run_step(frame, index, workers_for(step), &stop);
    } catch (...) {
      auto op = std::make_shared<core::FailedOp>();
      op->name = step.name;
      for (const Value& value : step.inputs) op->inputs.push_back(tensor_of(value));
      for (const Value& value : step.outputs) op->outputs.push_back(tensor_of(value));
      core::note_failed_op(std::move(op));
      throw;
    }
  };
  return guard(run, &step);
}

std::shared_ptr<LoadedModel> DeviceModel::load(Model model, const ModelMemory& memory) {
  compute_threads();  // a wrong setting is told now, not by the first large kernel
  auto loaded = std::make_shared<LoadedModel>();
  loaded->model = std::move(model);
  std::unique_ptr<DeviceModel> device(new DeviceModel(loaded->model, memory));
  loaded->model.weights = {};
  if (loaded->model.plain != nullptr) loaded->model.plain->weights = {};
  loaded->executor = std::move(device);
  return loaded;
}

namespace {

// Whether weights that kernels took over need not reach the device: they are in nobody's hands but
// the model's, and nothing is compiled from them later (gears, shapes of a run, bodies).
bool forgets(const Model& model, const ModelMemory& memory) {
  return model.weights.forget && memory.weights == nullptr && model.is_native() &&
         model.plain == nullptr && model.graphs.size() == 1 && model.parts.empty() &&
         model.gears.kind == GearKind::kNone && !model.is_dynamic() && !is_imported(model);
}

}  // namespace

DeviceModel::DeviceModel(const Model& model, const ModelMemory& memory)
    : context_(core::current_context()),
      fixed_(std::make_shared<const Variant>(
          Variant{nullptr, Program::compile(model, forgets(model, memory) ? model.weights.forget
                                                                          : Program::Forget{})})),
      owner_(memory::OwnerKind::kModel, model.name),
      priority_(memory.priority) {
  try {
    turn_ = core::Event::create(core::EventKind::kEx, 0);
    base::handles().remove<core::Event>(turn_->handle());  // nobody outside may know it
    place_weights(model, memory);
    place_work(model, memory);
  } catch (...) {
    for (void* block : owned_) release(block);
    throw;
  }
}

namespace {

VariantPtr compiled(std::shared_ptr<Model> model, std::span<const uint8_t> weights) {
  model->weights.bytes = weights;
  Program program = Program::compile(*model);
  model->weights = {};
  return std::make_shared<const Variant>(Variant{std::move(model), std::move(program)});
}

}  // namespace

void DeviceModel::release(void* block) noexcept {
  try {
    memory::free_device(block);
  } catch (const base::Error& error) {  // somebody else freed the block, or the device was reset
    base::warn_once("model memory", "memory of a model was gone before the model: " + error.text);
  }
}

DeviceModel::~DeviceModel() {
  if (stream_) {
    base::handles().remove<core::Stream>(stream_->handle());
    stream_->shut_down(true);
  }
  for (void* block : owned_) release(block);
}

DeviceModel::WorkBlock::~WorkBlock() {
  if (owned) release(address);
}

void* DeviceModel::allocate(uint64_t bytes) {
  void* block = memory::allocate_device(context_->device().index(), bytes,
                                        ACL_MEM_MALLOC_HUGE_FIRST, owner_.number());
  owned_.push_back(block);
  return block;
}

namespace {

// The caller's block, or null when there is none. Too small is refused, whatever the model needs.
void* given_block(const char* what, void* block, uint64_t size, uint64_t needed) {
  if (block == nullptr) return nullptr;
  if (size < needed) {
    fail_model(kGeParamInvalid, std::string(what) + " block has " + std::to_string(size) +
                                    " bytes, the model needs " + std::to_string(needed) +
                                    " (aclmdlQuerySize)");
  }
  if (!is_device_memory(block)) {
    fail_model(kGeParamInvalid, std::string(what) + " block is no device memory");
  }
  return block;
}

}  // namespace

// The caller's block is measured by what the file holds; weights that were laid out anew may need
// more, and then get a block of their own.
void DeviceModel::place_weights(const Model& model, const ModelMemory& memory) {
  const auto bytes = model.plain != nullptr ? model.plain->weights.bytes : model.weights.bytes;
  weight_bytes_ = bytes.size();
  weights_ = given_block("weight", memory.weights, memory.weight_bytes,
                         model.weights.bytes.size() - model.external_bytes);
  if (weight_bytes_ == 0) return;
  if (weights_ == nullptr || memory.weight_bytes < weight_bytes_)
    weights_ = allocate(weight_bytes_);
  has_parts_only_ = forgets(model, memory);
  if (!has_parts_only_) return memory::copy(weights_, bytes.data(), weight_bytes_);
  for (const WeightPart& part : program().weight_parts()) {
    memory::copy(static_cast<char*>(weights_) + part.offset, bytes.data() + part.offset,
                 static_cast<uint64_t>(part.bytes));
  }
}

// Files of other compilers record the work area of their own plan. The caller's block is accepted
// by that size; when the program here needs more, it gets a block of its own.
void DeviceModel::place_work(const Model& model, const ModelMemory& memory) {
  auto needed = static_cast<uint64_t>(program().work_bytes());
  if (model.gears.kind != GearKind::kNone) needed = model.task_info.memory_size;
  void* given = given_block("work", memory.work, memory.work_bytes, model.task_info.memory_size);
  const uint64_t bytes = given == nullptr ? 0 : memory.work_bytes;
  work_ = bytes >= needed ? WorkPtr(new WorkBlock{given, bytes, false}) : new_work(needed);
}

DeviceModel::WorkPtr DeviceModel::new_work(uint64_t bytes) const {
  void* block = memory::allocate_device(context_->device().index(), bytes,
                                        ACL_MEM_MALLOC_HUGE_FIRST, owner_.number());
  return WorkPtr(new WorkBlock{block, bytes, true});
}

// The block for a program.
DeviceModel::WorkPtr DeviceModel::work_for(const Program& program) {
  const auto needed = static_cast<uint64_t>(program.work_bytes());
  const std::lock_guard lock(work_mutex_);
  if (work_->bytes < needed) work_ = new_work(needed);
  return work_;
}

// The weights left the host when the model was loaded; they are the model's own on the device.
std::span<const uint8_t> DeviceModel::weights_view() const {
  if (weight_bytes_ == 0) return {};
  return {static_cast<const uint8_t*>(memory::view(weights_, weight_bytes_)), weight_bytes_};
}

VariantPtr DeviceModel::variant_of_gear(const LoadedModel& loaded, size_t gear) {
  return variants_.get({{static_cast<int64_t>(gear)}}, [&] {
    auto model = std::make_shared<Model>(gear_model(loaded.model, gear));
    model->unresolved = loaded.model.unresolved;
    return compiled(std::move(model), weights_view());
  });
}

VariantPtr DeviceModel::variant_of_shapes(const LoadedModel& loaded,
                                          const std::vector<Dims>& shapes) {
  return variants_.get(shapes, [&] {
    try {
      const auto weights = weights_view();
      return compiled(std::make_shared<Model>(specialise(loaded.model, weights, shapes)), weights);
    } catch (const base::Error& error) {
      fail_run("the network cannot take inputs of these shapes: " + error.text);
    }
  });
}

bool DeviceModel::admits(Use use) {
  uint8_t before = 255;
  const auto wanted = static_cast<uint8_t>(use);
  return use_.compare_exchange_strong(before, wanted) || before == wanted;
}

core::Stream& DeviceModel::own_stream() {
  const std::lock_guard lock(stream_mutex_);
  if (!stream_) stream_ = core::Stream::create(context_, priority(), 0);
  return *stream_;
}

void DeviceModel::set_priority(uint32_t priority) {
  const std::lock_guard lock(stream_mutex_);
  priority_.store(priority, std::memory_order_relaxed);
  if (stream_) stream_->set_priority(priority);
}

std::vector<OutputResult> DeviceModel::execute(const std::shared_ptr<const LoadedModel>& loaded,
                                               const VariantPtr& variant, Buffers buffers,
                                               core::Stream* target, int64_t timeout_ms) {
  core::Stream& stream = target != nullptr ? *target : own_stream();
  const Program& program = variant->program;
  const bool may_linger = timeout_ms >= 0;
  // A run that is waited for to the end does not need to keep the model: the caller does.
  const WorkPtr work = work_for(program);
  const auto execution =
      std::make_shared<Execution>(*this, loaded->id, variant, work->address, std::move(buffers));
  execution->waited_for = true;
  if (may_linger) {
    execution->keep = loaded;
    execution->keep_work = work;
  }
  try {
    queue(stream, execution);
  } catch (...) {
    if (!may_linger) stream.synchronize(-1);  // tasks that were queued point into this model
    throw;
  }
  try {
    stream.synchronize_or_raise(timeout_ms);
  } catch (...) {
    if (may_linger && target == nullptr) linger(loaded);
    if (!may_linger) std::for_each(execution->made.begin(), execution->made.end(), release);
    throw;
  }
  std::vector<OutputResult> results;
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    results.push_back({program.output_type(execution->frame, i), execution->buffers.outputs[i]});
  }
  if (target == nullptr) linger(nullptr);  // the stream has done all that was queued before
  return results;
}

void DeviceModel::linger(std::shared_ptr<const LoadedModel> loaded) {
  const std::lock_guard lock(stream_mutex_);
  lingering_.swap(loaded);
}

void DeviceModel::submit(const std::shared_ptr<const LoadedModel>& loaded,
                         const VariantPtr& variant, core::Stream& stream, Buffers buffers) {
  const WorkPtr work = work_for(variant->program);
  const auto execution =
      std::make_shared<Execution>(*this, loaded->id, variant, work->address, std::move(buffers));
  execution->keep = loaded;
  execution->keep_work = work;
  queue(stream, execution);
}

namespace {

bool record_if_taken(core::Event& event, core::Stream& stream) {
  try {
    event.record_external(stream);
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

}  // namespace

void DeviceModel::queue(core::Stream& stream, const ExecutionPtr& execution) {
  const std::lock_guard lock(submit_mutex_);
  turn_->wait_external(stream, 0);
  try {
    // Not work of the device: views of the buffers, and copies that other layouts need.
    stream.submit(core::Engine::kNone, "ModelInput", [this, execution] {
      execution->failed.store(false, std::memory_order_relaxed);  // a replay
      return execution->guard([&] { begin(*execution); });
    });
    const Program& program = execution->variant->program;
    for (size_t i = 0; i < program.steps().size(); ++i) {
      const Step& step = program.steps()[i];
      stream.submit(
          engine_of(step), step.type, [execution, i] { return execution->run_step(i); },
          core::time_is_modelled() ? load_of(step) : core::Load{});
    }
    stream.submit(core::Engine::kNone, "ModelOutput",
                  [this, execution] { return execution->guard([&] { end(*execution); }); });
  } catch (...) {
    // What is queued does nothing any more; the mark behind it still keeps the turns in order,
    // unless the stream takes nothing at all, and then it has dropped its tasks.
    execution->cancelled.store(true, std::memory_order_relaxed);
    record_if_taken(*turn_, stream);
    throw;
  }
  turn_->record_external(stream);
}

// A view may put huge pages under its range, so of weights that lie packed elsewhere none is taken.
const char* DeviceModel::view_weights(const Program& program) const {
  if (!has_parts_only_) return static_cast<const char*>(memory::view(weights_, weight_bytes_));
  for (const WeightPart& part : program.weight_parts()) {
    memory::view(static_cast<char*>(weights_) + part.offset, static_cast<uint64_t>(part.bytes));
  }
  return static_cast<const char*>(memory::view(weights_, 1));
}

void DeviceModel::begin(Execution& execution) const {
  const auto bytes = [](const Program& p, size_t i) { return p.inputs()[i].bytes; };
  const auto inputs = execution.view(execution.buffers.inputs, "input", bytes);
  const Program& program = execution.variant->program;
  const auto work_bytes = static_cast<uint64_t>(program.work_bytes());
  if (work_bytes > 0) {
    execution.frame.work = static_cast<char*>(memory::view(execution.work, work_bytes));
  }
  if (weight_bytes_ > 0) {
    execution.frame.weights = view_weights(program);
  }
  program.load_inputs(execution.frame, inputs);
}

void DeviceModel::end(Execution& execution) const {
  const auto bytes = [](const Program& p, size_t i) { return p.outputs()[i].bytes; };
  const Program& program = execution.variant->program;
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    DeviceBuffer& buffer = execution.buffers.outputs[i];
    // Somebody waits for a blocking run and takes the block over.
    if (buffer.address != nullptr || !execution.waited_for) continue;
    const TensorType type = program.output_type(execution.frame, i);
    buffer.size = static_cast<uint64_t>(type.shape.elements()) * ops::dtype_size(type.dtype);
    buffer.address = memory::allocate_device(
        context_->device().index(), std::max<uint64_t>(buffer.size, 1), ACL_MEM_MALLOC_HUGE_FIRST);
    execution.made.push_back(buffer.address);
  }
  program.store_outputs(execution.frame,
                        execution.view(execution.buffers.outputs, "output", bytes));
}

}  // namespace ascendrt::model
