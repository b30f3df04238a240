// Ops of compiled graphs that are not in the operator table under their own name, most of them with
// lists in attributes where the table wants constant inputs. Owns: their translation.
// Must never: hold arithmetic, or make up an attribute.
#include <algorithm>

#include "model/vendor_call.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

// The result has the type that its descriptor says, whatever the attributes are called.
Values cast(const VendorCall& call) { return {call.cast(call.in(0), call.out_desc().dtype, "")}; }

// Operands are in logical form already; only the order of the axes may change.
Values trans_data(const VendorCall& call) {
  const TensorDesc& to = call.out_desc();
  return {call.layouts.reorder(call.in(0), call.in_desc(0).origin_format(), to.origin_format())};
}

// (x + a) * b; the compiler has folded mean, variance and epsilon into a and b.
Values inference_norm(const VendorCall& call) {
  if (call.has(3) || call.has(4)) call.fail("a form with scale and offset is not known");
  const GraphValue sum = call.make("Add", {call.in(0), call.per_channel(1)});
  return {call.make("Mul", {sum, call.per_channel(2)})};
}

Values prelu(const VendorCall& call) {
  return {call.make("PRelu", {call.in(0), call.per_channel(1)})};
}

// --- lists in attributes ---

// "type  plain type  attribute": the attribute becomes a constant second input.
struct ListRow {
  std::string_view type, plain, attr;
};

constexpr ListRow kLists[] = {
    {"ReduceSumD", "ReduceSum", "axes"},   {"ReduceMeanD", "ReduceMean", "axes"},
    {"ReduceMaxD", "ReduceMax", "axes"},   {"ReduceMinD", "ReduceMin", "axes"},
    {"ReduceProdD", "ReduceProd", "axes"}, {"TransposeD", "Transpose", "perm"},
    {"TileD", "Tile", "multiples"},        {"ArgMaxD", "ArgMaxV2", "dimension"},
    {"ArgMinD", "ArgMin", "dimension"},    {"ExpandD", "Expand", "shape"},
};

Values list_input(const VendorCall& call) {
  const auto* row = std::find_if(std::begin(kLists), std::end(kLists),
                                 [&](const ListRow& r) { return r.type == call.op.type; });
  const AttrMap& attrs = call.op.attrs;
  const auto one = attrs.get_int(row->attr);
  const std::vector<int64_t> list = one ? std::vector<int64_t>{*one} : attrs.ints_or(row->attr, {});
  if (list.empty()) call.fail("attribute " + std::string(row->attr) + " is not in the file");
  AttrMap kept = attrs;
  if (row->attr == "dimension") kept.set("dtype", int64_t{call.out_desc().dtype});
  const GraphValue input = call.graph.int_list(call.op.name + "_" + std::string(row->attr), list);
  return {call.make(std::string(row->plain), {call.in(0), input}, std::move(kept))};
}

// The dims of the result are those of its descriptor.
Values reshape(const VendorCall& call) {
  return {call.layouts.reshape(call.in(0), call.out_desc().origin_dims())};
}

Values slice(const VendorCall& call) {
  const Dims from = call.op.attrs.ints_or("offsets", {});
  Dims to = call.op.attrs.ints_or("size", {});
  const ops::Shape& x = call.in(0).type.shape;
  if (from.size() != x.rank() || to.size() != x.rank()) {
    call.fail("attributes offsets and size do not fit " + x.text());
  }
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t rest = from[i] < 0 || from[i] > x[i] ? -1 : x[i] - from[i];
    const int64_t count = to[i] == -1 ? rest : to[i];
    if (count < 0 || count > rest) {
      call.fail(std::to_string(to[i]) + " elements from " + std::to_string(from[i]) + " on of " +
                x.text());
    }
    to[i] = from[i] + count;
  }
  return {
      call.make("StridedSliceV2", {call.in(0), call.graph.int_list(call.op.name + "_from", from),
                                   call.graph.int_list(call.op.name + "_to", to)})};
}

Values pad(const VendorCall& call) {
  const AttrValue* value = call.op.attrs.find("paddings");
  const auto* rows = value == nullptr ? nullptr : value->as<std::vector<std::vector<int64_t>>>();
  if (rows == nullptr) call.fail("attribute paddings is not in the file");
  Dims pads;
  for (const size_t side : {0U, 1U}) {
    for (const auto& row : *rows) {
      if (row.size() != 2) call.fail("attribute paddings");
      pads.push_back(row[side]);
    }
  }
  return {call.make("PadV3", {call.in(0), call.graph.int_list(call.op.name + "_pads", pads)})};
}

