// Offline models that other tools made. Runs when ASCENDRT_OM_CORPUS names a folder with
// manifest.tsv.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "model/om_container.hpp"
#include "model/om_proto.hpp"
#include "om_seeds.hpp"
#include "test.hpp"

namespace ascendrt::test {
namespace {

using namespace model;  // NOLINT

using Row = std::map<std::string, std::string>;

const char* corpus() { return std::getenv("ASCENDRT_OM_CORPUS"); }

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<Row> manifest() {
  if (corpus() == nullptr) return {};
  std::ifstream file(std::filesystem::path(corpus()) / "manifest.tsv");
  std::string line;
  std::getline(file, line);
  const auto columns = split(line, "\t");
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const auto cells = split(line, "\t");
    Row row;
    for (size_t i = 0; i < columns.size() && i < cells.size(); ++i) row[columns[i]] = cells[i];
    rows.push_back(row);
  }
  CHECK(!rows.empty());
  return rows;
}

std::string path_of(const Row& row) { return std::filesystem::path(corpus()) / row.at("file"); }

// Phone-side files whose launch list is of another make: described, not loaded.
bool foreign_tasks(const Row& row, const HeaderInfo& header) {
  constexpr uint8_t kLite = 4;
  return row.at("kind") == "kirin" && header.model_type == kLite;
}

std::map<std::string, int> count_types(const Model& model) {
  std::map<std::string, int> counts;
  for (const Graph& graph : model.graphs) {
    for (const Op& op : graph.ops) ++counts[op.type];
  }
  for (const Model& part : model.parts) {
    for (const auto& [type, count] : count_types(part)) counts[type] += count;
  }
  return counts;
}

// "FLOAT[1, 3]/NCHW" of a physical descriptor, as the manifest writes it.
std::string text_of(const TensorDesc& desc) {
  std::string dims;
  for (const int64_t dim : desc.dims) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  return std::string(dtype_name(desc.dtype)) + "[" + dims + "]/" + desc.layout;
}

std::string first_words(const std::string& text) {
  const size_t slash = text.find(']');
  return text.substr(0, text.find(' ', slash));
}

void check_inputs(const Row& row, const Model& model) {
  const auto expected = split(row.at("inputs"), "; ");
  CHECK_EQ(model.inputs.size(), expected.size());
  for (size_t i = 0; i < expected.size() && i < model.inputs.size(); ++i) {
    const Op* op = model.root()->find_op(model.inputs[i].name);
    CHECK(op != nullptr && !op->output_descs.empty());
    if (op == nullptr || op->output_descs.empty()) continue;
    CHECK_EQ(op->name + " " + text_of(op->output_descs[0]), first_words(expected[i]));
    CHECK(model.inputs[i].dims == op->input_descs[0].dims);
    CHECK_EQ(model.inputs[i].dtype, op->input_descs[0].dtype);
  }
}

void check_outputs(const Row& row, const Model& model) {
  const auto expected = split(row.at("outputs"), "; ");
  CHECK_EQ(model.outputs.size(), expected.size());
  for (const Op& op : model.root()->ops) {
    if (op.type != "NetOutput") continue;
    for (size_t i = 0; i < expected.size() && i < op.input_descs.size(); ++i) {
      const std::string source = op.src_names[i] + ":" + std::to_string(op.src_indices[i]);
      CHECK_EQ(source + " " + text_of(op.input_descs[i]), first_words(expected[i]));
      CHECK(model.outputs[i].dims == op.input_descs[i].dims);
      CHECK(model.outputs[i].name.find(std::to_string(op.src_indices[i])) != std::string::npos);
    }
  }
}

void check_op_types(const Row& row, const Model& model) {
  std::map<std::string, int> expected;
  for (const std::string& each : split(row.at("op_types"), ", ")) {
    const size_t colon = each.rfind(':');
    expected[each.substr(0, colon)] = std::stoi(each.substr(colon + 1));
  }
  CHECK(count_types(model) == expected);
}

void check_header(const Row& row, const OmSource& source) {
  const Container container = read_container(source.bytes(), source.origin());
  const std::string& text = row.at("header/table/type/model_num");
  CHECK_EQ(container.header.version, text.starts_with("v1") ? kVersionOld : kVersionNew);
  CHECK_EQ(container.wide_table, text.find("64bit") != std::string::npos);
  CHECK_EQ(container.header.model_num, static_cast<uint32_t>(text.back() - '0'));
}

void check_file(const Row& row) {
  const OmSource source = OmSource::from_file(path_of(row));
  check_header(row, source);
  const Model described = source.read_description();
  check_inputs(row, described);
  check_outputs(row, described);
  if (foreign_tasks(row, described.header)) {
    CHECK_THROWS_CODE(source.read(""), 500002);
    return check_op_types(row, described);
  }
  const Model model = source.read("");
  check_op_types(row, model);
  CHECK(model.inputs == described.inputs);
  const std::string& soc = row.at("soc");
  CHECK_EQ(model.soc_version, soc.starts_with("none") ? std::string() : soc);
  if (!model.soc_version.empty()) CHECK_THROWS_CODE(source.read("Ascend910B1"), 500002);
  if (row.at("kind") != "ascend") return;
  CHECK_EQ(static_cast<int64_t>(source.query_sizes().work), model.attrs.int_or("memory_size", -1));
  CHECK_EQ(static_cast<int64_t>(source.query_sizes().weight),
           model.attrs.int_or("weight_size", -1));
}

TEST(om_corpus_is_described_as_its_manifest_says) {
  for (const Row& row : manifest()) {
    const int before = failures();
    if (row.at("kind") == "not-om") {
      CHECK_THROWS_CODE(OmSource::from_file(path_of(row)).read(""), 145000);
    } else {
      check_file(row);
    }
    if (failures() != before) report(row.at("file").c_str(), 0, "differs from the manifest");
  }
}

TEST(om_corpus_survives_being_written_again) {
  for (const Row& row : manifest()) {
    if (row.at("kind") == "not-om") continue;
    const Model model = OmSource::from_file(path_of(row)).read_description();
    Model again;
    parse_model_def(serialize_model_def(model), again);
    if (!(again.graphs == model.graphs)) report(row.at("file").c_str(), 0, "graphs differ");
    CHECK(again.attrs == model.attrs);
  }
}

Seed seed_of(const Row& row) {
  const OmSource source = OmSource::from_file(path_of(row));
  Seed seed;
  seed.name = row.at("file");
  seed.file.assign(source.bytes().begin(), source.bytes().end());
  seed.wide = read_container(source.bytes(), source.origin()).wide_table;
  seed.table_head = seed.wide ? 8 : 4;
  seed.table_row = seed.wide ? 24 : 12;
  seed.table_end = 256 + seed.table_head + seed.table_row * seed.file[256];
  return seed;
}

// The three files whose damage is looked at in full; of the others a few places.
bool is_small(const Seed& seed) {
  return seed.name.starts_with("modelbox_2d_2048_stage1.") || seed.name.starts_with("ge_");
}

TEST(om_corpus_damaged) {
  for (const Row& row : manifest()) {
    if (row.at("kind") == "not-om") continue;
    const Seed seed = seed_of(row);
    check_cuts(seed, is_small(seed) ? 1 : seed.file.size() / 100 + 1);
    const OmSource whole = OmSource::from_memory(seed.file.data(), seed.file.size());
    if (foreign_tasks(row, whole.read_description().header)) continue;
    if (is_small(seed)) {
      check_flips(seed, {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF});
    } else {
      check_flips(seed, {0x80});
    }
  }
}

// Every other value of every byte: about a minute, by `make om-damage`.
TEST(om_corpus_damaged_in_every_way) {
  if (std::getenv("ASCENDRT_OM_DAMAGE") == nullptr) return;
  std::vector<int> patterns(255);
  std::iota(patterns.begin(), patterns.end(), 1);
  size_t files = 0;
  for (const Row& row : manifest()) {
    if (row.at("kind") == "not-om") continue;
    const Seed seed = seed_of(row);
    if (!is_small(seed)) continue;
    check_flips(seed, patterns);
    ++files;
  }
  CHECK_EQ(files, size_t{3});
}

}  // namespace
}  // namespace ascendrt::test
