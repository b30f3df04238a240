// The command line of the vendor's model compiler. Owns: its words, its modes and what it prints.
// Must never: convert anything itself, or end the process.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace ascendrt::model {

// The vendor's own, or `ascendrt om convert`: the network may be a plain word, -o names the file
// itself, and framework and chip need not be told.
enum class Dialect : uint8_t { kAtc, kConvert };

enum class Channel : uint8_t { kOut, kError };
using Print = std::function<void(Channel, const std::string& line)>;

// `words` without the name of the program. Returns the exit code: 0 done, 255 refused or failed (as
// the vendor's does) or, of the own dialect, 2 for wrong words. The last line printed tells why.
int run_atc(std::span<const std::string> words, Dialect dialect, const Print& print);

}  // namespace ascendrt::model
