// Owns: the op that prepares images. Operands: the images, and the parameter block of
// ops/aipp.hpp, a constant or an input.
#include "model/op_set.hpp"
#include "ops/aipp.hpp"

namespace ascendrt::model {
namespace {

std::vector<TensorType> infer_aipp(const OpView& v) {
  v.want_count(2, 2);
  if (v.dtype(0) != ACL_UINT8 || v.dtype(1) != ACL_UINT8) v.fail("takes bytes");
  const auto dtype = static_cast<aclDataType>(v.op.attrs.int_or("dst_type", kFloat));
  const ops::Shape shape = to_shape(v.ints("output_shape"));
  if (shape.rank() != 4 || (dtype != ACL_FLOAT && dtype != ACL_UINT8)) {
    v.fail("makes float or bytes of four dims");
  }
  return {{dtype, shape}};
}

Kernel build_aipp(const OpView& v, std::span<const TensorType>) {
  const float padding = v.op.attrs.float_or("padding_value", 0);
  return make_kernel([padding](Inputs in, Outputs out, const ops::Exec& exec) {
    auto params = ops::AippParams::read(
        {static_cast<const uint8_t*>(in[1].data), static_cast<size_t>(in[1].size_bytes())},
        out[0].shape[0]);
    params.padding_value = padding;
    ops::aipp(params, in[0], out[0], exec);
  });
}

constexpr OpType kTypes[] = {{"Aipp", infer_aipp, build_aipp, Halves::kNative}};

}  // namespace

std::span<const OpType> aipp_op_types() { return kTypes; }

}  // namespace ascendrt::model
