// libFuzzer harness of the OM reader: description, sizes, the whole model.
#include "base/error.hpp"
#include "model/om_reader.hpp"

using namespace ascendrt;

namespace {

template <class F>
void attempt(F&& part) {
  try {
    part();
  } catch (const base::Error&) {  // an answer, with its code and text
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attempt([&] {
    const model::OmSource source = model::OmSource::from_memory(data, size);
    attempt([&] { static_cast<void>(source.query_sizes()); });
    attempt([&] { static_cast<void>(source.read_description()); });
    source.check_header(model::Entry::kLoadMemory);
    static_cast<void>(source.is_dynamic());
    static_cast<void>(source.read(""));
  });
  return 0;
}
