#include "abi/boundary.hpp"

#include <algorithm>

#include "core/run_log.hpp"
#include "core/runtime.hpp"
#include "core/thread_state.hpp"
#include "gen/codes.hpp"

namespace ascendrt::abi {
namespace {

// The newest failure may be longer than all that is kept: it may list every operator of a large
// model.
constexpr size_t kMaxNewestBytes = 256 << 10;

std::string code_text(base::Code code) {
  return "[" + std::to_string(code) + " " + code_name(code) + "] ";
}

std::string with_advice(const base::Error& error) {
  std::string line = error.text;
  // By convention a text says behind a semicolon what to do; one that does not gets the code's fix.
  const bool advises = error.text.find(';') != std::string::npos;
  if (const char* fix = code_fix(error.code); !advises && *fix != '\0') {
    line += "; ";
    line += fix;
  }
  return line;
}

}  // namespace

base::Code note_failure(ApiId api, const base::Error& error) noexcept {
  // Asking for the texts is no failure of the program: its own refusal goes into no log.
  return note_failure_of(api_name(api), error, api != ApiId::aclGetRecentErrMsg);
}

base::Code note_failure_of(const char* name, const base::Error& error, bool logged) noexcept {
  core::ThreadState& thread = core::thread_state();
  if (error.layer == base::Layer::kRuntime) thread.last_error = error.code;
  try {
    const std::string what = with_advice(error);
    std::string text = code_text(error.code) + name + ": " + what;
    if (logged && core::log_to_stdout() && core::log_enabled(ACL_ERROR)) {
      core::print_log(ACL_ERROR, "ASCENDCL", "ascendrt", name, code_text(error.code) + what);
    }
    const size_t kept = std::max(kMaxMessageBytes, std::min(text.size(), kMaxNewestBytes));
    if (!thread.message.empty()) text += "\n" + thread.message;
    if (text.size() > kept) text.resize(kept);
    thread.message = std::move(text);
  } catch (...) {  // no memory for the text: the code alone must do
    thread.message.clear();
  }
  return error.code;
}

base::Code note_unexpected(ApiId api, const char* what) noexcept {
  try {
    return note_failure(api, {ACL_ERROR_INTERNAL_ERROR, base::Layer::kRuntime, what});
  } catch (...) {
    return ACL_ERROR_INTERNAL_ERROR;
  }
}

void refuse_argument(const std::string& text) {
  base::fail(ACL_ERROR_INVALID_PARAM, text, base::Layer::kAcl);
}

}  // namespace ascendrt::abi
