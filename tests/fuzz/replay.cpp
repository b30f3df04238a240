// Runs the harnesses on files without libFuzzer: fuzz_replay om FILE... or fuzz_replay onnx FILE...
// Linked with every build of the tests, so that what the fuzzers are made of stays linkable.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#define LLVMFuzzerTestOneInput fuzz_om
#include "om.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_onnx
#include "onnx.cpp"
#undef LLVMFuzzerTestOneInput

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s om|onnx FILE...\n", words[0]);
    return 2;
  }
  const auto harness = std::strcmp(words[1], "om") == 0 ? fuzz_om : fuzz_onnx;
  for (int i = 2; i < count; ++i) {
    std::ifstream file(words[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", words[i]);
      return 1;
    }
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    harness(bytes.data(), bytes.size());
    std::printf("%s\n", words[i]);
  }
  return 0;
}
