// The container of an offline model. Owns: the walk over partition tables.
#include "model/om_container.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.hpp"

namespace ascendrt::model {
namespace {

constexpr uint32_t kMaxParts = 8;         // {1, 3, 4, 5} + up to 3 optional ones
constexpr uint32_t kMaxFlowParts = 4096;  // a flow model holds one partition per sub model

std::string text_field(std::span<const uint8_t> file, size_t at, size_t width) {
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
  return std::string(begin, std::find(begin, begin + static_cast<std::ptrdiff_t>(width), 0));
}

// The old layout has a version text ("1.11.z.0") where the new one counts sub models. Told apart by
// content as well as by the version word, because readers accept any version word.
bool has_old_layout(std::span<const uint8_t> file) {
  if (load_le<uint32_t>(file, HeaderAt::kVersion) < kVersionNew) return true;
  const auto at = file.subspan(HeaderAt::kOldPlatform, 4);
  return std::all_of(at.begin(), at.end(), [](uint8_t c) { return c == '.' || std::isdigit(c); });
}

struct Entry {
  uint32_t id;
  uint64_t size;
};

struct Table {
  std::vector<Entry> entries;
  uint64_t bytes = 0;
};

class Walker {
 public:
  Walker(std::span<const uint8_t> file, const HeaderInfo& header, const std::string& origin)
      : file_(file), header_(header), origin_(origin) {}

  bool wide() const { return wide_; }
  void choose_table();
  Block next_block();
  uint64_t position() const { return position_; }
  bool has_table_head() const { return file_.size() - position_ >= head_bytes(); }

 private:
  uint64_t head_bytes() const { return wide_ ? 8 : 4; }
  Table read_table() const;

