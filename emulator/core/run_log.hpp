// The log that the vendor's variables ask for. Must never: decide what is worth a line, write
// files.
//
// src: hicann/runtime src/dfx/log (levels, form of a line, the two variables)
#pragma once

#include <string_view>

#include "gen/abi.h"

namespace ascendrt::core {

// ASCEND_GLOBAL_LOG_LEVEL (0 debug .. 3 error, 4 none), read once; 3 for anything else.
bool log_enabled(aclLogLevel level);

// ASCEND_LOG_PRINT_TO_STDOUT is 1, or, where that is unset, the older ASCEND_SLOG_PRINT_TO_STDOUT.
bool log_to_stdout();

const char* level_name(aclLogLevel level);

// One line on standard output, written at once:
// [LEVEL] MODULE(pid,process):YYYY-mm-dd-HH:MM:SS.mmm.uuu [place]tid function: text
void print_log(aclLogLevel level, const char* module, std::string_view place,
               std::string_view function, std::string_view text);

}  // namespace ascendrt::core
