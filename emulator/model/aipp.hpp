// Image preprocessing of models: its configuration file and its place in a graph.
// Owns: AippConfig, the attributes by which files tell it. Must never: touch pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"
#include "ops/aipp.hpp"

namespace ascendrt::model {

// One aipp_op of a configuration file.
struct AippConfig {
  bool dynamic = false;       // parameters come with every run
  int64_t input_rank = 0;     // which input
  std::string input_name;     // or by name; empty: by rank
  int64_t max_src_bytes = 0;  // dynamic: room for the images of a run
  ops::AippHead head{};       // src_w, src_h 0: as the network's input
  ops::AippImage image{};     // crop and resize sizes 0: as the network's input
  float padding_value = 0;
};

// A text of the form of the vendor's --insert_op_conf. Raises 100000 naming the line's key.
std::vector<AippConfig> parse_aipp(std::string_view text);

// The parameters of a static AIPP in front of an input of dims [N, C, H, W]. Raises 145000 when
// they do not fit each other.
ops::AippParams static_params(const AippConfig& config, const Dims& dims);

// How files tell it. src: hicann/ge graph_metadef/graph/attr/ge_attr_define.cc
inline constexpr std::string_view kAippData = "ascend_dynamic_aipp_data";
inline constexpr std::string_view kAippMode = "_data_related_aipp_mode";
inline constexpr std::string_view kAippMap = "_data_aipp_data_name_map";
inline constexpr std::string_view kAippAttrs = "aipp";
inline constexpr std::string_view kAippDims = "input_dims";  // of the bytes

NamedAttrs aipp_attributes(const AippConfig& config, const ops::AippParams* params);
int64_t aipp_data_bytes(int64_t images);  // of the parameter block
// Dims of the image as a caller sees it, and those whose product is its size in bytes.
Dims image_dims(ops::ImageFormat format, int64_t images, int64_t width, int64_t height);
Dims image_dims_v2(ops::ImageFormat format, int64_t images, int64_t width, int64_t height);

// The Data op of input `index` of a model; null: none.
const Op* input_op(const Model& model, size_t index);

}  // namespace ascendrt::model
