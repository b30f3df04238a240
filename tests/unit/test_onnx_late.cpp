// Shapes that only a run can tell, bodies, and half precision: from ONNX to results.
#include <bit>
#include <cstring>
#include <string>

#include "model/convert.hpp"
#include "model/program.hpp"
#include "onnx_bytes.hpp"
#include "ops/elementwise.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::OnnxBytes;

namespace {

using Bytes = std::vector<uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

struct Result {
  model::TensorType type;
  Bytes bytes;
};

// The first output of a model, which has room for `room` bytes.
Result run(const model::Model& model, std::vector<Bytes> inputs, size_t room) {
  const model::Program program = model::Program::compile(model);
  CHECK(program.missing().empty());
  std::vector<float> work(static_cast<size_t>(program.work_bytes()) / 4 + 16);
  const auto address = (reinterpret_cast<uintptr_t>(work.data()) + 63) / 64 * 64;
  model::Frame frame;
  frame.work = reinterpret_cast<char*>(address);
  frame.weights = reinterpret_cast<const char*>(model.weights.bytes.data());
  std::vector<model::HostBuffer> in;
  for (Bytes& input : inputs) in.push_back({input.data(), input.size()});
  Bytes y(room);
  const model::HostBuffer out{y.data(), y.size()};
  program.load_inputs(frame, in);
  for (size_t i = 0; i < program.steps().size(); ++i) {
    program.run_step(frame, i, ops::Workers::serial());
  }
  program.store_outputs(frame, {&out, 1});
  const model::TensorType type = program.output_type(frame, 0);
  y.resize(static_cast<size_t>(type.shape.elements()) * ops::dtype_size(type.dtype));
  return {type, y};
}

constexpr int64_t kInt64 = 7;
constexpr int64_t kBoolean = 9;
constexpr int64_t kHalf = 10;

test::Writer body_attribute(const std::string& name, OnnxBytes& body) {
  test::Writer attribute;
  attribute.string(1, name);
  attribute.message(6, body.graph());
  attribute.i64(20, 5);
  return attribute;
}

}  // namespace

TEST(late_reshape_takes_its_shape_from_an_input) {
  OnnxBytes onnx;
  onnx.input("x", {2, 3}).input("s", {2}, kInt64).node("Reshape", {"x", "s"}, {"r"});
  onnx.node("Transpose", {"r"}, {"t"}).node("Relu", {"t"}, {"y"}).open_output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  CHECK(made.outputs[0].dims == (model::Dims{-2}));
  const Bytes x = bytes_of<float>({1, -2, 3, 4, 5, 6});
  const Result tall = run(made, {x, bytes_of<int64_t>({3, -1})}, 24);
  CHECK(tall.type.shape == (ops::Shape{2, 3}));
  CHECK(values_of<float>(tall.bytes) == (std::vector<float>{1, 3, 5, 0, 4, 6}));
  const Result flat = run(made, {x, bytes_of<int64_t>({6, 1})}, 24);
  CHECK(flat.type.shape == (ops::Shape{1, 6}));
  CHECK_THROWS_CODE(run(made, {x, bytes_of<int64_t>({4, 2})}, 24), 500002);
  CHECK_THROWS_CODE(run(made, {x, bytes_of<int64_t>({3, -1})}, 20),
                    500002);  // no room for the result
}

TEST(late_nonzero_gives_what_there_is) {
  OnnxBytes onnx;
  onnx.input("x", {2, 2}).node("NonZero", {"x"}, {"n"}).node("Shape", {"n"}, {"y"});
  onnx.open_output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  const Result two = run(made, {bytes_of<float>({0, 5, 0, 7})}, 16);
  CHECK(values_of<int64_t>(two.bytes) == (std::vector<int64_t>{2, 2}));
  const Result none = run(made, {bytes_of<float>({0, 0, 0, 0})}, 16);
  CHECK(values_of<int64_t>(none.bytes) == (std::vector<int64_t>{2, 0}));
}

TEST(late_results_must_have_the_declared_shape) {
  OnnxBytes onnx;
  onnx.input("x", {4}).input("s", {2}, kInt64).node("Reshape", {"x", "s"}, {"y"});
  onnx.shaped_output("y", {2, 2});
  const model::Model made = model::convert_onnx(onnx.file(), {});
  CHECK(made.outputs[0].dims == (model::Dims{2, 2}));
  const Bytes x = bytes_of<float>({1, 2, 3, 4});
  CHECK(run(made, {x, bytes_of<int64_t>({2, 2})}, 16).bytes == x);
  CHECK_THROWS_CODE(run(made, {x, bytes_of<int64_t>({4, 1})}, 16), 500002);
}

TEST(bodies_read_tensors_around_them) {
  OnnxBytes yes;
  yes.node("Add", {"x", "w"}, {"a"}).open_output("a");
  OnnxBytes no;
  no.node("Mul", {"x", "w"}, {"m"}).open_output("m");
  OnnxBytes onnx;
  onnx.input("x", {2}).input("c", {}, kBoolean).floats("w", {2}, {10, 20});
  onnx.node("If", {"c"}, {"y"}, "choice",
            {body_attribute("then_branch", yes), body_attribute("else_branch", no)});
  onnx.output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  CHECK_EQ(made.graphs.size(), 3U);
  const Bytes x = bytes_of<float>({1, 2});
  CHECK(values_of<float>(run(made, {x, {1}}, 8).bytes) == (std::vector<float>{11, 22}));
  CHECK(values_of<float>(run(made, {x, {0}}, 8).bytes) == (std::vector<float>{10, 40}));
}

