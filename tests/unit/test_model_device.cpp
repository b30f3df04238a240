// Models on the device: concurrent executions take turns, unloading while running is safe, failures
// stay with the stream.
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "core/context.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "memory/memory.hpp"
#include "model/convert.hpp"
#include "model/loaded.hpp"
#include "onnx_bytes.hpp"
#include "test.hpp"

using namespace ascendrt;
using model::DeviceModel;

namespace {

constexpr int64_t kSide = 64;
constexpr uint64_t kBytes = kSide * kSide * sizeof(float);

struct Scope {
  Scope() : context(core::Context::create(core::runtime().device(0), false)) {
    core::thread_state().set_explicit(context);
  }
  ~Scope() {
    core::thread_state().set_explicit(nullptr);
    if (context->alive()) context->destroy();
  }
  base::Ref<core::Context> context;
};

// y = relu(x * 2 - 1) ^ 2, several steps over a shared work area.
std::vector<uint8_t> network() {
  test::OnnxBytes onnx;
  onnx.input("x", {kSide, kSide}).floats("two", {}, {2}).floats("one", {}, {1});
  onnx.node("Mul", {"x", "two"}, {"a"}).node("Sub", {"a", "one"}, {"b"});
  onnx.node("Relu", {"b"}, {"c"}).node("Mul", {"c", "c"}, {"y"}).output("y");
  return onnx.file();
}

float expected(float x) {
  const float v = std::fmax(0.0F, x * 2 - 1);
  return v * v;
}

std::shared_ptr<model::LoadedModel> load(const model::ModelMemory& memory = {}) {
  return DeviceModel::load(model::convert_onnx(network(), {}), memory);
}

// One input and one output on the device.
struct Io {
  explicit Io(float value) : value(value) {
    x = memory::allocate_device(0, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    y = memory::allocate_device(0, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    const std::vector<float> data(kSide * kSide, value);
    memory::copy(x, data.data(), kBytes);
  }
  ~Io() {
    memory::free_device(x);
    memory::free_device(y);
  }
  model::Buffers buffers() const { return {{{x, kBytes}}, {{y, kBytes}}}; }
  bool right() const {
    std::vector<float> data(kSide * kSide);
    memory::copy(data.data(), y, kBytes);
    for (const float v : data) {
      if (v != expected(value)) return false;
    }
    return true;
  }
  float value;
  void* x;
  void* y;
};

base::Ref<core::Stream> stream(const Scope& scope) {
  return core::Stream::create(scope.context, 0, 0);
}

}  // namespace

TEST(model_runs_blocking_from_several_threads) {
  const Scope scope;
  const auto loaded = load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Io io(static_cast<float>(t) + 0.25F);
      for (int i = 0; i < 20; ++i) {
        DeviceModel::of(*loaded).execute(loaded, DeviceModel::of(*loaded).only_variant(),
                                         io.buffers());
        CHECK(io.right());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(model_executions_on_streams_take_turns) {
  const Scope scope;
  const auto loaded = load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto own = stream(scope);
      const Io io(static_cast<float>(t) + 0.5F);
      for (int i = 0; i < 20; ++i)
        DeviceModel::of(*loaded).submit(loaded, DeviceModel::of(*loaded).only_variant(), *own,
                                        io.buffers());
      CHECK_EQ(own->synchronize(-1), 0);
      CHECK(io.right());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(model_may_be_unloaded_while_it_runs) {
  const Scope scope;
  const auto own = stream(scope);
  const Io io(3.0F);
  auto loaded = load();
  const uint32_t id = model::registry().add(loaded);
  const auto before = memory::usage(0).free_bytes;
  for (int i = 0; i < 50; ++i)
    DeviceModel::of(*loaded).submit(loaded, DeviceModel::of(*loaded).only_variant(), *own,
                                    io.buffers());
  loaded.reset();
  CHECK(model::registry().remove(id));
  CHECK_EQ(own->synchronize(-1), 0);
  CHECK(io.right());
  // The last task lets the model go a moment after the stream is done.
  for (int i = 0; i < 1000 && memory::usage(0).free_bytes <= before; ++i) {
    std::this_thread::yield();
  }
  own->synchronize(-1);
  CHECK(memory::usage(0).free_bytes > before);
}

TEST(model_failure_is_kept_by_the_stream_with_its_reason) {
  const Scope scope;
  const auto own = stream(scope);
  const auto loaded = load();
  std::vector<float> host(kSide * kSide);
  const Io io(1.0F);
  model::Buffers buffers = io.buffers();
  buffers.inputs[0].address = host.data();
  DeviceModel::of(*loaded).submit(loaded, DeviceModel::of(*loaded).only_variant(), *own, buffers);
  try {
    own->synchronize_or_raise(-1);
    CHECK(false);
  } catch (const base::Error& error) {
    CHECK_EQ(error.code, ACL_ERROR_RT_MODEL_EXECUTE);
    CHECK(error.text.find("input 0 is no device memory") != std::string::npos);
  }
  DeviceModel::of(*loaded).submit(loaded, DeviceModel::of(*loaded).only_variant(), *own,
                                  io.buffers());  // the stream goes on
  CHECK_EQ(own->synchronize(-1), 0);
  CHECK(io.right());
}

TEST(model_uses_the_memory_it_is_given) {
  const Scope scope;
  const auto probe = load();
  const auto work = static_cast<uint64_t>(DeviceModel::of(*probe).program().work_bytes());
  void* block = memory::allocate_device(0, work, ACL_MEM_MALLOC_HUGE_FIRST);
  CHECK_THROWS_CODE(load({block, work - 1, nullptr, 0}), 145000);
  std::vector<char> host(work);
  CHECK_THROWS_CODE(load({host.data(), work, nullptr, 0}), 145000);
  {
    const auto loaded = load({block, work, nullptr, 0});
    const Io io(2.0F);
    memory::fill(block, 0, work);
    DeviceModel::of(*loaded).execute(loaded, DeviceModel::of(*loaded).only_variant(), io.buffers());
    CHECK(io.right());
    std::vector<char> after(work);
    memory::copy(after.data(), block, work);
    CHECK(after != std::vector<char>(work, 0));
  }
  memory::free_device(block);
}

TEST(model_takes_one_kind_of_execution) {
  const Scope scope;
  const auto loaded = load();
  CHECK(DeviceModel::of(*loaded).admits(DeviceModel::Use::kOnStream));
  CHECK(DeviceModel::of(*loaded).admits(DeviceModel::Use::kOnStream));
  CHECK(!DeviceModel::of(*loaded).admits(DeviceModel::Use::kBlocking));
}
