// Control entries art_ctl_*: what the project's own tools ask of the core beyond the vendor's ABI.
// No facade carries them. Owns: their C form (texts go into the caller's buffer, cut and
// terminated). Must never: touch the last error or the recent message of a thread.
#include "abi/ctl.hpp"

#include <string>
#include <vector>

#include "core/context.hpp"
#include "core/event.hpp"
#include "core/notify.hpp"
#include "core/stream.hpp"
#include "memory/memory.hpp"
#include "model/atc.hpp"
#include "model/convert.hpp"
#include "model/om_bundle.hpp"
#include "model/om_json.hpp"
#include "model/om_reader.hpp"
#include "model/vendor.hpp"

namespace ascendrt::abi {
namespace {

std::string convert(const char* onnx, const char* om, const char* options) {
  if (onnx == nullptr || om == nullptr) base::fail(ACL_ERROR_INVALID_PARAM, "a path is missing");
  model::convert_onnx_file(onnx, om, model::parse_convert_options(options ? options : ""));
  return {};
}

std::string describe(const model::OmSource& source) {
  source.check_header(model::Entry::kLoadFile);
  model::Model content = source.read_description();
  try {
    model::attach_weights(content, {model::weight_folder(source.path()), {}});
  } catch (const base::Error& error) {  // described all the same
    content.unresolved.push_back(error.text);
  }
  model::make_plain(content, model::vendor_options(source.path()));
  return model::model_json(content);
}

// Of a bundle, where its members lie and what each is.
std::string describe_file(const char* om) {
  if (om == nullptr) base::fail(ACL_ERROR_INVALID_PARAM, "a path is missing");
  const model::OmSource source = model::OmSource::from_file(om);
  if (!model::Bundle::is_bundle(source.bytes())) return describe(source);
  const model::Bundle bundle = model::Bundle::from_file(om);
  std::string out =
      "{\"variable_bytes\":" + std::to_string(bundle.variable_bytes()) + ",\"models\":[";
  for (size_t i = 0; i < bundle.members().size(); ++i) {
    out += std::string(i == 0 ? "" : ",") + "{\"offset\":" + std::to_string(bundle.offset_of(i)) +
           ",\"bytes\":" + std::to_string(bundle.members()[i].size()) +
           ",\"model\":" + describe(bundle.member(i)) + "}";
  }
  return out + "]}";
}

std::string make_bundle(int32_t count, const char* const* files, const char* om) {
  if (om == nullptr) base::fail(ACL_ERROR_INVALID_PARAM, "a path is missing");
  model::write_bundle(std::vector<std::string>(files, files + count), om);
  return {};
}

}  // namespace
}  // namespace ascendrt::abi

// Converts an ONNX file to an OM file. `options` are lines as model::parse_convert_options reads
// them, or null. Returns 0, or a code with its text in `message`; then nothing was written.
ART_CTL int32_t art_ctl_om_convert(const char* onnx, const char* om, const char* options,
                                   char* message, size_t size) {
  return ascendrt::abi::answer(message, size,
                               [&] { return ascendrt::abi::convert(onnx, om, options); });
}

// Writes OM files as one bundle. Returns 0, or a code with its text in `message`; then nothing was
// written.
ART_CTL int32_t art_ctl_om_bundle(int32_t count, const char* const* files, const char* om,
                                  char* message, size_t size) {
  return ascendrt::abi::answer(message, size,
                               [&] { return ascendrt::abi::make_bundle(count, files, om); });
}

// Gives the graph of an OM file and the plan of its memory to `take` as JSON. Returns 0, or a code
// and then the reason in place of the text.
ART_CTL int32_t art_ctl_om_describe(const char* om, void (*take)(const char* text, void* to),
                                    void* to) {
  const auto pass = [&](const std::string& text) { take(text.c_str(), to); };
  return ascendrt::abi::answer_with(pass, [&] { return ascendrt::abi::describe_file(om); });
}

// The model compiler's command line: `words` without the program's name. Lines go to `take`, with
// their channel (0 out, 1 error). Returns the exit code.
ART_CTL int32_t art_ctl_atc(int32_t count, const char* const* words, int32_t dialect,
                            void (*take)(int32_t channel, const char* line, void* user),
                            void* user) {
  const std::vector<std::string> list(words, words + count);
  const auto print = [&](ascendrt::model::Channel channel, const std::string& line) {
    take(static_cast<int32_t>(channel), line.c_str(), user);
  };
  return ascendrt::model::run_atc(list, static_cast<ascendrt::model::Dialect>(dialect), print);
}

// What pages back device memory, in words.
ART_CTL int32_t art_ctl_page_kind(char* text, size_t size) {
  return ascendrt::abi::answer(text, size, [] { return ascendrt::memory::page_kind(); });
}

// 1 when the handle stands for a context, stream, event or notify that lives, 0 for anything else.
ART_CTL int32_t art_ctl_handle_is_live(const void* handle) {
  using namespace ascendrt;
  base::HandleTable& table = base::handles();
  const bool live = table.get<core::Context>(handle) || table.get<core::Stream>(handle) ||
                    table.get<core::Event>(handle) || table.get<core::Notify>(handle);
  return live ? 1 : 0;
}
