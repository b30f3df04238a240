// The options of the model compiler's command line. Owns: the table of names. Must never: know what
// an option does.
#pragma once

#include <span>
#include <string_view>

namespace ascendrt::model {

// What becomes of an option.
enum class Effect : uint8_t {
  kCommand,    // of the command line itself
  kConvert,    // of the conversion: set_convert_option
  kNone,       // accepted; there is nothing it could change here, and its use is told
  kUnchanged,  // accepted silently: what it asks for is what happens anyhow
};

struct AtcOption {
  std::string_view name;
  Effect effect;
  std::string_view values;  // the accepted ones, separated by blanks; empty: any
  std::string_view help;    // empty: not in the help text
};

std::span<const AtcOption> atc_options();

}  // namespace ascendrt::model
