// Texts of files in messages. Owns: what no terminal may be sent. Must never: change a text that
// holds no control character.
#pragma once

#include <string>
#include <string_view>

namespace ascendrt::base {

// The text with every control character written as \n, \t or \x1b. A message of several lines keeps
// its line ends; names, which may not begin lines of their own, are given with `lines` false.
inline std::string printable(std::string_view text, bool lines = false) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    const bool wide = byte == 0xC2 && i + 1 < text.size();  // U+0080 to U+009F are controls too
    const auto next = wide ? static_cast<unsigned char>(text[i + 1]) : byte;
    if (wide && next < 0xA0) byte = next, ++i;
    const bool control = byte < 0x20 || byte == 0x7F || (wide && next < 0xA0);
    if (!control || (lines && byte == '\n')) {
      out += static_cast<char>(byte);
    } else if (byte == '\n' || byte == '\t') {
      out += byte == '\n' ? "\\n" : "\\t";
    } else {
      out += std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
    }
  }
  return out;
}

}  // namespace ascendrt::base
