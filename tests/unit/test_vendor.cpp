// Compiled graphs made plain: layouts, lost attributes, merged operators, what is refused.
#include <cmath>

#include "compiled.hpp"
#include "gen/abi.h"
#include "model/convert.hpp"
#include "model/program.hpp"
#include "onnx_bytes.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

namespace ascendrt::test {
namespace {

using model::kFloat;
using model::kFloat16;
using model::kHwcn;
using model::kNhwc;
using model::Plain;
using model::VendorOptions;

// Runs a plain model on float inputs; the output is float too.
std::vector<float> run(const model::Model& model, std::vector<std::vector<float>> inputs) {
  const model::Program program = model::Program::compile(model);
  CHECK(program.missing().empty());
  std::vector<float> work(static_cast<size_t>(program.work_bytes()) / 4 + 32);
  model::Frame frame;
  frame.work = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(work.data()) + 63) / 64 * 64);
  frame.weights = reinterpret_cast<const char*>(model.weights.bytes.data());
  std::vector<model::HostBuffer> in;
  for (auto& x : inputs) in.push_back({x.data(), x.size() * 4});
  std::vector<float> y(static_cast<size_t>(program.outputs()[0].bytes) / 4);
  const model::HostBuffer out{y.data(), y.size() * 4};
  program.load_inputs(frame, in);
  for (size_t i = 0; i < program.steps().size(); ++i) {
    program.run_step(frame, i, ops::Workers::serial());
  }
  program.store_outputs(frame, {&out, 1});
  return y;
}

std::vector<float> run(const Plain& plain, std::vector<std::vector<float>> inputs) {
  for (const std::string& line : plain.unresolved) report(__FILE__, __LINE__, line);
  return plain.model == nullptr ? std::vector<float>{} : run(*plain.model, std::move(inputs));
}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

AttrMap dtype_to(int32_t dtype) {
  AttrMap attrs;
  attrs.set("dst_type", int64_t{dtype});
  return attrs;
}

AttrMap window(const Dims& strides, const Dims& pads, const std::string& format) {
  AttrMap attrs;
  attrs.set("strides", strides);
  attrs.set("pads", pads);
  attrs.set("dilations", Dims{1, 1, 1, 1});
  attrs.set("data_format", format);
  return attrs;
}

// Small integers: exact in float16, sums too.
float weight(int64_t n, int64_t c, int64_t h, int64_t w) {
  return static_cast<float>((n * 5 + c * 3 + h * 2 + w) % 7 - 3);
}

// A filter [n, c, 3, 3] in blocks, with an origin of HWCN.
std::string filter(CompiledGraph& g, int64_t n, int64_t c) {
  const int64_t c1 = (c + 15) / 16;
  const TensorDesc desc =
      desc_of(kFloat16, {c1 * 9, (n + 15) / 16, 16, 16}, model::kFractalZ, {3, 3, c, n}, kHwcn);
  return g.constant("filter", desc, [n, c](const Dims& at) {
    const int64_t in = at[0] / 9 * 16 + at[3];
    const int64_t out = at[1] * 16 + at[2];
    return in < c && out < n ? weight(out, in, at[0] % 9 / 3, at[0] % 3) : 0.0F;
  });
}

// What the convolution of NHWC pictures [1, h, w, c] with that filter gives, as NHWC.
std::vector<float> expected(const std::vector<float>& x, int64_t size, int64_t c, int64_t n,
                            int64_t stride, int64_t before, int64_t out) {
  std::vector<float> y;
  for (int64_t i = 0; i < out * out * n; ++i) {
    const int64_t row = i / n / out;
    const int64_t column = i / n % out;
    float sum = 0.0F;
    for (int64_t k = 0; k < 9 * c; ++k) {
      const int64_t h = row * stride + k / c / 3 - before;
      const int64_t w = column * stride + k / c % 3 - before;
      if (h < 0 || w < 0 || h >= size || w >= size) continue;
      sum += x[static_cast<size_t>((h * size + w) * c + k % c)] *
             weight(i % n, k % c, k / c / 3, k / c % 3);
    }
    y.push_back(sum);
  }
  return y;
}

std::vector<float> integers(size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 7 % 5) - 2.0F;
  return x;
}

