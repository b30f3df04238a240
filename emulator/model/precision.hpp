// Element types of a converted graph: what --precision_mode of the vendor's converter chooses.
// Owns: the modes and the pass. Must never: change what an op computes, only the types it sees.
#pragma once

#include <optional>
#include <string_view>

#include "model/model.hpp"

namespace ascendrt::model {

// Cube ops are convolutions and matrix products, the others are vector ops. Ops that only take
// float32 or whose operands are attributes in disguise (Range, Resize, quantization, bodies) keep
// their types in every mode.
enum class PrecisionMode : uint8_t {
  kOrigin,        // as the file says
  kForceFp32,     // cube: float16 in, float32 out; vector: float32
  kForceFp16,     // float16 wherever an op takes it
  kCubeFp16,      // cube: float16; vector: as the file says
  kCubeBfloat16,  // cube: bfloat16; vector: as the file says
  kMixedFp16,     // cube float16; exponentials, powers, sums and norms float32; the rest follows
  kMixedBfloat16
};

// Values of --precision_mode and --precision_mode_v2 of ATC. Empty: no such mode, or one of units
// that are not emulated (hif8).
// src: hicann/ge inc/external/ge/ge_api_types.h, documentation of ATC
std::optional<PrecisionMode> find_precision_mode(std::string_view name);
inline constexpr std::string_view kPrecisionModes =
    "force_fp32, force_fp16, allow_fp32_to_fp16, allow_fp32_to_bf16, must_keep_origin_dtype, "
    "allow_mix_precision, allow_mix_precision_fp16, allow_mix_precision_bf16, "
    "cube_fp16in_fp32out; of precision_mode_v2: fp16, origin, cube_fp16in_fp32out, mixed_float16, "
    "mixed_bfloat16";

// Rewrites a graph whose ops have descriptors and whose constants are in their attributes (before
// complete()). Casts are inserted where types differ, weights are rounded in the file. Data ops and
// NetOutput keep the types of their descriptors: whoever wants another type of an input or output
// writes it there first, and this pass, in every mode, inserts the casts.
void apply_precision(Graph& graph, PrecisionMode mode);

}  // namespace ascendrt::model
