// libFuzzer harness of the OM reader: description, sizes, the whole model, and a run of it.
#include "base/error.hpp"
#include "model/convert_shapes.hpp"
#include "model/imported.hpp"
#include "model/om_reader.hpp"
#include "run.hpp"

using namespace ascendrt;

namespace {

template <class F>
void attempt(F&& part) {
  try {
    part();
  } catch (const base::Error&) {  // an answer, with its code and text
  }
}

// A network kept for shapes that a run tells is made for some first: open dims are 2.
void run_model(const model::Model& model, std::span<const uint8_t> file) {
  if (!model::is_imported(model)) return fuzz::compile_and_run(model, file);
  std::vector<model::Dims> shapes;
  for (const auto& input : model.inputs) {
    shapes.push_back(input.dims);
    for (int64_t& dim : shapes.back()) dim = dim < 0 ? 2 : dim;
  }
  model::Model made = model::specialise(model, model.weights.bytes, shapes);
  made.weights.bytes = model.weights.bytes;  // which it refers to by offsets
  fuzz::compile_and_run(made, file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attempt([&] {
    const model::OmSource source = model::OmSource::from_memory(data, size);
    attempt([&] { static_cast<void>(source.query_sizes()); });
    attempt([&] { static_cast<void>(source.read_description()); });
    source.check_header(model::Entry::kLoadMemory);
    static_cast<void>(source.is_dynamic());
    run_model(source.read(""), {data, size});
  });
  return 0;
}