// Data NHWC -> Cast -> TransData -> `middle` -> TransData -> Cast -> output.
using Middle = std::function<std::string(CompiledGraph&, const std::string&)>;
void around(CompiledGraph& g, const Dims& in, const Dims& out, const Middle& middle) {
  g.data("x", plain(kFloat, in, kNhwc));
  g.add("Cast", "cast", {"x:0"}, plain(kFloat16, in, kNhwc), dtype_to(kFloat16));
  g.add("TransData", "blocks", {"cast:0"}, five(kFloat16, in, kNhwc));
  const std::string y = middle(g, "blocks:0");
  g.add("TransData", "rows", {y}, plain(kFloat16, out, kNhwc));
  g.add("Cast", "wide", {"rows:0"}, plain(kFloat, out, kNhwc), dtype_to(kFloat));
  g.output("wide:0");
}

TEST(vendor_convolution_in_blocked_layouts) {
  CompiledGraph g("TensorFlow");
  around(g, {1, 6, 6, 20}, {1, 3, 3, 18}, [](CompiledGraph& graph, const std::string& x) {
    const std::string w = filter(graph, 18, 20);
    return graph.add("Conv2D", "conv", {x, w}, five(kFloat16, {1, 3, 3, 18}, kNhwc),
                     window({1, 2, 2, 1}, {0, 1, 0, 1}, "NHWC"));
  });
  const Plain plain = g.compile();
  CHECK(plain.inferred.empty());
  const auto x = integers(6 * 6 * 20);
  CHECK(run(plain, {x}) == expected(x, 6, 20, 18, 2, 0, 3));
}

CompiledGraph merged_convolution(const std::string& parts, int64_t in, int64_t out) {
  CompiledGraph g("TensorFlow");
  const Dims y = {1, out, out, 4};
  around(g, {1, in, in, 3}, y, [&](CompiledGraph& graph, const std::string& x) {
    const std::string w = filter(graph, 4, 3);
    return graph.merged("Conv2D", parts, "conv", {x, w}, five(kFloat16, y, kNhwc));
  });
  return g;
}

TEST(vendor_merged_convolution_is_inferred_aloud) {
  const Plain plain = merged_convolution("conv2d_relu", 9, 4).compile();  // VALID, 2
  CHECK_EQ(plain.inferred.size(), size_t{1});
  CHECK(has(plain.inferred, "'conv': strides [2, 2] and pads [0, 0, 0, 0]"));
  CHECK(has(plain.inferred, "dilation of 1 assumed"));
  const auto x = integers(9 * 9 * 3);
  auto wanted = expected(x, 9, 3, 4, 2, 0, 4);
  for (float& value : wanted) value = std::max(value, 0.0F);
  CHECK(run(plain, {x}) == wanted);
}

TEST(vendor_shapes_with_several_answers_are_refused) {
  const Plain plain = merged_convolution("conv2d_relu", 4, 2).compile();  // SAME 2 or 3, VALID 1
  CHECK(plain.model == nullptr);
  CHECK(has(plain.unresolved, "'conv': its strides and pads are not in the file"));
  CHECK(has(plain.unresolved, "leave 3 answers"));
}

TEST(vendor_lost_scalars_are_never_made_up) {
  const Plain plain = merged_convolution("conv2d_leaky_relu", 9, 4).compile();
  CHECK(plain.model == nullptr);
  CHECK(has(plain.unresolved, "negative_slope of its merged operator leaky_relu"));
}

TEST(vendor_unknown_parts_are_named) {
  const Plain plain = merged_convolution("conv2d_sparkle", 9, 4).compile();
  CHECK(has(plain.unresolved, "merged operator at 'sparkle"));
}

TEST(vendor_strict_mode_refuses_what_was_inferred) {
  CompiledGraph g = merged_convolution("conv2d_relu", 9, 4);
  VendorOptions options;
  options.source = "none";
  options.missing = VendorOptions::Missing::kRefuse;
  model::make_plain(g.model(), options);
  CHECK(g.model().plain == nullptr);
  CHECK(has(g.model().unresolved, "'conv': strides [2, 2]"));
  CHECK(has(g.model().unresolved, "ASCENDRT_OM_STRICT"));
  CHECK(model::Program::compile(g.model()).missing() == g.model().unresolved);
}

TEST(vendor_list_of_missing_things_is_whole) {
  CompiledGraph g;
  g.data("x", plain(kFloat, {1, 4}));
  g.add("Teleport", "first", {"x:0"}, plain(kFloat, {1, 4}));
  g.add("Relu", "between", {"first:0"}, plain(kFloat, {1, 4}));
  g.add("Levitate", "second", {"between:0"}, plain(kFloat, {1, 4}));
  g.output("second:0");
  const Plain plain_model = g.compile();
  CHECK_EQ(plain_model.unresolved.size(), size_t{2});
  CHECK(has(plain_model.unresolved, "Teleport 'first'"));
  CHECK(has(plain_model.unresolved, "Levitate 'second'"));
}