Values split(const VendorCall& call) {
  const AttrMap& attrs = call.op.attrs;
  const auto axis = attrs.get_int("split_dim");
  const auto parts = static_cast<int64_t>(call.op.output_descs.size());
  if (!axis) call.fail("attribute split_dim is not in the file");
  const ops::Shape& x = call.in(0).type.shape;
  const int64_t dim = x[ops::resolve_axis(call.op.type, *axis, x.rank())];
  Dims sizes = attrs.ints_or("size_splits", {});
  if (sizes.empty() && parts > 0 && dim % parts == 0) {
    sizes.assign(static_cast<size_t>(parts), dim / parts);
  }
  if (sizes.empty()) call.fail("attribute size_splits is not in the file");
  return call.graph.add("SplitV", call.op.name,
                        {call.in(0), call.graph.int_list(call.op.name + "_sizes", sizes),
                         call.graph.int_scalar(call.op.name + "_axis", *axis)},
                        {});
}

Values gather(const VendorCall& call) {
  const GraphValue axis =
      call.graph.int_scalar(call.op.name + "_axis", call.op.attrs.int_or("axis", 0));
  return {call.make("GatherV2", {call.in(0), call.in(1), axis})};
}

// --- resampling of the two spatial axes ---

Values resize(const VendorCall& call) {
  const std::string_view letters = axis_letters(call.in_desc(0).origin_format());
  if (letters.size() != 4 || call.in(0).type.shape.rank() != 4) {
    call.fail("axes of " + call.in(0).type.shape.text() + " have no names");
  }
  const AttrMap& given = call.op.attrs;
  const Dims size = call.has(1) ? call.in(1).ints() : given.ints_or("size", {});
  if (size.size() != 2) call.fail("the size of its result is not in the file");
  const bool corners = given.get_bool("align_corners").value_or(false);
  const bool half = given.get_bool("half_pixel_centers").value_or(false);
  const bool nearest = call.op.type.starts_with("ResizeNearest");
  AttrMap attrs;
  attrs.set("mode", nearest ? "nearest" : "linear");
  attrs.set("coordinate_transformation_mode", corners ? "align_corners"
                                              : half  ? "half_pixel"
                                                      : "asymmetric");
  attrs.set("nearest_mode", corners || half ? "round_prefer_ceil" : "floor");
  attrs.set("axes",
            Dims{static_cast<int64_t>(letters.find('H')), static_cast<int64_t>(letters.find('W'))});
  const GraphValue sizes = call.graph.int_list(call.op.name + "_sizes", size);
  return {call.make("Resize", {call.in(0), std::nullopt, std::nullopt, sizes}, std::move(attrs))};
}

// --- operators of TensorFlow that run on the AI CPU ---

Values framework_op(const VendorCall& call) {
  const std::string type = call.op.attrs.string_or("original_type", "");
  if (type != "RandomStandardNormal" && type != "RandomUniform") {
    call.fail("TensorFlow's operator '" + type + "' is not implemented");
  }
  const TensorDesc& y = call.out_desc();
  const Dims dims = y.origin_dims();
  if (call.options.random == VendorOptions::Random::kZero) {
    const TensorType made{static_cast<aclDataType>(y.dtype), to_shape(dims)};
    return {call.graph.constant(call.op.name, made, std::move(*make_tensor(made).bytes))};
  }
  AttrMap attrs;
  const int64_t seed = call.op.attrs.int_or("seed", 0);
  const int64_t more = call.op.attrs.int_or("seed2", 0);
  attrs.set("seed", seed == 0 && more == 0 ? call.options.seed : seed * 1'000'003 + more);
  const GraphValue drawn =
      call.make(type, {call.graph.int_list(call.op.name + "_shape", dims)}, std::move(attrs));
  return {call.cast(drawn, y.dtype, "_cast")};
}

constexpr VendorRule kRules[] = {
    {"Cast", cast},
    {"TransData", trans_data},
    {"BNInferenceD", inference_norm},
    {"PRelu", prelu},
    {"ReduceSumD", list_input},
    {"ReduceMeanD", list_input},
    {"ReduceMaxD", list_input},
    {"ReduceMinD", list_input},
    {"ReduceProdD", list_input},
    {"TransposeD", list_input},
    {"TileD", list_input},
    {"ArgMaxD", list_input},
    {"ArgMinD", list_input},
    {"ExpandD", list_input},
    {"Reshape", reshape},
    {"Flatten", reshape},
    {"FlattenV2", reshape},
    {"Squeeze", reshape},
    {"SqueezeV3", reshape},
    {"Unsqueeze", reshape},
    {"UnsqueezeV3", reshape},
    {"ExpandDims", reshape},
    {"SliceD", slice},
    {"PadD", pad},
    {"SplitD", split},
    {"SplitVD", split},
    {"GatherV2D", gather},
    {"ResizeBilinearV2", resize},
    {"ResizeBilinearV2D", resize},
    {"ResizeNearestNeighborV2", resize},
    {"ResizeNearestNeighborV2D", resize},
    {"FrameworkOp", framework_op},
};

}  // namespace

std::span<const VendorRule> vendor_list_rules() { return kRules; }

}  // namespace ascendrt::model
