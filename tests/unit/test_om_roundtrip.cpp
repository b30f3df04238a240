// Offline models written and read again: graphs, attributes, weights, description, containers.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/om_container.hpp"
#include "model/om_inout.hpp"
#include "model/om_proto.hpp"
#include "om_seeds.hpp"
#include "test.hpp"

namespace ascendrt::test {
namespace {

using namespace model;  // NOLINT

Model load(const Bytes& file) { return OmSource::from_memory(file.data(), file.size()).read(""); }

struct TemporaryDirectory {
  TemporaryDirectory() {
    // mkdtemp() replaces the six X.
    std::string pattern = (std::filesystem::temp_directory_path() / "ascendrt-om-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  size_t entries() const {
    const std::filesystem::directory_iterator it(path);
    return static_cast<size_t>(std::distance(begin(it), end(it)));
  }
  std::filesystem::path path;
};

TEST(om_round_trip_keeps_graph_attributes_and_weights) {
  const Model before = small_network();
  const Model after = load(serialize_om(before));
  CHECK(after.graphs == before.graphs);
  CHECK(after.attrs == before.attrs);
  CHECK(std::equal(after.weights.bytes.begin(), after.weights.bytes.end(),
                   before.weights.bytes.begin(), before.weights.bytes.end()));
  CHECK_EQ(after.name, std::string("net"));
  CHECK_EQ(after.task_info.memory_size, 4096U);
  CHECK(after.is_native());
  CHECK(!after.is_dynamic());
}

TEST(om_round_trip_description) {
  const Model model = load(serialize_om(small_network()));
  CHECK_EQ(model.inputs.size(), 1U);
  CHECK_EQ(model.inputs[0].name, std::string("x"));
  CHECK(model.inputs[0].dims == (Dims{1, 3, 4, 4}));
  CHECK_EQ(model.inputs[0].size, 192U);
  CHECK_EQ(model.inputs[0].dtype, int32_t{kFloat});
  CHECK_EQ(model.inputs[0].format, int32_t{kNchw});
  CHECK_EQ(model.outputs.size(), 1U);
  CHECK_EQ(model.outputs[0].name, std::string("relu:0"));
  CHECK_EQ(model.outputs[0].size, 192U);
}

TEST(om_constant_data_lies_in_weights) {
  const Model model = load(serialize_om(small_network()));
  const auto data = model.constant_data(*model.root()->find_op("scale"));
  const float expected[] = {0.5F, 2.0F, -1.0F};
  CHECK_EQ(data.size(), sizeof(expected));
  CHECK(std::memcmp(data.data(), expected, sizeof(expected)) == 0);
  CHECK(model.root()->find_op("mul")->is_input_const == (std::vector<bool>{false, true}));
}

TEST(om_second_constant_starts_on_a_512_byte_piece) {
  Model model = small_network();
  Op extra = *model.root()->find_op("scale");
  extra.name = "extra";
  extra.attrs.set("value", Box(Tensor{extra.output_descs[0], Bytes(12, 9)}));
  model.graphs[0].ops.push_back(extra);
  complete(model);
  const auto data = model.constant_data(*model.root()->find_op("extra"));
  CHECK_EQ(data.data() - model.weights.bytes.data(), 512);
  CHECK_EQ(int{data[11]}, 9);
}

TEST(om_every_container_variant_has_the_same_description) {
  const Model plain = small_network();
  for (const Seed& seed : all_seeds()) {
    if (seed.name == "gears") continue;
    const Model model = load(seed.file);
    CHECK(model.inputs == plain.inputs);
    CHECK(model.outputs == plain.outputs);
    CHECK(model.graphs == plain.graphs);
  }
}

TEST(om_container_facts) {
  CHECK_EQ(load(seed("multi_block").file).parts.size(), 2U);
  CHECK(load(seed("multi_block").file).is_dynamic());
  CHECK_EQ(load(seed("old_32bit").file).header.platform_version, std::string("1.11.z.0"));
  CHECK_EQ(load(seed("new_64bit").file).header.platform_version, std::string("1.11.z.0"));
  CHECK(!read_container(seed("phone_32bit").file, "seed").wide_table);
  CHECK(read_container(seed("flow").file, "seed").wide_table);
}

TEST(om_numbered_attributes_are_expanded) {
  const Model numbered = load(seed("numbered").file);
  CHECK(numbered.attrs == small_network().attrs);  // the dictionary is gone
  CHECK_EQ(numbered.root()->find_op("relu")->attrs.string_or("mode", "?"), std::string("nearest"));
}

TEST(om_plain_attributes_win_over_numbered_ones) {
  Model m = numbered_network();
  m.graphs[0].ops[3].attrs.append("mode", "linear");
  const Bytes file = pack({.blocks = {{{0, serialize_model_def(m)}, {1, Bytes(512, 0)}}}});
  const Model model = load(file);
  const AttrMap& attrs = model.root()->find_op("relu")->attrs;
  CHECK_EQ(attrs.string_or("mode", "?"), std::string("linear"));
  CHECK_EQ(attrs.items().size(), small_network().root()->find_op("relu")->attrs.items().size());
}

TEST(om_numbered_sub_models_use_the_first_dictionary) {
  const Model m = numbered_network();
  Model later = m;  // own dictionary must be ignored
  later.attrs.set("attr_name_enum", std::vector<std::string>{"wrong"});
  later.attrs.set("attrs_use_string_value", std::vector<bool>{true});
  const Bytes file = pack({.model_num = 2,
                           .blocks = {{{0, serialize_model_def(m)}, {1, Bytes(512, 0)}},
                                      {{0, serialize_model_def(later)}, {1, Bytes(512, 0)}}}});
  const Model model = load(file);
  CHECK(model.parts.at(0).graphs == model.graphs);
}

TEST(om_gears_are_described) {
  const Model model = load(seed("gears").file);
  CHECK(model.gears.kind == GearKind::kBatch);
  CHECK(model.gears.values == (std::vector<std::vector<int64_t>>{{1}, {4}, {8}}));
  CHECK(model.gears.data_names == std::vector<std::string>{"x"});
  CHECK_EQ(model.inputs.size(), 2U);
  CHECK(model.inputs[0].dims == (Dims{-1, 3, 4, 4}));
  CHECK_EQ(model.inputs[0].size, 8U * 192U);  // of the largest gear
  CHECK_EQ(model.inputs[1].name, std::string("ascend_mbatch_shape_data"));
}

TEST(om_inout_info_round_trip) {
  IoDesc io{"näme", {1, -1}, {2, 3, 4}, kInt8, kNhwc, 77, {{1, -1}, {2, 8}}};
  for (const GearKind kind :
       {GearKind::kNone, GearKind::kBatch, GearKind::kImage, GearKind::kDims}) {
    InOutInfo info;
    info.inputs = {io, {}};
    info.outputs = {io};
    if (kind != GearKind::kNone) {
      info.gears = {kind, {{4}, {8}}, {"a", "b"}, {"0,0,1", ""}};
    }
    const InOutInfo back = parse_inout_info(serialize_inout_info(info));
    CHECK(back.inputs == info.inputs);
    CHECK(back.outputs == info.outputs);
    CHECK(back.gears == info.gears);
  }
}

TEST(om_description_goes_by_its_own_partition) {
  const Model m = small_network();
  InOutInfo info{m.inputs, m.outputs, {}};
  info.inputs[0].name = "renamed";
  const Bytes def = serialize_model_def(m);
  const auto describe_with = [&](const Bytes& inout) {
    const Bytes file = pack({.blocks = {{{8, inout}, {0, def}}}});
    return OmSource::from_memory(file.data(), file.size()).read_description();
  };
  CHECK_EQ(describe_with(serialize_inout_info(info)).inputs[0].name, std::string("renamed"));
  CHECK_EQ(describe_with({}).inputs[0].name, std::string("x"));
  CHECK_EQ(describe_with({1, 2, 3}).inputs[0].name, std::string("x"));  // not readable
}

TEST(om_soc_families) {
  CHECK(soc_compatible("Ascend910B1", "Ascend910B1"));
  CHECK(soc_compatible("Ascend910B1", "Ascend910B3"));
  CHECK(soc_compatible("Ascend310P", "Ascend310P3"));
  CHECK(!soc_compatible("Ascend910B", "Ascend910B1"));  // a chip of the 910 family
  CHECK(!soc_compatible("Ascend310P3", "Ascend910B1"));
  CHECK(!soc_compatible("Ascend310", "Ascend310B4"));
}

TEST(om_for_another_soc_is_refused) {
  Model model = small_network();
  model.soc_version = "Ascend310P3";
  complete(model);
  const Bytes file = serialize_om(model);
  const OmSource source = OmSource::from_memory(file.data(), file.size());
  CHECK_THROWS_CODE(source.read("Ascend910B1"), 500002);
  CHECK_EQ(source.read("Ascend310P1").soc_version, std::string("Ascend310P3"));
  CHECK_EQ(source.query_sizes().work, 4096U);  // sizes do not depend on the chip
}

TEST(om_query_sizes) {
  const auto sizes = [](const Bytes& file) {
    return OmSource::from_memory(file.data(), file.size()).query_sizes();
  };
  CHECK_EQ(sizes(seed("new_64bit").file).work, 4096U);
  CHECK_EQ(sizes(seed("new_64bit").file).weight, 512U);
  CHECK_EQ(sizes(seed("multi_block").file).work, 0U);  // dynamic
  CHECK_EQ(sizes(seed("multi_block").file).weight, 3 * 512U);
  const Bytes def = serialize_model_def(small_network());
  CHECK_EQ(sizes(pack({.blocks = {{{0, def}, {2, {}}}}})).work, 0U);  // no launch list
  CHECK_THROWS_CODE(sizes(pack({.blocks = {{{0, def}}}})), 145000);
  CHECK_THROWS_CODE(sizes(pack({.blocks = {{{0, def}, {2, {0x0A, 0x7F}}}}})), 545004);
}

TEST(om_incomplete_graphs_are_refused) {
  const auto broken = [](void (*change)(Graph&)) {
    Model model = small_network();
    change(model.graphs[0]);
    complete(model);
  };
  CHECK_THROWS_CODE(broken([](Graph& g) { g.ops[3].inputs[0] = "nobody:0"; }), 145000);
  CHECK_THROWS_CODE(broken([](Graph& g) { g.ops[3].inputs[0] = "mul:1"; }), 145000);
  CHECK_THROWS_CODE(broken([](Graph& g) { g.ops[3].inputs[0] = "mul"; }), 145000);
  CHECK_THROWS_CODE(broken([](Graph& g) { g.ops[3].name = "mul"; }), 145000);
  CHECK_THROWS_CODE(broken([](Graph& g) { g.ops.pop_back(); }), 145000);
  Model empty;
  CHECK_THROWS_CODE(complete(empty), 145000);
}

TEST(om_file_is_written_whole_or_not_at_all) {
  const TemporaryDirectory dir;
  Model model = small_network();
  const std::string path = dir.path / "net.om";
  write_om(model, path);
  write_om(model, path);  // replaces
  CHECK_EQ(dir.entries(), 1U);
  CHECK(OmSource::from_file(path).read("").graphs == model.graphs);
  CHECK_THROWS_CODE(write_om(model, dir.path / "missing" / "net.om"), 100004);
  std::filesystem::create_directories(dir.path / "taken.om" / "x");
  CHECK_THROWS_CODE(write_om(model, dir.path / "taken.om"), 100004);
  CHECK_EQ(dir.entries(), 2U);
  CHECK_THROWS_CODE(write_om(model, "/proc/net.om"), 100004);
}

TEST(om_full_disk_leaves_nothing_behind) {
  struct stat info = {};
  if (::stat("/dev/full", &info) != 0) return;
  const TemporaryDirectory dir;
  // The temporary file cannot be made to lie on a full disk here; a name that is too long for the
  // temporary but not for the target takes the same way out.
  Model model = small_network();
  CHECK_THROWS_CODE(write_om(model, dir.path / std::string(250, 'n')), 100004);
  CHECK_EQ(dir.entries(), 0U);
}

TEST(om_unreadable_files) {
  const TemporaryDirectory dir;
  CHECK_THROWS_CODE(OmSource::from_file(dir.path / "none.om"), 145002);
  CHECK_THROWS_CODE(OmSource::from_file(dir.path), 145002);
  ::mkfifo((dir.path / "pipe").c_str(), 0600);
  CHECK_THROWS_CODE(OmSource::from_file(dir.path / "pipe"), 145002);
  std::ofstream(dir.path / "empty.om").flush();
  CHECK_THROWS_CODE(OmSource::from_file(dir.path / "empty.om"), 145006);
}

}  // namespace
}  // namespace ascendrt::test
