// The form of control entries (art_ctl_*). Owns: how texts and failures get to the caller.
// Must never: let an exception pass.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "gen/abi.h"

#define ART_CTL extern "C" __attribute__((visibility("default")))

namespace ascendrt::abi {

// Runs f, which returns the text of a success, and passes it on. Failures become their code, and
// their text is passed on.
template <class F, class Pass>
int32_t answer_with(Pass&& pass, F&& f) noexcept {
  try {
    pass(f());
    return ACL_SUCCESS;
  } catch (const base::Error& error) {
    pass(error.text);
    return error.code;
  } catch (const std::exception& error) {
    pass(error.what());
    return ACL_ERROR_INTERNAL_ERROR;
  }
}

// The text goes into the caller's buffer, cut and terminated.
template <class F>
int32_t answer(char* message, size_t size, F&& f) noexcept {
  const auto copy = [&](std::string_view text) {
    if (message == nullptr || size == 0) return;
    const size_t length = std::min(text.size(), size - 1);
    std::memcpy(message, text.data(), length);
    message[length] = '\0';
  };
  return answer_with(copy, std::forward<F>(f));
}

}  // namespace ascendrt::abi