  std::span<const uint8_t> file_;
  const HeaderInfo& header_;
  const std::string& origin_;
  bool wide_ = false;
  uint64_t position_ = kHeaderSize;
};

// 64 bit tables come with the 64 bit length and with flow models. Phone-side files, whose toolkit
// has versions from 3 on, reuse the flow number for another kind and keep the old header and its
// table.
void Walker::choose_table() {
  const bool phone = has_old_layout(file_) && is_phone_file(header_);
  wide_ = load_le<uint64_t>(file_, HeaderAt::kModelLength) != 0 ||
          (header_.model_type == kTypeFlow && !phone);
}

Table Walker::read_table() const {
  const uint64_t head = head_bytes();
  const uint64_t row = wide_ ? 24 : 12;
  const uint64_t left = file_.size() - position_;
  const std::string where = origin_ + ": partition table at offset " + std::to_string(position_);
  if (!has_table_head())
    fail_model(kGeDataSizeInvalid, where + " lies outside the file; is it truncated?");
  const auto count = load_le<uint32_t>(file_, position_);
  const uint32_t most = header_.model_type == kTypeFlow ? kMaxFlowParts : kMaxParts;
  if (count == 0 || count > most) {
    fail_model(kGeParamInvalid, where + " claims " + std::to_string(count) +
                                    " partitions, a reader accepts 1 to " + std::to_string(most) +
                                    "; the file is damaged or not an Ascend offline model");
  }
  Table table;
  table.bytes = head + row * count;
  if (left <= table.bytes) {
    fail_model(kGeDataSizeInvalid, where + " of " + std::to_string(count) +
                                       " entries leaves no room for data; is the file truncated?");
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(position_ + head + row * i);
    const uint64_t size =
        wide_ ? load_le<uint64_t>(file_, at + 16) : load_le<uint32_t>(file_, at + 8);
    table.entries.push_back({load_le<uint32_t>(file_, at), size});
  }
  return table;
}

// Partitions lie one behind the other; the offsets in the table are not used.
Block Walker::next_block() {
  const Table table = read_table();
  position_ += table.bytes;
  Block block;
  for (const Entry& entry : table.entries) {
    const uint64_t left = file_.size() - position_;
    if (entry.size > left) {
      fail_model(kGeDataSizeInvalid, origin_ + ": partition " + part_name(entry.id) +
                                         " at offset " + std::to_string(position_) + " claims " +
                                         std::to_string(entry.size) + " bytes, the file has " +
                                         std::to_string(left) +
                                         " left; it is truncated or its table is damaged");
    }
    block.parts.push_back(
        {entry.id, file_.subspan(static_cast<size_t>(position_), static_cast<size_t>(entry.size))});
    position_ += entry.size;
  }
  return block;
}

// What a file without the magic most likely is, for the error text.
std::string guess_kind(std::span<const uint8_t> file) {
  const std::string start(file.begin(), file.begin() + 4);
  if (start == std::string("PK\x03\x04")) {
    return "it is a zip archive, probably an OM2 model (generated code), which is not supported "
           "here; "
           "export it in the classic OM form";
  }
  if (looks_like_onnx(file)) return std::string("it ") + kOnnxAdvice;
  const auto probe = file.first(std::min<size_t>(file.size(), 64));
  const bool text = std::all_of(probe.begin(), probe.end(),
                                [](uint8_t c) { return std::isprint(c) || std::isspace(c); });
  if (text) {
    return "it is a text file, perhaps the place-holder of a Git LFS object or of a symbolic link; "
           "fetch the real file";
  }
  return "it is not an offline model, or it is encrypted as a whole by an application; "
         "give the file that the converter wrote";
}

void check_header(std::span<const uint8_t> file, const HeaderInfo& header,
                  const std::string& origin) {
  if (load_le<uint32_t>(file, HeaderAt::kMagic) != kOmMagic) {
    fail_model(kGeParamInvalid, origin + " does not start with \"IMOD\": " + guess_kind(file));
  }
  // Before the length, which counts differently in bundles.
  if (header.model_type == kTypeBundle) {
    fail_model(kGeFailure,
               origin + " is a bundle of several models; load it with aclmdlBundleLoad*");
  }
  const auto narrow = load_le<uint32_t>(file, HeaderAt::kLength);
  const auto wide = load_le<uint64_t>(file, HeaderAt::kModelLength);
  const uint64_t length = wide != 0 ? wide : narrow;
  const uint64_t body = file.size() - kHeaderSize;
  if (length != body) {
    fail_model(kGeParamInvalid,
               origin + ": the header promises " + std::to_string(length) +
                   " bytes behind it, there are " + std::to_string(body) + "; " +
                   (length > body ? "the file is truncated" : "there are bytes behind the end"));
  }
}

}  // namespace

// ModelProto begins with its version, then the producer, the domain, opsets or the graph.
bool looks_like_onnx(std::span<const uint8_t> file) {
  constexpr std::string_view kSecondTags = "\x12\x1a\x22\x28\x32\x3a\x42";
  return file.size() > 2 && file[0] == 0x08 && file[1] < 0x20 &&
         kSecondTags.find(static_cast<char>(file[2])) != std::string_view::npos;
}

void fail_model(int32_t code, const std::string& text) {
  base::fail(code, text, base::Layer::kAcl);
}

const char* part_name(uint32_t id) {
  switch (id) {
    case kPartModelDef:
      return "MODEL_DEF";
    case kPartWeights:
      return "WEIGHTS_DATA";
    case kPartTaskInfo:
      return "TASK_INFO";
    case kPartKernels:
      return "TBE_KERNELS";
    case kPartFlowModel:
      return "FLOW_MODEL";
    case kPartInOutInfo:
      return "MODEL_INOUT_INFO";
    case kPartBundleModel:
      return "BUNDLE_MODEL_INFO";
    case kPartBundleVariables:
      return "BUNDLE_MODEL_VAR_INFO";
    default:
      return "of another kind";
  }
}

std::span<const uint8_t> Block::find(uint32_t id) const {
  for (const Part& part : parts) {
    if (part.id == id) return part.bytes;
  }
  return {};
}

bool is_phone_file(const HeaderInfo& header) { return header.platform_version.starts_with("3."); }

HeaderInfo read_header(std::span<const uint8_t> file) {
  HeaderInfo header;
  header.version = load_le<uint32_t>(file, HeaderAt::kVersion);
  header.model_type = file[HeaderAt::kType];
  header.encrypted = file[HeaderAt::kEncrypt] != 0;
  header.name = text_field(file, HeaderAt::kName, HeaderAt::kNameBytes);
  header.ir_version = load_le<uint32_t>(file, HeaderAt::kIrVersion);
  if (has_old_layout(file)) {
    header.platform_version = text_field(file, HeaderAt::kOldPlatform, HeaderAt::kPlatformBytes);
    return header;
  }
  header.model_num = load_le<uint32_t>(file, HeaderAt::kModelNum);
  header.platform_version = text_field(file, HeaderAt::kPlatform, HeaderAt::kPlatformBytes);
  header.unknown_shape = file[HeaderAt::kUnknownShape] != 0;
  return header;
}

Container read_container(std::span<const uint8_t> file, const std::string& origin) {
  Container container;
  container.header = read_header(file);
  check_header(file, container.header, origin);
  Walker walker(file, container.header, origin);
  walker.choose_table();
  container.wide_table = walker.wide();
  const bool several = container.header.model_num > 1 || container.header.unknown_shape;
  const uint32_t count = several ? std::max<uint32_t>(container.header.model_num, 1) : 1;
  container.blocks.push_back(walker.next_block());
  // What cannot even be the head of a further table is an end that does not fit the count.
  while (container.blocks.size() < count && walker.has_table_head()) {
    container.blocks.push_back(walker.next_block());
  }
  if (several && (container.blocks.size() < count || walker.position() != file.size())) {
    fail_model(kGeFailure, origin + ": the header promises " + std::to_string(count) +
                               " sub models, " + std::to_string(container.blocks.size()) +
                               " of them end at offset " + std::to_string(walker.position()) +
                               " of " + std::to_string(file.size()));
  }
  return container;
}

}  // namespace ascendrt::model
