// Image preparation in front of networks whose sizes only a run tells. Owns: how the dims of an
// image and those of the network follow from each other. Must never: touch pixels.
//
// A static AIPP keeps the size of the image where it neither crops, resizes nor pads, so the
// network's height and width may be open; where it does, they are fixed and only the batch is open.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/aipp.hpp"

namespace ascendrt::model {

using DimRange = std::pair<int64_t, int64_t>;  // upper -1: no bound

struct OpenImage {
  Dims dims;                     // of its bytes; open ones are -1
  std::vector<DimRange> ranges;  // of these dims
  NamedAttrs attrs;              // what the model says of the preparation
};

// In front of an input of dims [N, C, H, W] with these ranges. Raises 145000 for a configuration
// that has no such form.
OpenImage open_image(const AippConfig& config, const std::string& input, const Dims& dims,
                     const std::vector<DimRange>& ranges);

// The network's dims for an image of dims `image`; `open` are those with -1.
Dims dims_behind(const AippConfig& config, const Dims& open, const Dims& image);

}  // namespace ascendrt::model
