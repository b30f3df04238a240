// Operators on integers with scales: what their attributes mean.
// Owns: the names of types and attributes. Must never: hold arithmetic; that is in ops/.
//
// QuantizedConv2D(x, filter, bias, filter scales, addend), QuantizedMatMul(x, filter [outputs,
// depth], bias, filter scales), QuantizedAdd(a, b), QuantizedMaxPool(x),
// QuantizedGlobalAveragePool(x). Filters are int8 and bias int32, constants. Every tensor has a
// scale and a zero point as attributes <tensor>_scale and <tensor>_zero_point; low and high bound
// the integers of the result. With an addend the product is a tensor `sum` before it is added.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/op_set.hpp"
#include "ops/byte_conv.hpp"

namespace ascendrt::model {

inline constexpr std::string_view kQuantizedConv = "QuantizedConv2D";
inline constexpr std::string_view kQuantizedMatMul = "QuantizedMatMul";
inline constexpr std::string_view kQuantizedAdd = "QuantizedAdd";
inline constexpr std::string_view kQuantizedMaxPool = "QuantizedMaxPool";
inline constexpr std::string_view kQuantizedAverage = "QuantizedGlobalAveragePool";
inline constexpr size_t kAddendInput = 4;

// Everything but how tensors lie in memory.
ops::ByteConvSpec byte_conv_spec(const OpView& v);
// What needs no constants: shape and the scale of the input.
ops::ConvShape byte_conv_shape(const OpView& v);
ops::PoolShape byte_pool_shape(const OpView& v);
// Of tensor `name`, in unsigned bytes when `dtype` is signed.
ops::ByteScale byte_scale(const OpView& v, const std::string& name, aclDataType dtype);
int32_t byte_bound(const OpView& v, const std::string& name, aclDataType dtype);
aclDataType byte_result(const OpView& v);  // attribute dst_type
// The layer with its weights.
std::shared_ptr<const ops::ByteConvolution> make_byte_conv(const OpView& v,
                                                           const ops::ByteConvSpec& spec);

}  // namespace ascendrt::model