// --- merged element by element operators ---

float half_scalar(CompiledGraph& g, const std::string& name, float value) {
  g.constant(name, plain(kFloat16, {}, model::kNd), [value](const Dims&) { return value; });
  return value;
}

TEST(vendor_two_branches_take_fresh_operands_first) {
  CompiledGraph g;
  g.data("x", plain(kFloat, {4}, model::kNd));
  g.add("Cast", "half", {"x:0"}, plain(kFloat16, {4}, model::kNd), dtype_to(kFloat16));
  half_scalar(g, "a", 0.5F);
  half_scalar(g, "b", 0.25F);
  g.merged("Abs", "abs_mul_mul_add", "leaky", {"half:0", "a:0", "half:0", "b:0"},
           plain(kFloat16, {4}, model::kNd));
  g.add("Cast", "y", {"leaky:0"}, plain(kFloat, {4}, model::kNd), dtype_to(kFloat));
  g.output("y:0");
  const Plain plain_model = g.compile();
  CHECK(has(plain_model.inferred, "two branches assumed"));
  CHECK(run(plain_model, {{-4, -1, 0, 8}}) == (std::vector<float>{-1, -0.25F, 0, 6}));
}

TEST(vendor_chain_of_merged_operators) {
  CompiledGraph g;
  const TensorDesc d = plain(kFloat16, {4}, model::kNd);
  g.data("x", plain(kFloat, {4}, model::kNd));
  g.add("Cast", "half", {"x:0"}, d, dtype_to(kFloat16));
  half_scalar(g, "a", 3.0F);
  half_scalar(g, "b", -2.0F);
  g.merged("Mul", "mul_add_relu", "chain", {"half:0", "a:0", "b:0"}, d);
  g.add("Cast", "y", {"chain:0"}, plain(kFloat, {4}, model::kNd), dtype_to(kFloat));
  g.output("y:0");
  const Plain plain_model = g.compile();
  CHECK(plain_model.inferred.empty());  // there is one way
  CHECK(run(plain_model, {{-1, 0, 1, 2}}) == (std::vector<float>{0, 0, 1, 4}));
}

TEST(vendor_operands_that_do_not_add_up) {
  CompiledGraph g;
  g.data("x", plain(kFloat, {4}));
  g.merged("Mul", "mul_add", "odd", {"x:0", "x:0"}, plain(kFloat, {4}));
  g.output("odd:0");
  CHECK(has(g.compile().unresolved, "2 operands do not fit the merged operators mul, add"));
}

// Slots of fix_pipe: 0 x, 1 filter, 2 bias, 4 the other operand, 6 and 9 slopes.
TEST(vendor_fix_pipe_with_both_activations) {
  CompiledGraph g("TensorFlow");
  const Dims in = {1, 5, 5, 3};
  const Dims out = {1, 5, 5, 4};
  around(g, in, out, [&](CompiledGraph& graph, const std::string& x) {
    const std::string w = filter(graph, 4, 3);
    const std::string other = graph.constant(
        "other", five(kFloat16, out, kNhwc),
        [](const Dims& at) { return at[4] < 4 ? static_cast<float>(at[4]) - 2.0F : 0.0F; });
    AttrMap attrs;
    attrs.set("_datadump_original_op_types", std::vector<std::string>{"Relu", "Add", "Relu"});
    return graph.merged("Conv2D", "conv2d_fix_pipe", "conv",
                        {x, w, "", "", other, "", "", "", "", "", "", "", ""},
                        five(kFloat16, out, kNhwc), std::move(attrs));
  });
  const auto x = integers(5 * 5 * 3);
  auto wanted = expected(x, 5, 3, 4, 1, 1, 5);
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = std::max(std::max(wanted[i], 0.0F) + static_cast<float>(i % 4) - 2.0F, 0.0F);
  }
  CHECK(run(g.compile(), {x}) == wanted);
}

