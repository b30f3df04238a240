// Damaged and hostile offline models: every truncation, byte flips of header and table, bad
// messages.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "model/om_container.hpp"
#include "model/om_inout.hpp"
#include "model/om_proto.hpp"
#include "om_oracle.hpp"
#include "om_seeds.hpp"
#include "test.hpp"

namespace ascendrt::test {
namespace {

using namespace model;  // NOLINT

struct Outcome {
  base::Code code = 0;
  std::vector<IoDesc> inputs;
  std::vector<IoDesc> outputs;
  bool same_description(const Outcome& other) const {
    return code == 0 && inputs == other.inputs && outputs == other.outputs;
  }
};

Outcome load(const Bytes& file, Entry entry = Entry::kLoadFile) {
  Outcome outcome;
  try {
    const OmSource source = OmSource::from_memory(file.data(), file.size());
    source.check_header(entry);
    const Model model = source.read("");
    outcome.inputs = model.inputs;
    outcome.outputs = model.outputs;
  } catch (const base::Error& error) {
    outcome.code = error.code;
    if (error.text.size() < 20) report(__FILE__, __LINE__, "poor error text: " + error.text);
  }
  return outcome;
}

base::Code query(const Bytes& file) {
  try {
    OmSource::from_memory(file.data(), file.size()).query_sizes();
    return 0;
  } catch (const base::Error& error) {
    return error.code;
  }
}

// The content of a partition, empty when a block has none.
Bytes part(const Documented& file, size_t block, uint32_t id) {
  for (const auto& [kind, bytes] : file.blocks[block]) {
    if (kind == id) return bytes;
  }
  return {};
}

// Whether two sound containers hold the same graph, weights and tasks.
bool same_content(const Documented& a, const Documented& b, std::initializer_list<uint32_t> ids) {
  for (size_t i = 0; i < std::min(a.blocks.size(), b.blocks.size()); ++i) {
    for (const uint32_t id : ids) {
      if (part(a, i, id) != part(b, i, id)) return false;
    }
  }
  return a.blocks.size() == b.blocks.size();
}

// A sound container may still hold content that cannot be read, or another one than before.
std::set<base::Code> load_codes(const Documented& file, const Documented& sound) {
  if (file.load != 0) return {file.load};
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    if (part(file, i, 0).empty()) return {500002};  // MODEL_DEF
  }
  return same_content(file, sound, {0, 1, 2}) ? std::set<base::Code>{0}
                                              : std::set<base::Code>{0, 500002};
}

std::set<base::Code> query_codes(const Documented& file, const Documented& sound) {
  if (file.query != 0) return {file.query};
  return same_content(file, sound, {2}) ? std::set<base::Code>{0} : std::set<base::Code>{0, 545004};
}

struct Sound {
  Outcome outcome;
  Documented documented;
};

void check_flip(const Sound& sound, const Seed& seed, Bytes& file, size_t at, int pattern) {
  file[at] = static_cast<uint8_t>(file[at] ^ pattern);
  const Documented wanted = documented(file);
  const Outcome outcome = load(file);
  const base::Code sizes = query(file);
  file[at] = static_cast<uint8_t>(file[at] ^ pattern);
  const std::string place = seed.name + " byte " + std::to_string(at) + " ^ " +
                            std::to_string(pattern) + ": code " + std::to_string(outcome.code);
  if (!load_codes(wanted, sound.documented).contains(outcome.code)) {
    report(__FILE__, __LINE__, place + ", the format says " + std::to_string(wanted.load));
  }
  if (outcome.code == 0 && !outcome.same_description(sound.outcome)) {
    report(__FILE__, __LINE__, place + ", another description");
  }
  if (!query_codes(wanted, sound.documented).contains(sizes)) {
    report(__FILE__, __LINE__, place + ", " + std::to_string(sizes) + " in the size query");
  }
}

}  // namespace

void check_flips(const Seed& seed, const std::vector<int>& patterns) {
  const Sound sound{load(seed.file), documented(seed.file)};
  CHECK_EQ(sound.outcome.code, 0);
  CHECK_EQ(sound.documented.load, 0);
  Bytes file = seed.file;
  auto places = sound.documented.tables;
  places.emplace_back(0, 256);
  for (const auto& [begin, end] : places) {
    for (size_t at = begin; at < end; ++at) {
      for (const int pattern : patterns) check_flip(sound, seed, file, at, pattern);
    }
  }
}

