// ONNX reader and converter: what becomes of nodes, constants and bad files.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>

#include "clock/clock.hpp"
#include "gen/abi.h"
#include "model/convert.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "model/onnx_reader.hpp"
#include "model/output_file.hpp"
#include "model/program.hpp"
#include "onnx_bytes.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::OnnxBytes;

namespace {

constexpr base::Code kRefused = 145000;

std::string refusal(const OnnxBytes& onnx, const model::ConvertOptions& options = {},
                    int64_t opset = 13) {
  try {
    model::convert_onnx(onnx.file(opset), options);
  } catch (const base::Error& error) {
    CHECK_EQ(error.code, kRefused);
    return error.text;
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const model::Model& model, const std::string& type) {
  const auto& ops = model.graphs[0].ops;
  return static_cast<size_t>(
      std::count_if(ops.begin(), ops.end(), [&](const auto& op) { return op.type == type; }));
}

OnnxBytes scale_and_relu() {
  OnnxBytes onnx;
  onnx.input("x", {2, 3}).floats("w", {3}, {1, -2, 3});
  onnx.node("Mul", {"x", "w"}, {"m"}, "scale").node("Relu", {"m"}, {"y"}, "act").output("y");
  return onnx;
}

std::vector<float> run(const model::Model& model, std::vector<float> x) {
  const model::Program program = model::Program::compile(model);
  CHECK(program.missing().empty());
  std::vector<float> work(static_cast<size_t>(program.work_bytes()) / 4 + 16);
  const auto address = (reinterpret_cast<uintptr_t>(work.data()) + 63) / 64 * 64;
  model::Frame frame;
  frame.work = reinterpret_cast<char*>(address);
  frame.weights = reinterpret_cast<const char*>(model.weights.bytes.data());
  std::vector<float> y(static_cast<size_t>(program.outputs()[0].bytes) / 4);
  const model::HostBuffer in{x.data(), x.size() * 4};
  const model::HostBuffer out{y.data(), y.size() * 4};
  program.load_inputs(frame, {&in, 1});
  for (size_t i = 0; i < program.steps().size(); ++i) {
    program.run_step(frame, i, ops::Workers::serial());
  }
  program.store_outputs(frame, {&out, 1});
  return y;
}

}  // namespace

TEST(convert_makes_a_complete_model_that_runs) {
  const model::Model made = model::convert_onnx(
      scale_and_relu().file(), model::parse_convert_options("soc_version=Ascend910B1"));
  CHECK_EQ(made.soc_version, "Ascend910B1");
  CHECK(made.is_native());
  CHECK_EQ(made.inputs[0].name, "x");
  CHECK(made.inputs[0].dims == (model::Dims{2, 3}));
  CHECK_EQ(made.outputs[0].name, "act:0:y");
  const std::vector<float> expected = {1, 0, 9, 4, 0, 18};
  CHECK(run(made, {1, 2, 3, 4, 5, 6}) == expected);
}

TEST(convert_survives_the_file) {
  model::Model made = model::convert_onnx(scale_and_relu().file(), {});
  const model::Bytes image = model::serialize_om(made);
  const auto source = model::OmSource::from_memory(image.data(), image.size());
  const model::Model read = source.read("");
  CHECK_EQ(source.query_sizes().work,
           static_cast<uint64_t>(model::Program::compile(read).work_bytes()));
  CHECK(run(read, {1, 2, 3, 4, 5, 6}) == run(made, {1, 2, 3, 4, 5, 6}));
}

TEST(convert_folds_shape_arithmetic) {
  OnnxBytes onnx;
  onnx.input("x", {2, 6}).raw("zero", {1}, 7, {0, 0, 0, 0, 0, 0, 0, 0});
  onnx.raw("three", {2}, 7, {3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0});
  onnx.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"b"});
  onnx.node("Concat", {"b", "three"}, {"t"}, "", {});
  onnx.node("Reshape", {"x", "t"}, {"y"}).output("y");
  CHECK(has(refusal(onnx), "axis"));  // Concat defaults to axis 1, which a list does not have

  OnnxBytes good;
  good.input("x", {2, 6}).raw("two", {1}, 7, {255, 255, 255, 255, 255, 255, 255, 255});
  good.raw("zero", {1}, 7, {0, 0, 0, 0, 0, 0, 0, 0});
  good.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"b"});
  test::Writer axis;
  axis.string(1, "axis");
  axis.i64(3, 0);
  axis.i64(20, 2);
  good.node("Concat", {"two", "b"}, {"t"}, "", {axis});
  good.node("Reshape", {"x", "t"}, {"y"}).output("y");
  const model::Model made = model::convert_onnx(good.file(), {});
  CHECK_EQ(count(made, "ConcatD") + count(made, "GatherV2") + count(made, "Shape"), 0U);
  CHECK(made.outputs[0].dims == (model::Dims{6, 2}));
}