TEST(vendor_fix_pipe_with_other_operands_is_refused) {
  CompiledGraph g("TensorFlow");
  const Dims out = {1, 5, 5, 4};
  around(g, {1, 5, 5, 3}, out, [&](CompiledGraph& graph, const std::string& x) {
    const std::string w = filter(graph, 4, 3);
    half_scalar(graph, "scale", 2.0F);
    return graph.merged("Conv2D", "conv2d_fix_pipe", "conv", {x, w, "", "", "", "scale:0"},
                        five(kFloat16, out, kNhwc));
  });
  CHECK(has(g.compile().unresolved, "operand 5 of fix_pipe"));
}

// --- products ---

CompiledGraph merged_product(const Dims& a, const Dims& b, const Dims& y) {
  CompiledGraph g;
  g.data("x", plain(kFloat, a, model::kNd));
  g.add("Cast", "half", {"x:0"}, plain(kFloat16, a, model::kNd), dtype_to(kFloat16));
  g.add("TransData", "blocks", {"half:0"}, fractal_nz(kFloat16, a[0], a[1]));
  g.constant("b", fractal_nz(kFloat16, b[0], b[1]), [b](const Dims& at) {
    const int64_t row = at[1] * 16 + at[2];
    const int64_t column = at[0] * 16 + at[3];
    return row < b[0] && column < b[1] ? static_cast<float>((row + 2 * column) % 5 - 2) : 9.0F;
  });
  g.merged("MatMulV2", "mat_mul_relu", "product", {"blocks:0", "b:0"},
           fractal_nz(kFloat16, y[0], y[1]));
  g.add("TransData", "rows", {"product:0"}, plain(kFloat16, y, model::kNd));
  g.add("Cast", "y", {"rows:0"}, plain(kFloat, y, model::kNd), dtype_to(kFloat));
  g.output("y:0");
  return g;
}

TEST(vendor_product_in_blocked_layouts) {
  const Plain plain_model = merged_product({3, 20}, {20, 18}, {3, 18}).compile();
  CHECK(has(plain_model.inferred, "not the first, not the second"));
  const auto x = integers(60);
  std::vector<float> wanted;
  for (size_t i = 0; i < 54; ++i) {
    float sum = 0.0F;
    for (size_t k = 0; k < 20; ++k) {
      sum += x[i / 18 * 20 + k] * (static_cast<float>((k + 2 * (i % 18)) % 5) - 2.0F);
    }
    wanted.push_back(std::max(sum, 0.0F));
  }
  CHECK(run(plain_model, {x}) == wanted);
}

TEST(vendor_product_with_a_square_matrix_is_refused) {
  const Plain plain_model = merged_product({3, 20}, {20, 20}, {3, 20}).compile();
  CHECK(has(plain_model.unresolved, "transposed is not in the file"));
}

// --- descriptors that do not fit each other ---

TEST(vendor_consumers_may_see_another_shape) {
  CompiledGraph g;
  g.data("x", plain(kFloat, {2, 6}, model::kNd));
  g.add("Relu", "act", {"x:0"}, plain(kFloat, {2, 6}, model::kNd));
  g.add("SoftmaxV2", "soft", {"act:0"}, plain(kFloat, {4, 3}, model::kNd));
  g.model().graphs[0].ops.back().input_descs = {plain(kFloat, {4, 3}, model::kNd)};
  g.output("soft:0");
  const auto y = run(g.compile(), {std::vector<float>(12, 1.0F)});
  CHECK_EQ(y.size(), size_t{12});
  for (const float value : y) CHECK(std::fabs(value - 1.0F / 3.0F) < 1e-6F);
}

TEST(vendor_layouts_that_contradict_their_origin_are_refused) {
  for (const Dims& wrong : {Dims{1, 2, 6, 6, 16}, Dims{1, 1, 6, 5, 16}, Dims{1, 1, 6, 6},
                            Dims{1, 1, 6, 6, 0}, Dims{1, int64_t{1} << 60, 6, 6, 16}}) {
    CompiledGraph g;
    const Dims origin = {1, 3, 6, 6};
    g.data("x", desc_of(kFloat, wrong, model::kNc1hwc0, origin, model::kNchw));
    g.add("Relu", "act", {"x:0"}, desc_of(kFloat, wrong, model::kNc1hwc0, origin, model::kNchw));
    g.output("act:0");
    const Plain plain_model = g.compile();
    CHECK(plain_model.model == nullptr && !plain_model.unresolved.empty());
  }
}

