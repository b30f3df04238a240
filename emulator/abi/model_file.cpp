// Entries: sizes of models in files and in memory. Must never: load a model.
#include "abi/model_desc.hpp"
#include "gen/prototypes.h"
#include "model/om_reader.hpp"

namespace ascendrt::abi {
namespace {

// The type probe of the source comes before the tests of the out pointers, and these before
// aclInit.
void query(const model::OmSource& source, size_t* work_size, size_t* weight_size) {
  check_not_null(work_size, "workSize");
  check_not_null(weight_size, "weightSize");
  check_initialised();
  const model::QuerySizes sizes = source.query_sizes();
  *work_size = static_cast<size_t>(sizes.work);
  *weight_size = static_cast<size_t>(sizes.weight);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclmdlQuerySize(const char* fileName, size_t* workSize, size_t* weightSize) {
  return call<ApiId::aclmdlQuerySize>([&] {
    check_not_null(fileName, "fileName");
    query(model::OmSource::from_file(fileName), workSize, weightSize);
  });
}

aclError art_emu_aclmdlQuerySizeFromMem(const void* model, size_t modelSize, size_t* workSize,
                                        size_t* weightSize) {
  return call<ApiId::aclmdlQuerySizeFromMem>([&] {
    check_not_null(model, "model");
    check_positive(modelSize, "modelSize");
    query(model::OmSource::from_memory(model, modelSize), workSize, weightSize);
  });
}

}  // extern "C"
