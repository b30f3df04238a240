// Entry of the unit tests, and the tests of the generated tables.
#include <cstdlib>

#include "gen/api_id.hpp"
#include "gen/codes.hpp"
#include "gen/soc.inc"
#include "test.hpp"

namespace {

TEST(generated_code_names) {
  CHECK_EQ(std::string(ascendrt::code_name(107002)), "ACL_ERROR_RT_CONTEXT_NULL");
  CHECK_EQ(std::string(ascendrt::code_name(0)), "ACL_SUCCESS");
  CHECK_EQ(std::string(ascendrt::code_name(-5)), "unknown code");
  CHECK(std::string(ascendrt::code_hint(107002)).find("aclrtSetDevice") != std::string::npos);
}

TEST(generated_codes_are_sorted) {
  for (size_t i = 1; i < std::size(ascendrt::kCodes); ++i) {
    CHECK(ascendrt::kCodes[i - 1].value < ascendrt::kCodes[i].value);
  }
}

TEST(generated_api_names) {
  CHECK_EQ(std::string(ascendrt::api_name(ascendrt::ApiId::aclrtMalloc)), "aclrtMalloc");
  for (size_t i = 0; i < ascendrt::kApiCount; ++i) {
    CHECK(std::string(ascendrt::api_name(static_cast<ascendrt::ApiId>(i))).size() > 3);
  }
}

TEST(generated_socs) {
  const ascendrt::gen::Soc* soc = ascendrt::gen::find_soc("Ascend910B1");
  CHECK(soc != nullptr);
  CHECK_EQ(soc->ai_core, 24);
  CHECK_EQ(soc->streams, 1984);
  CHECK(ascendrt::gen::find_soc("Ascend") == nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  // The tests' own machine: shared with nobody, and small enough for an emulated processor.
  setenv("ASCENDRT_MACHINE", "private", 0);
  setenv("ASCENDRT_DEVICES", "2", 0);
  setenv("ASCENDRT_HBM_SIZE", "1G", 0);
  return ascendrt::test::run_all(argc, argv);
}