TEST(vendor_blocked_inputs_and_outputs_stay_blocked) {
  CompiledGraph g;
  const TensorDesc d = five(kFloat, {1, 3, 1, 2});
  g.data("x", d);
  g.add("Adds", "add", {"x:0"}, d);
  g.model().graphs[0].ops.back().attrs.set("value", 1.0F);
  g.output("add:0");
  std::vector<float> x(32, 7.0F);
  const auto y = run(g.compile(), {x});
  for (size_t i = 0; i < 32; ++i) CHECK_EQ(y[i], i % 16 < 3 ? 8.0F : 0.0F);
}

// One number, type, layout or link of the graph becomes another. Whatever comes out of it, plain or
// a list, comes soon and without harm.
void spoil(model::Model& model, Random& random) {
  auto& ops = model.graphs[0].ops;
  const auto pick = [&](size_t count) {
    return static_cast<size_t>(random.between(0, static_cast<int64_t>(count) - 1));
  };
  model::Op& op = ops[pick(ops.size())];
  auto& descs = random.between(0, 1) == 0 ? op.input_descs : op.output_descs;
  constexpr int64_t kNumbers[] = {0, -1, -2, 1, 2, 16, 17, 1 << 20, int64_t{1} << 40, INT64_MAX};
  const int64_t number = kNumbers[pick(std::size(kNumbers))];
  if (descs.empty()) return;
  TensorDesc& desc = descs[pick(descs.size())];
  Dims origin = desc.origin_dims();
  switch (random.between(0, 6)) {
    case 0:
      if (!desc.dims.empty()) desc.dims[pick(desc.dims.size())] = number;
      break;
    case 1:
      if (!origin.empty()) origin[pick(origin.size())] = number;
      desc.set_origin(origin, desc.origin_format());
      break;
    case 2:
      desc.format = static_cast<int32_t>(random.between(-1, 32));
      break;
    case 3:
      desc.dtype = static_cast<int32_t>(random.between(-1, 40));
      break;
    case 4:
      if (!op.inputs.empty()) op.inputs[pick(op.inputs.size())] = ops[pick(ops.size())].name + ":0";
      break;
    case 5:
      op.attrs.set("strides", Dims{1, number, number, 1});
      op.attrs.set("pads", Dims{number, 0, 0, number});
      break;
    default:
      desc.dims.push_back(number);
  }
}

namespace {

// y = -(x + relu(x)), where the sum and the Relu lie in a graph of their own.
CompiledGraph with_call() {
  CompiledGraph g;
  const TensorDesc line = plain(kFloat, {2, 3});
  const std::string x = g.data("x", line);
  const std::string called = g.add("PartitionedCall", "part", {x}, line);
  g.output(g.add("Neg", "last", {called}, line));
  CompiledGraph inner;  // its tensors have names of the graph around it
  const std::string parameter = inner.data("x", line);
  inner.output(
      inner.add("Add", "last", {parameter, inner.add("Relu", "part", {parameter}, line)}, line));
  model::Graph body = inner.model().graphs[0];
  body.name = "body";
  body.ops[0].attrs.set("_parent_node_index", int64_t{0});
  g.model().graphs.push_back(body);
  for (model::Op& op : g.model().graphs[0].ops) {
    if (op.name == "part") op.subgraphs = {"body"};
  }
  g.model().header.unknown_shape = true;  // such files are of that kind
  return g;
}

}  // namespace

TEST(vendor_calls_of_other_graphs_are_computed) {
  CompiledGraph g = with_call();
  const std::vector<float> expected = {-2, 1, -4, 2, -6, -0.0F};
  CHECK(run(g.compile(), {{1, -1, 2, -2, 3, 0}}) == expected);
  // A described shape that is open agrees with what comes out.
  for (model::Op& op : g.model().graphs[1].ops) {
    for (TensorDesc& desc : op.output_descs) {
      if (op.type == "Relu") desc = plain(kFloat, {-1, 3});
    }
  }
  CHECK(run(g.compile(), {{1, -1, 2, -2, 3, 0}}) == expected);
}

TEST(vendor_calls_that_cannot_be_followed_are_listed) {
  CompiledGraph lost = with_call();
  lost.model().graphs.pop_back();
  CHECK(has(lost.compile().unresolved, "'part': subgraphs: the graph it calls is not in the file"));
  CompiledGraph endless = with_call();  // the body calls itself
  for (model::Op& op : endless.model().graphs[1].ops) {
    if (op.type != "Relu") continue;
    op.type = "PartitionedCall";
    op.subgraphs = {"body"};
  }
  CHECK(has(endless.compile().unresolved, "too many calls"));
  CompiledGraph unfed = with_call();
  unfed.model().graphs[1].ops[0].attrs.set("_parent_node_index", int64_t{1});
  CHECK(has(unfed.compile().unresolved, "the call gives it no tensor"));
  CompiledGraph strange = with_call();
  strange.model().graphs[1].ops[1].type = "NoSuchOperator";
  CHECK(has(strange.compile().unresolved, "NoSuchOperator 'part'"));
  CompiledGraph open = with_call();
  open.model().graphs[0].ops[0].output_descs[0] = plain(kFloat, {-1, 3});
  CHECK(has(open.compile().unresolved, "fixed shapes only"));
}