void check_cuts(const Seed& seed, size_t step) {
  Bytes cut = seed.file;
  for (size_t length = seed.file.size(); length-- > 0;) {
    cut.resize(length);
    if (length > seed.table_end && length % step != 0) continue;
    const Documented wanted = documented(cut);
    const bool probe = length < 4;
    const bool header = length < 256;
    CHECK_EQ(wanted.load, header ? 145006 : 145000);
    CHECK_EQ(load(cut).code, wanted.load);
    CHECK_EQ(load(cut, Entry::kLoadMemory).code, probe ? 145006 : header ? 100000 : 145000);
    CHECK_EQ(query(cut), wanted.query);
  }
}

namespace {

TEST(om_every_truncation_gives_the_documented_code) {
  for (const Seed& seed : all_seeds()) check_cuts(seed, 1);
}

TEST(om_short_memory_without_the_second_executor) {
  ::setenv("ENABLE_RUNTIME_V2", "0", 1);
  CHECK_EQ(load(Bytes(100, 0), Entry::kLoadMemory).code, 145006);
  ::unsetenv("ENABLE_RUNTIME_V2");
  CHECK_EQ(load(Bytes(100, 0), Entry::kLoadMemory).code, 100000);
}

TEST(om_trailing_bytes_are_refused) {
  for (Seed& seed : all_seeds()) {
    seed.file.push_back(0);
    CHECK_EQ(load(seed.file).code, 145000);
    CHECK_EQ(query(seed.file), 145000);
  }
}

TEST(om_every_byte_flip_in_header_and_table) {
  for (const Seed& seed : all_seeds()) check_flips(seed, {0x01, 0x80, 0xFF});
}

// Beyond the table nothing is promised but a code or a model: no crash, no hang.
TEST(om_byte_flips_in_the_content_do_no_harm) {
  for (const char* name : {"writer", "numbered", "gears"}) {
    const Seed seed = test::seed(name);
    for (size_t at = seed.table_end; at < seed.file.size(); ++at) {
      Bytes file = seed.file;
      file[at] ^= 0xFF;
      const base::Code code = load(file).code;
      CHECK(code == 0 || code == 500002);
      const base::Code sizes = query(file);
      CHECK(sizes == 0 || sizes == 545004);
    }
  }
}

// Cuts, repeats and overwrites pieces, then mends the length field so that the content is reached.
Bytes mutate(const Seed& seed, std::mt19937& random) {
  const auto pick = [&](size_t below) { return static_cast<size_t>(random() % below); };
  Bytes file = seed.file;
  for (size_t edits = 1 + pick(4); edits > 0; --edits) {
    const size_t at = 256 + pick(file.size() - 256);
    const size_t length = std::min(1 + pick(16), file.size() - at);
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    const Bytes piece(begin, end);
    switch (pick(3)) {
      case 0:
        std::generate(begin, end, [&] { return static_cast<uint8_t>(random()); });
        break;
      case 1:
        if (file.size() > 600) file.erase(begin, end);
        break;
      default:
        file.insert(begin, piece.begin(), piece.end());
    }
  }
  const uint64_t body = file.size() - 256;
  for (size_t i = 0; i < 4; ++i) {
    file[(seed.wide ? 184 : 76) + i] = static_cast<uint8_t>(body >> (8 * i));
  }
  return file;
}

TEST(om_random_mutations_do_no_harm) {
  const char* runs = std::getenv("ASCENDRT_FUZZ_RUNS");  // more for a longer hunt
  const int count = runs == nullptr ? 150 : std::atoi(runs);
  std::mt19937 random(20240229);
  const std::set<base::Code> codes = {0, 145000, 145006, 500002, 545004};
  for (const Seed& seed : all_seeds()) {
    for (int i = 0; i < count; ++i) {
      const Bytes file = mutate(seed, random);
      CHECK(codes.contains(load(file).code));
      CHECK(codes.contains(query(file)));
    }
  }
}

TEST(om_partition_counts) {
  const auto with_count = [](const char* name, uint8_t count) {
    Bytes file = seed(name).file;
    file[256] = count;
    return load(file).code;
  };
  CHECK_EQ(with_count("new_64bit", 0), 145000);
  CHECK_EQ(with_count("new_64bit", 9), 145000);
  CHECK_EQ(with_count("flow", 0), 145000);
  CHECK_EQ(with_count("flow", 9), 145006);  // a flow model may have so many; here they run out
}

TEST(om_no_data_after_the_table) {
  PackSpec spec;
  spec.blocks = {{{0, {}}, {1, {}}}};
  CHECK_EQ(load(pack(spec)).code, 145006);
}

TEST(om_parts_that_are_not_there) {
  const Bytes def = serialize_model_def(small_network());
  CHECK_EQ(load(pack({.blocks = {{{1, Bytes(512, 0)}, {2, {}}}}})).code, 500002);  // no MODEL_DEF
  CHECK_EQ(load(pack({.blocks = {{{0, def}, {2, {}}}}})).code, 500002);            // no weights
  CHECK_EQ(load(pack({.blocks = {{{0, def}, {1, Bytes(512, 0)}}}})).code, 0);      // no TASK_INFO
  CHECK_EQ(load(pack({.blocks = {{{0, def}, {1, Bytes(512, 0)}, {2, {0xFF}}}}})).code, 500002);
  CHECK_EQ(load(pack({.blocks = {{{0, {0xFF}}, {1, Bytes(512, 0)}}}})).code, 500002);
}

TEST(om_several_blocks_must_meet_the_end) {
  Bytes file = seed("multi_block").file;
  file[156] = 2;
  CHECK_EQ(load(file).code, 500002);
  file[156] = 4;
  CHECK_EQ(load(file).code, 500002);
}

TEST(om_bundles_are_refused_by_the_plain_load) {
  Bytes file = seed("new_64bit").file;
  file[82] = 5;
  CHECK_EQ(load(file).code, 500002);
  CHECK_EQ(query(file), 145000);
  CHECK_EQ(documented(file).load, 500002);
  CHECK_EQ(documented(file).query, 145000);
}

TEST(om_error_texts_say_what_the_file_is) {
  const auto text = [](Bytes file) {
    try {
      OmSource::from_memory(file.data(), file.size()).read("");
    } catch (const base::Error& error) {
      return error.text;
    }
    return std::string();
  };
  const auto has = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  Bytes zip(300, 0);
  zip[0] = 'P', zip[1] = 'K', zip[2] = 3, zip[3] = 4;
  CHECK(has(text(zip), "OM2"));
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\n" + std::string(250, 'a');
  CHECK(has(text(Bytes(pointer.begin(), pointer.end())), "Git LFS"));
  Bytes network(300, 0);
  network[0] = 0x08, network[1] = 8, network[2] = 0x3a;  // ir_version 8, then the graph
  CHECK(has(text(network), "an ONNX network"));
  CHECK(has(text(Bytes(network.begin(), network.begin() + 60)), "an ONNX network"));
  network[2] = 0;
  CHECK(has(text(network), "not an offline model"));
  Bytes file = seed("new_64bit").file;
  file.pop_back();
  CHECK(has(text(file), "truncated"));
  file = seed("new_64bit").file;
  file[80] = 1;
  file[seed("new_64bit").table_end + 300] ^= 0xFF;
  CHECK(text(file).empty() || has(text(file), "encrypted"));
}

Bytes nested_graphs(int depth) {
  Bytes inner;
  for (int i = 0; i < depth; ++i) {
    wire::Writer attr, entry, graph;
    attr.bytes(13, inner);  // AttrDef.g
    entry.string(1, "g");
    entry.message(2, attr);
    graph.message(11, entry);  // GraphDef.attr
    inner = graph.take();
  }
  wire::Writer model;
  model.bytes(7, inner);
  return model.take();
}

base::Code parse_code(const Bytes& def) {
  return load(pack({.blocks = {{{0, def}, {1, Bytes(512, 0)}}}})).code;
}

TEST(om_deep_nesting_is_refused) {
  CHECK_EQ(parse_code(nested_graphs(20)), 0);
  CHECK_EQ(parse_code(nested_graphs(40)), 500002);
  CHECK_EQ(parse_code(nested_graphs(2000)), 500002);
}

TEST(om_floods_of_objects_are_refused) {
  // Two bytes per op: an op takes some hundred bytes in memory.
  Bytes graph;
  for (int i = 0; i < 2'000'000; ++i) {
    graph.push_back(6 << 3 | 2);
    graph.push_back(0);
  }
  wire::Writer model;
  model.bytes(7, graph);
  CHECK_EQ(parse_code(model.take()), 500002);
}

TEST(om_long_dictionary_values_cannot_be_multiplied) {
  Model m = small_network();
  m.attrs.set("om_compress_version", int64_t{1});
  m.attrs.set("attr_name_enum", std::vector<std::string>{"a"});
  m.attrs.set("attr_value_enum", std::vector<std::string>{std::string(1 << 20, 'v')});
  m.attrs.set("attrs_use_string_value", std::vector<bool>{true});
  Op& relu = m.graphs[0].ops[3];
  relu.attrs.set(std::string("\0\x01", 2), std::vector<int64_t>(3, 0));
  CHECK_EQ(parse_code(serialize_model_def(m)), 0);
  relu.attrs.set(std::string("\0\x01", 2), std::vector<int64_t>(200'000, 0));
  CHECK_EQ(parse_code(serialize_model_def(m)), 500002);
}

TEST(om_bad_dictionary_numbers) {
  const auto with = [](const std::string& name, AttrValue value) {
    Model m = numbered_network();
    m.graphs[0].ops[3].attrs.append(name, std::move(value));
    return parse_code(serialize_model_def(m));
  };
  CHECK_EQ(with(std::string(1, '\0'), int64_t{0}), 500002);              // no digits
  CHECK_EQ(with(std::string("\0\x7f\x7f\x7f", 4), int64_t{0}), 500002);  // beyond the list
  CHECK_EQ(with(std::string("\0\xff", 2), int64_t{0}), 500002);          // no digit
  CHECK_EQ(with("plain", int64_t{0}), 0);
  Model short_list = numbered_network();
  short_list.attrs.set("attrs_use_string_value", std::vector<bool>{});
  CHECK_EQ(parse_code(serialize_model_def(short_list)), 500002);
}

TEST(om_repeated_map_keys_count_once) {
  Model m = small_network();
  m.graphs[0].ops[3].attrs.append("axis", int64_t{7});
  const Bytes def = serialize_model_def(m);
  Model back;
  parse_model_def(def, back);
  CHECK_EQ(back.root()->find_op("relu")->attrs.int_or("axis", 0), 7);
  CHECK_EQ(back.root()->find_op("relu")->attrs.items().size(),
           m.graphs[0].ops[3].attrs.items().size() - 1);
}

TEST(om_inout_info_truncations) {
  const Model gears = gear_network();
  const Bytes all = serialize_inout_info({gears.inputs, gears.outputs, gears.gears});
  int refused = 0;
  for (size_t length = 0; length < all.size(); ++length) {
    try {
      parse_inout_info({all.data(), length});
    } catch (const wire::Malformed&) {
      ++refused;
    }
  }
  CHECK(refused > static_cast<int>(all.size()) - 10);  // all but the ends of blocks
}

base::Code wire_fault(const Bytes& message) {
  wire::Budget budget(message.size());
  wire::Reader reader(message, budget, "test");
  try {
    while (reader.next()) {
    }
    return 0;
  } catch (const wire::Malformed&) {
    return 1;
  }
}

TEST(wire_bad_encodings) {
  CHECK_EQ(wire_fault({}), 0);
  CHECK_EQ(wire_fault({0x08, 0x01}), 0);
  CHECK_EQ(wire_fault({0x08}), 1);                       // no value
  CHECK_EQ(wire_fault({0x00, 0x01}), 1);                 // field number 0
  CHECK_EQ(wire_fault({0x0B}), 1);                       // group
  CHECK_EQ(wire_fault({0x0A, 0x05, 0x00}), 1);           // short bytes
  CHECK_EQ(wire_fault({0x0D, 0, 0, 0}), 1);              // short fixed32
  CHECK_EQ(wire_fault({0x09, 0, 0, 0, 0, 0, 0, 0}), 1);  // short fixed64
  CHECK_EQ(wire_fault({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}), 0);
  CHECK_EQ(wire_fault({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}), 1);
  CHECK_EQ(wire_fault({0xFA, 0xFF, 0xFF, 0xFF, 0x7F, 0x00}), 1);  // field number too large
  CHECK_EQ(wire_fault({0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}), 1);
}

TEST(wire_packed_and_single_values_are_the_same) {
  const Bytes single = {0x08, 0x01, 0x08, 0x96, 0x01};
  const Bytes packed = {0x0A, 0x03, 0x01, 0x96, 0x01};
  for (const Bytes& message : {single, packed}) {
    wire::Budget budget(message.size());
    wire::Reader reader(message, budget, "test");
    std::vector<int64_t> values;
    while (reader.next()) reader.ints(values);
    CHECK(values == (std::vector<int64_t>{1, 150}));
  }
}

}  // namespace
}  // namespace ascendrt::test