// Exporters write branches for shapes that a model with fixed ones never has.
TEST(a_branch_of_impossible_shapes_refuses_when_it_is_taken) {
  OnnxBytes inner_yes;
  inner_yes.node("Identity", {"sum"}, {"a"}).open_output("a");
  OnnxBytes inner_no;
  inner_no.node("Relu", {"sum"}, {"b"}).open_output("b");
  OnnxBytes yes;
  yes.node("Add", {"x", "three"}, {"sum"}, "adder");
  yes.node("If", {"c"}, {"i"}, "inner",
           {body_attribute("then_branch", inner_yes), body_attribute("else_branch", inner_no)});
  yes.open_output("i");
  OnnxBytes no;
  no.node("Neg", {"x"}, {"m"}).open_output("m");
  const auto file = [&](OnnxBytes& first, OnnxBytes& second) {
    OnnxBytes onnx;
    onnx.input("x", {2}).input("c", {}, kBoolean).floats("three", {3}, {1, 2, 3});
    onnx.node("If", {"c"}, {"y"}, "choice",
              {body_attribute("then_branch", first), body_attribute("else_branch", second)});
    return onnx.output("y").file();
  };
  const model::Model made = model::convert_onnx(file(yes, no), {});
  CHECK_EQ(made.graphs.size(), 3U);
  const Bytes x = bytes_of<float>({1, 2});
  CHECK(values_of<float>(run(made, {x, {0}}, 8).bytes) == (std::vector<float>{-1, -2}));
  try {
    run(made, {x, {1}}, 8);
    CHECK(false);
  } catch (const base::Error& error) {
    CHECK(error.text.find("this branch cannot run") != std::string::npos);
    CHECK(error.text.find("node 'adder'") != std::string::npos);
  }
  CHECK_THROWS_CODE(model::convert_onnx(file(yes, yes), {}), 145000);
}

// Found by fuzzing: the loop over 77 thousand million rows of nothing did not end.
TEST(empty_results_of_any_shape_take_no_time) {
  OnnxBytes onnx;
  onnx.input("x", {6, 3});
  onnx.raw("repeats", {2}, kInt64, bytes_of<int64_t>({12'885'164'034, 0}));
  onnx.node("Tile", {"x", "repeats"}, {"y"}, "tiler").open_output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  const Result got = run(made, {bytes_of(std::vector<float>(18, 1.0F))}, 0);
  CHECK(got.type.shape == (ops::Shape{6 * 12'885'164'034, 0}));
}

TEST(a_condition_must_be_one_bool) {
  OnnxBytes body;
  body.node("Neg", {"x"}, {"m"}).open_output("m");
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0}, std::vector<int64_t>{1}}) {
    OnnxBytes onnx;
    onnx.input("x", {2}).raw("c", dims, dims[0] == 0 ? kBoolean : 2,
                             Bytes(static_cast<size_t>(dims[0]), 1));
    onnx.node("If", {"c"}, {"y"}, "choice",
              {body_attribute("then_branch", body), body_attribute("else_branch", body)});
    CHECK_THROWS_CODE(model::convert_onnx(onnx.output("y").file(), {}), 145000);
  }
}

TEST(loops_count_and_collect) {
  OnnxBytes body;
  body.input("i", {}, kInt64).input("go", {}, kBoolean).input("s", {1});
  body.node("Add", {"s", "x"}, {"next"}).node("Identity", {"go"}, {"on"});
  body.node("Mul", {"next", "next"}, {"square"});
  body.output("on").open_output("next").open_output("square");
  OnnxBytes onnx;
  onnx.input("n", {}, kInt64).input("x", {1}).floats("zero", {1}, {0});
  onnx.node("Loop", {"n", "", "zero"}, {"last", "y"}, "turns", {body_attribute("body", body)});
  onnx.open_output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  const Result got = run(made, {bytes_of<int64_t>({3}), bytes_of<float>({2})}, 12);
  CHECK(got.type.shape == (ops::Shape{3, 1}));
  CHECK(values_of<float>(got.bytes) == (std::vector<float>{4, 16, 36}));
}

TEST(unsupported_nodes_of_bodies_are_listed_with_the_others) {
  OnnxBytes yes;
  yes.node("Foo", {"x"}, {"a"}).output("a");
  OnnxBytes no;
  no.node("Relu", {"x"}, {"m"}).output("m");
  OnnxBytes onnx;
  onnx.input("x", {2}).input("c", {}, kBoolean).node("Bar", {"x"}, {"b"});
  onnx.node("If", {"c"}, {"y"}, "",
            {body_attribute("then_branch", yes), body_attribute("else_branch", no)});
  onnx.output("y");
  try {
    model::convert_onnx(onnx.file(), {});
    CHECK(false);
  } catch (const base::Error& error) {
    CHECK(error.text.find("op type Foo") != std::string::npos);
    CHECK(error.text.find("op type Bar") != std::string::npos);
    CHECK(error.text.find("2 nodes") != std::string::npos);
  }
}

TEST(halves_are_computed_as_floats) {
  OnnxBytes onnx;
  onnx.input("x", {3}, kHalf).node("Exp", {"x"}, {"e"}).node("Log", {"e"}, {"y"}).output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  std::vector<uint16_t> x;
  for (const float v : {0.5F, -1.0F, 2.0F}) x.push_back(ops::float_to_half(v));
  const Result got = run(made, {bytes_of(x)}, 6);
  CHECK_EQ(static_cast<int>(got.type.dtype), static_cast<int>(ACL_FLOAT16));
  const auto y = values_of<uint16_t>(got.bytes);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(ops::half_to_float(y[i]) - ops::half_to_float(x[i])) < 2e-3F);
  }
}