TEST(vendor_spoiled_graphs_do_no_harm) {
  Random random(11);
  size_t refused = 0;
  for (int i = 0; i < 600; ++i) {
    CompiledGraph g = i % 2 == 0 ? merged_convolution("conv2d_relu", 9, 4)
                                 : merged_product({3, 20}, {20, 18}, {3, 18});
    for (int64_t edits = random.between(1, 3); edits > 0; --edits) spoil(g.model(), random);
    const Plain plain_model = g.compile();
    CHECK((plain_model.model == nullptr) == !plain_model.unresolved.empty());
    refused += plain_model.model == nullptr ? 1 : 0;
    if (plain_model.model != nullptr) model::Program::compile(*plain_model.model);
  }
  CHECK(refused > 300);
}

// --- random operators ---

CompiledGraph random_graph() {
  CompiledGraph g("TensorFlow");
  g.data("x", plain(kFloat, {1}, model::kNd));
  AttrMap attrs;
  attrs.set("original_type", "RandomStandardNormal");
  g.add("FrameworkOp", "draw", {"x:0"}, plain(kFloat, {1000}, model::kNd), std::move(attrs));
  g.output("draw:0");
  return g;
}

TEST(vendor_random_numbers_follow_the_seed_and_the_run) {
  const Plain plain_model = random_graph().compile();
  const auto y = run(plain_model, {{0}});
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : y) sum += value, squares += double{value} * value;
  CHECK(std::fabs(sum / 1000) < 0.15 && std::fabs(squares / 1000 - 1) < 0.2);
  VendorOptions other;
  other.seed = 9;
  CHECK(run(random_graph().compile(), {{0}}) == y);
  CHECK(run(random_graph().compile(other), {{0}}) != y);
  other.random = VendorOptions::Random::kZero;
  CHECK(run(random_graph().compile(other), {{0}}) == std::vector<float>(1000, 0.0F));
}

// --- sources ---

OnnxBytes source_network() {
  OnnxBytes onnx;
  onnx.input("x", {1, 2, 1, 3}).floats("w", {1}, {2});
  onnx.node("Mul", {"x", "w"}, {"y"}, "scale").output("y");
  return onnx;
}

TEST(vendor_source_behind_another_layout) {
  CompiledGraph g;
  g.data("x", plain(kFloat, {1, 1, 3, 2}, kNhwc));
  g.add("Teleport", "lost", {"x:0"}, plain(kFloat, {1, 1, 3, 2}, kNhwc));
  g.output("lost:0");
  const model::Model made = model::plain_source(g.model(), source_network().file());
  CHECK(made.inputs[0].dims == (Dims{1, 1, 3, 2}));
  CHECK(run(made, {{1, 2, 3, 4, 5, 6}}) == (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

std::string source_refusal(const TensorDesc& in, const TensorDesc& out) {
  CompiledGraph g;
  g.data("x", in);
  g.add("Teleport", "lost", {"x:0"}, out);
  g.output("lost:0");
  try {
    model::plain_source(g.model(), source_network().file());
  } catch (const base::Error& error) {
    CHECK_EQ(error.code, 145000);
    return error.text;
  }
  return "";
}

TEST(vendor_source_that_differs_is_refused_with_the_difference) {
  const auto has_text = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const TensorDesc good = plain(kFloat, {1, 2, 1, 3});
  CHECK_EQ(source_refusal(good, good), "");
  CHECK(has_text(source_refusal(plain(kFloat, {1, 2, 1, 4}), good), "input 'x' is FLOAT 1x2x1x3"));
  CHECK(has_text(source_refusal(good, plain(kFloat, {1, 6})), "output 'scale:0:y' is FLOAT"));
  CHECK_THROWS_CODE(model::plain_source(CompiledGraph().model(), source_network().file()), 145000);
}

}  // namespace
}  // namespace ascendrt::test