TEST(convert_leaves_out_what_no_output_needs) {
  OnnxBytes onnx;
  onnx.input("x", {2}).input("unused", {3}).floats("w", {2}, {1, 2});
  onnx.node("Mul", {"x", "w"}, {"dead"}, "dead").node("Exp", {"dead"}, {"deader"}, "deader");
  onnx.node("Neg", {"x"}, {"y"}, "alive").output("y");
  const model::Model made = model::convert_onnx(onnx.file(), {});
  CHECK_EQ(count(made, "Mul") + count(made, "Exp") + count(made, "Const"), 0U);
  CHECK_EQ(count(made, "Data"), 2U);
  CHECK(made.graphs[0].find_op("alive") != nullptr);
  CHECK(made.weights.bytes.empty());
}

TEST(convert_names_every_node_it_cannot_do) {
  OnnxBytes onnx;
  onnx.input("x", {2, 3}).node("Foo", {"x"}, {"a"}, "first").node("Relu", {"a"}, {"b"});
  onnx.node("Bar", {"b"}, {"y"}).output("y");
  const std::string text = refusal(onnx);
  for (const char* part : {"2 nodes", "Foo", "'first'", "opset 13", "Bar", "makes 'y'"}) {
    CHECK(has(text, part));
  }
  CHECK(!has(text, "Relu"));
}

TEST(convert_keeps_open_shapes_and_refuses_bad_graphs) {
  OnnxBytes open;
  open.input("x", {-1, 3}).node("Relu", {"x"}, {"y"}).output("y");
  const model::Model kept = model::convert_onnx(open.file(), {});
  CHECK(kept.is_dynamic());
  CHECK(kept.inputs[0].dims == (model::Dims{-1, 3}));
  CHECK(kept.outputs[0].dims == (model::Dims{-1, 3}));
  model::ConvertOptions options;
  options.input_shape["x"].dims = {4, 3};
  CHECK(model::convert_onnx(open.file(), options).inputs[0].dims == (model::Dims{4, 3}));
  options.input_shape["x"].dims = {4, 5};
  CHECK(has(refusal(open, options), "fixes it to 3"));

  OnnxBytes late;
  late.input("x", {1}).node("Relu", {"z"}, {"y"}).node("Relu", {"x"}, {"z"}).output("y");
  CHECK(has(refusal(late), "'z' is made by no earlier node"));
  OnnxBytes twice;
  twice.input("x", {1}).node("Relu", {"x"}, {"y"}).node("Abs", {"x"}, {"y"}).output("y");
  CHECK(has(refusal(twice), "made twice"));
  OnnxBytes none;
  none.input("x", {1}).node("Relu", {"x"}, {"y"});
  CHECK(has(refusal(none), "no output"));
  OnnxBytes fit;
  fit.input("x", {2, 3}).floats("w", {4}, {1, 2, 3, 4});
  fit.node("Add", {"x", "w"}, {"y"}, "sum").output("y");
  const std::string text = refusal(fit);
  CHECK(has(text, "'sum'") && has(text, "2x3") && has(text, "broadcast"));
  CHECK(has(refusal(scale_and_relu(), {}, 5), "opset"));
  CHECK(has(refusal(scale_and_relu(), {}, 999), "opset"));
}

TEST(convert_refuses_windows_that_contradict) {
  OnnxBytes conv;
  conv.input("x", {1, 1, 8, 8}).floats("w", {1, 1, 2, 2}, {1, 2, 3, 4}).output("y");
  conv.node("Conv", {"x", "w"}, {"y"}, "conv", {OnnxBytes::ints("kernel_shape", {2, 3})});
  CHECK(has(refusal(conv), "kernel_shape"));
  OnnxBytes pool;
  pool.input("x", {1, 1, 8, 8}).output("y");
  pool.node("MaxPool", {"x"}, {"y"}, "pool",
            {OnnxBytes::ints("kernel_shape", {2, 2}), OnnxBytes::ints("pads", {0, 2, 0, 0})});
  CHECK(has(refusal(pool), "pads"));
  OnnxBytes concat;
  concat.input("x", {1, 2}).node("Concat", {"x", "x"}, {"y"}, "join").output("y");
  CHECK(has(refusal(concat), "axis"));
}

