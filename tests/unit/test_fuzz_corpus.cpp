// The fuzzers' harnesses on their corpus, without libFuzzer: every file once, and damaged files.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "test.hpp"

#define LLVMFuzzerTestOneInput fuzz_om
#include "../fuzz/om.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_onnx
#include "../fuzz/onnx.cpp"
#undef LLVMFuzzerTestOneInput

namespace {

namespace fs = std::filesystem;
using Harness = int (*)(const uint8_t* data, size_t size);

std::vector<fs::path> corpus(const char* kind) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(ART_FUZZ_CORPUS) / kind)) {
    files.push_back(entry.path());
  }
  return files;
}

std::vector<uint8_t> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run_all(Harness harness, const char* kind) {
  const auto files = corpus(kind);
  CHECK(files.size() >= 25);
  for (const fs::path& path : files) {
    const auto bytes = read(path);
    CHECK(!bytes.empty());
    CHECK_EQ(harness(bytes.data(), bytes.size()), 0);
  }
}

TEST(fuzz_corpus_of_om_files) { run_all(fuzz_om, "om"); }

TEST(fuzz_corpus_of_onnx_files) { run_all(fuzz_onnx, "onnx"); }

// What is read of a network that is kept for shapes of a run decides how it is made again: a
// damaged byte gives an error or another network, wherever it is.
TEST(fuzz_damaged_networks_of_open_shapes) {
  size_t files = 0;
  for (const fs::path& path : corpus("om")) {
    if (!path.stem().string().ends_with("-open")) continue;
    ++files;
    auto bytes = read(path);
    for (size_t i = files; i < bytes.size(); i += 5) {
      const uint8_t before = bytes[i];
      bytes[i] = static_cast<uint8_t>(i % 2 == 0 ? ~before : before + 1);
      CHECK_EQ(fuzz_om(bytes.data(), bytes.size()), 0);
      bytes[i] = before;
    }
  }
  CHECK(files >= 3);
}

}  // namespace
