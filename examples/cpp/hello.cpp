// The program of examples/c in C++17: every AscendCL object has an owner, every failure is an
// exception that carries the call, the code and the runtime's own text.
//
//     ascendrt sdk /tmp/sdk && . /tmp/sdk/set_env.sh
//     c++ -std=c++17 -I/tmp/sdk/include hello.cpp -L/tmp/sdk/lib64 -lascendcl -o hello
//     ascendrt run -- ./hello [model.om]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"

namespace {

[[noreturn]] void fail(const std::string& call, aclError code) {
  const char* text = aclGetRecentErrMsg();
  throw std::runtime_error(call + " gave " + std::to_string(code) +
                           (text != nullptr ? std::string("\n") + text : std::string()));
}

void check(aclError code, const char* call) {
  if (code != ACL_SUCCESS) fail(call, code);
}
#define CHECK(call) check((call), #call)

void require(bool truth, const char* what) {
  if (!truth) throw std::runtime_error(what);
}

// Owners: clean-up runs while an exception may be on its way, so it reports and never throws.
template <typename Handle, aclError (*Destroy)(Handle*)>
struct Deleter {
  void operator()(Handle* handle) const noexcept {
    const aclError code = Destroy(handle);
    if (code != ACL_SUCCESS) std::fprintf(stderr, "clean-up gave %d\n", static_cast<int>(code));
  }
};
using Stream = std::unique_ptr<void, Deleter<void, aclrtDestroyStream>>;
using Event = std::unique_ptr<void, Deleter<void, aclrtDestroyEvent>>;
using DeviceMemory = std::unique_ptr<void, Deleter<void, aclrtFree>>;
using PinnedMemory = std::unique_ptr<void, Deleter<void, aclrtFreeHost>>;
using ModelDesc = std::unique_ptr<aclmdlDesc, Deleter<aclmdlDesc, aclmdlDestroyDesc>>;

Stream make_stream() {
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  return Stream(stream);
}

Event make_event() {
  aclrtEvent event = nullptr;
  CHECK(aclrtCreateEvent(&event));
  return Event(event);
}

DeviceMemory make_device_memory(std::size_t size) {
  void* memory = nullptr;
  CHECK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
  return DeviceMemory(memory);
}

PinnedMemory make_pinned_memory(std::size_t size) {
  void* memory = nullptr;
  CHECK(aclrtMallocHost(&memory, size));
  return PinnedMemory(memory);
}

// The runtime and device 0, given back in the reverse order.
class Session {
 public:
  Session() {
    CHECK(aclInit(nullptr));
    const aclError code = aclrtSetDevice(0);
    if (code == ACL_SUCCESS) return;
    aclFinalize();
    fail("aclrtSetDevice(0)", code);
  }
  ~Session() {
    aclrtResetDevice(0);
    aclFinalize();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// A dataset with its data buffers and their device memory, all filled with zeros.
class Dataset {
 public:
  Dataset() : dataset_(aclmdlCreateDataset()) {
    require(dataset_ != nullptr, "aclmdlCreateDataset gave nullptr");
  }
  ~Dataset() {
    for (aclDataBuffer* buffer : buffers_) aclDestroyDataBuffer(buffer);
    aclmdlDestroyDataset(dataset_);
  }
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  void add(std::size_t size) {
    memory_.push_back(make_device_memory(size));
    CHECK(aclrtMemset(memory_.back().get(), size, 0, size));
    buffers_.push_back(aclCreateDataBuffer(memory_.back().get(), size));
    require(buffers_.back() != nullptr, "aclCreateDataBuffer gave nullptr");
    CHECK(aclmdlAddDatasetBuffer(dataset_, buffers_.back()));
  }

  aclmdlDataset* get() const { return dataset_; }

  std::vector<char> read(std::size_t index) const {
    std::vector<char> bytes(aclGetDataBufferSizeV2(buffers_.at(index)));
    CHECK(aclrtMemcpy(bytes.data(), bytes.size(), memory_.at(index).get(), bytes.size(),
                      ACL_MEMCPY_DEVICE_TO_HOST));
    return bytes;
  }

 private:
  aclmdlDataset* dataset_;
  std::vector<DeviceMemory> memory_;
  std::vector<aclDataBuffer*> buffers_;
};

class Model {
 public:
  explicit Model(const char* path) : desc_(aclmdlCreateDesc()) {
    require(desc_ != nullptr, "aclmdlCreateDesc gave nullptr");
    CHECK(aclmdlLoadFromFile(path, &id_));
    const aclError code = aclmdlGetDesc(desc_.get(), id_);
    if (code == ACL_SUCCESS) return;
    aclmdlUnload(id_);
    fail("aclmdlGetDesc", code);
  }
  ~Model() { aclmdlUnload(id_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::uint32_t id() const { return id_; }
  aclmdlDesc* desc() const { return desc_.get(); }

 private:
  ModelDesc desc_;
  std::uint32_t id_ = 0;
};

// Pageable host memory there and back: aclrtMemcpy returns when the bytes are in place.
void copy_and_wait(void* device_memory, const std::vector<std::int32_t>& numbers) {
  const std::size_t size = numbers.size() * sizeof(numbers[0]);
  std::vector<std::int32_t> back(numbers.size());
  CHECK(aclrtMemcpy(device_memory, size, numbers.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtMemcpy(back.data(), size, device_memory, size, ACL_MEMCPY_DEVICE_TO_HOST));
  require(back == numbers, "the synchronous copies changed the data");
  std::printf("copy: %zu bytes to the device and back\n", size);
}

// Pinned host memory there and back on a stream, timed by two events.
void copy_on_stream(void* device_memory, const std::vector<std::int32_t>& numbers) {
  const std::size_t size = numbers.size() * sizeof(numbers[0]);
  const Stream stream = make_stream();
  const Event start = make_event();
  const Event stop = make_event();
  const PinnedMemory pinned = make_pinned_memory(2 * size);
  auto* out = static_cast<std::int32_t*>(pinned.get());
  auto* back = out + numbers.size();
  std::copy(numbers.rbegin(), numbers.rend(), out);
  std::fill_n(back, numbers.size(), 0);

  CHECK(aclrtRecordEvent(start.get(), stream.get()));
  CHECK(aclrtMemcpyAsync(device_memory, size, out, size, ACL_MEMCPY_HOST_TO_DEVICE, stream.get()));
  CHECK(aclrtMemcpyAsync(back, size, device_memory, size, ACL_MEMCPY_DEVICE_TO_HOST, stream.get()));
  CHECK(aclrtRecordEvent(stop.get(), stream.get()));
  CHECK(aclrtSynchronizeStream(stream.get()));
  float elapsed_ms = -1.0F;
  CHECK(aclrtEventElapsedTime(&elapsed_ms, start.get(), stop.get()));
  require(std::equal(numbers.rbegin(), numbers.rend(), back),
          "the asynchronous copies changed the data");
  require(elapsed_ms >= 0.0F, "the events ran backwards");
  std::printf("copy on a stream: %zu bytes each way, events say %.3f ms\n", size, elapsed_ms);
}

// The model on an input of zeros.
void run_model(const char* path) {
  const Model model(path);
  Dataset inputs;
  Dataset outputs;
  for (std::size_t i = 0; i < aclmdlGetNumInputs(model.desc()); ++i)
    inputs.add(aclmdlGetInputSizeByIndex(model.desc(), i));
  for (std::size_t i = 0; i < aclmdlGetNumOutputs(model.desc()); ++i)
    outputs.add(aclmdlGetOutputSizeByIndex(model.desc(), i));
  CHECK(aclmdlExecute(model.id(), inputs.get(), outputs.get()));
  for (std::size_t i = 0; i < aclmdlGetNumOutputs(model.desc()); ++i) {
    const std::vector<char> bytes = outputs.read(i);
    std::printf("model output %zu (%s): %zu bytes", i, aclmdlGetOutputNameByIndex(model.desc(), i),
                bytes.size());
    if (aclmdlGetOutputDataType(model.desc(), i) == ACL_FLOAT && bytes.size() >= sizeof(float)) {
      float first = 0;
      std::memcpy(&first, bytes.data(), sizeof first);
      std::printf(", first value %.6f", first);
    }
    std::printf("\n");
  }
}

void run(int argc, char** argv) {
  const Session session;
  const char* soc = aclrtGetSocName();
  std::printf("device 0: %s\n", soc != nullptr ? soc : "(no name)");
  std::vector<std::int32_t> numbers(1024);
  std::iota(numbers.begin(), numbers.end(), 1);
  const DeviceMemory memory = make_device_memory(numbers.size() * sizeof(numbers[0]));
  copy_and_wait(memory.get(), numbers);
  copy_on_stream(memory.get(), numbers);
  if (argc > 1) run_model(argv[1]);
  CHECK(aclrtSynchronizeDevice());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello.cpp: %s\n", error.what());
    return EXIT_FAILURE;
  }
  std::printf("done\n");
  return EXIT_SUCCESS;
}