TEST(convert_of_many_equal_names_is_not_quadratic) {
  constexpr int kNodes = 30000;
  OnnxBytes onnx;
  onnx.input("x", {1}).node("Relu", {"x"}, {"n_1"}, "n_1");
  for (int i = 0; i < kNodes; ++i) onnx.node("Relu", {"x"}, {"o" + std::to_string(i)}, "n");
  onnx.node("Relu", {"o7"}, {"y"}, "n").output("y");
  const int64_t start = clock::now_ns();
  const model::Model made = model::convert_onnx(onnx.file(), {});
  CHECK(clock::now_ns() - start < int64_t{60} * 1'000'000'000);  // minutes when it is
  std::set<std::string> names;
  for (const auto& op : made.graphs[0].ops) names.insert(op.name);
  CHECK_EQ(names.size(), made.graphs[0].ops.size());
}

TEST(output_file_is_not_interrupted) {
  const auto waits = [] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, SIGINT) + sigismember(&blocked, SIGTERM);
  };
  {
    const model::OutputFile file("/tmp/ascendrt_output_" + std::to_string(getpid()));
    CHECK_EQ(waits(), 2);
  }
  CHECK_EQ(waits(), 0);
  CHECK_THROWS_CODE(model::OutputFile("/no/such/folder/file"), 100004);
  CHECK_EQ(waits(), 0);
  const std::string name = "/tmp/ascendrt_output_" + std::to_string(getpid());
  auto first = std::make_unique<model::OutputFile>(name);
  auto second = std::make_unique<model::OutputFile>(name + "_2");
  first.reset();  // in any order
  CHECK_EQ(waits(), 2);
  second.reset();
  CHECK_EQ(waits(), 0);
}

TEST(onnx_reader_checks_tensors) {
  OnnxBytes few;
  few.input("x", {2}).floats("w", {3}, {1, 2}).node("Add", {"x", "w"}, {"y"}).output("y");
  CHECK(has(refusal(few), "'w' holds 8 bytes"));
  OnnxBytes huge;
  huge.input("x", {2}).raw("w", {int64_t{1} << 40, int64_t{1} << 40}, 1, {0}).output("x");
  CHECK(has(refusal(huge), "'w'"));
  OnnxBytes kind;
  kind.input("x", {2}).raw("w", {1}, 77, {0}).output("x");
  CHECK(has(refusal(kind), "'w'"));

  OnnxBytes external;
  test::Writer tensor;
  tensor.i64(2, 1);
  tensor.string(8, "far");
  tensor.i64(14, 1);
  external.input("x", {2}).output("x").graph().message(5, tensor);
  CHECK(has(refusal(external), "another file"));
}

TEST(onnx_reader_survives_cuts_and_flips) {
  const std::vector<uint8_t> good = scale_and_relu().file();
  const auto attempt = [](const std::vector<uint8_t>& bytes) {
    try {
      model::convert_onnx(bytes, {});
    } catch (const base::Error& error) {
      CHECK_EQ(error.code, kRefused);
      CHECK(!error.text.empty());
    }
  };
  for (size_t cut = 0; cut < good.size(); ++cut) {
    attempt({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)});
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int pattern : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> bad = good;
      bad[i] = static_cast<uint8_t>(bad[i] ^ pattern);
      attempt(bad);
    }
  }
}

TEST(convert_options_are_checked) {
  const auto options =
      model::parse_convert_options("soc_version=Ascend310P3\n\ninput_shape=a:b:1,2;c:3;d:\n");
  CHECK_EQ(options.soc_version, "Ascend310P3");
  CHECK(options.input_shape.at("a:b").dims == (model::Dims{1, 2}));
  CHECK(options.input_shape.at("c").dims == (model::Dims{3}));
  CHECK(options.input_shape.at("d").dims.empty());
  for (const char* bad : {"colour=red", "input_shape=a", "input_shape=a:1~x", "input_shape=a:1,x",
                          "input_shape=:1", "input_shape=a:0", "soc_version=Ascend1"}) {
    CHECK_THROWS_CODE(model::parse_convert_options(bad), ACL_ERROR_INVALID_PARAM);
  }
}
