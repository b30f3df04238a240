// Messages to people on stderr. Must never: be used for results, or from a signal handler.
#pragma once

#include <string>
#include <string_view>

namespace ascendrt::base {

// One line "ascendrt: <text>" on stderr, written with one write(2) so lines of threads do not mix.
void log_line(std::string_view text);

// The same, once per process and key.
void warn_once(const std::string& key, std::string_view text);

}  // namespace ascendrt::base
