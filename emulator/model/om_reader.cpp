// Reading offline models. Owns: file access, the order of the steps, codes per partition.
#include "model/om_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/config.hpp"
#include "base/error.hpp"
#include "gen/soc.inc"
#include "memory/budget.hpp"
#include "memory/fault.hpp"
#include "model/om_container.hpp"
#include "model/om_inout.hpp"
#include "model/om_proto.hpp"

namespace ascendrt::model {
namespace {

class File {
 public:
  File(const std::string& path, const char* what) : path_(path), what_(what) {
    // Non-blocking, so that a pipe without a writer is refused instead of waited for.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) unreadable(std::strerror(errno));
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }

  size_t size() const {
    struct stat info = {};
    if (::fstat(fd_, &info) != 0) unreadable(std::strerror(errno));
    if (!S_ISREG(info.st_mode)) unreadable("not a regular file");
    return static_cast<size_t>(info.st_size);
  }

  // The number of bytes that were there: fewer when the file shrank meanwhile, and then a length
  // test will tell.
  size_t read(uint8_t* to, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = ::read(fd_, to + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) unreadable(std::strerror(errno));
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  [[noreturn]] void unreadable(const char* why) const {
    fail_model(kGePathInvalid, std::string(what_) + " '" + path_ + "' cannot be read: " + why +
                                   "; check the path, the working directory and the permissions");
  }

  const std::string& path_;
  const char* what_;
  int fd_ = -1;
};

// What the header tells of a file whose content cannot be read.
std::string hint_of(const HeaderInfo& header) {
  if (header.encrypted) return "; the header says that the file is encrypted";
  if (!is_phone_file(header)) return "";
  return "; the file was made by the phone-side toolkit (version " + header.platform_version +
         "), not for this product";
}

// Runs a parser over one partition; a fault in it becomes `code` with the place.
template <class F>
auto parse_part(int32_t code, const std::string& where, const std::string& hint, F&& parse) {
  try {
    return parse();
  } catch (const wire::Malformed& fault) {
    fail_model(code, where + " is not readable at its offset " + std::to_string(fault.offset) +
                         ": " + fault.text + hint);
  }
}

// Every constant must have its bytes, else a damaged file would only be found while it runs.
void check_constants(const Model& model, const std::string& origin) {
  for (const Graph& graph : model.graphs) {
    for (const Op& op : graph.ops) {
      if (op.constant() == nullptr) continue;
      const TensorDesc& desc = op.constant()->desc;
      const int64_t size = desc.weight_size > 0 ? desc.weight_size : desc.size;
      if (size > 0 && model.constant_data(op).empty()) {
        fail_model(kGeFailure, origin + ": constant '" + op.name + "' wants " +
                                   std::to_string(size) + " bytes at offset " +
                                   std::to_string(desc.data_offset) +
                                   " of WEIGHTS_DATA, which has " +
                                   std::to_string(model.weights.bytes.size()) + " bytes");
      }
    }
  }
}

class ContentReader {
 public:
  ContentReader(const std::string& origin, std::shared_ptr<const void> owner,
                std::shared_ptr<const FileBytes> file)
      : origin_(origin), owner_(std::move(owner)), file_(std::move(file)) {}

  Model read(const Container& container, const std::string& device_soc) {
    Model root = read_block(container, 0);
    describe_root(root, container.blocks.front());
    check_soc(root, device_soc);
    for (size_t i = 1; i < container.blocks.size(); ++i) {
      root.parts.push_back(read_block(container, i));
    }
    return root;
  }

  Model read_description(const Container& container) {
    const Block& block = container.blocks.front();
    Model root;
    root.header = container.header;
    read_model_def(block, origin_ + ": partition ", root);
    keep_weights(block, root);
    describe_root(root, block);
    prefer_inout_info(root, block);
    return root;
  }

 private:
  Model read_block(const Container& container, size_t index) {
    const Block& block = container.blocks[index];
    const std::string where =
        origin_ + (index == 0 ? "" : ", sub model " + std::to_string(index)) + ": partition ";
    Model model;
    model.header = container.header;
    read_model_def(block, where, model);
    keep_weights(block, model);
    const auto tasks = block.find(kPartTaskInfo);
    if (!tasks.empty()) {
      model.task_info = parse_part(kGeFailure, where + "TASK_INFO", hint_of(model.header),
                                   [&] { return parse_task_info(tasks); });
    }
    check_constants(model, origin_);
    return model;
  }

  void read_model_def(const Block& block, const std::string& where, Model& model) {
    const auto bytes = block.find(kPartModelDef);
    if (bytes.empty()) fail_model(kGeFailure, where + "MODEL_DEF is missing or empty");
    parse_part(kGeFailure, where + "MODEL_DEF", hint_of(model.header), [&] {
      parse_model_def(bytes, model);
      auto own = take_dictionary(model);
      if (!dictionary_) dictionary_ = std::move(own);  // that of the first block serves all
      if (dictionary_) expand_attributes(model, *dictionary_, bytes.size());
    });
    if (model.graphs.empty()) fail_model(kGeFailure, where + "MODEL_DEF holds no graph");
  }

  void keep_weights(const Block& block, Model& model) const {
    const auto weights = block.find(kPartWeights);
    if (owner_ != nullptr) {
      model.weights = Blob{weights, owner_, {}};
      if (file_ != nullptr) {
        model.weights.forget = [file = file_](auto part) { file->forget(part); };
      }
    } else {
      model.weights = Blob::own(Bytes(weights.begin(), weights.end()));
    }
  }

  // The graph decides. The description partition only fills in gears whose ops a file may not show.
  static void describe_root(Model& model, const Block& block) {
    describe(model);
    const auto bytes = block.find(kPartInOutInfo);
    if (bytes.empty() || model.gears.kind != GearKind::kNone) return;
    try {
      model.gears = parse_inout_info(bytes).gears;
    } catch (const wire::Malformed&) {  // NOLINT(bugprone-empty-catch)
      // Loading does not need it, and real loaders do not look at it.
    }
  }

  // A description that is asked for without loading comes from its own partition, where there is a
  // sound one. src: hicann/ge api/acl aclmdlGetDescFromFile, aclmdlGetDescFromMem.
  static void prefer_inout_info(Model& model, const Block& block) {
    const auto bytes = block.find(kPartInOutInfo);
    if (bytes.empty()) return;
    try {
      InOutInfo info = parse_inout_info(bytes);
      model.inputs = std::move(info.inputs);
      model.outputs = std::move(info.outputs);
    } catch (const wire::Malformed&) {  // NOLINT(bugprone-empty-catch)
      // The graph has told it.
    }
  }

  void check_soc(const Model& model, const std::string& device_soc) const {
    if (device_soc.empty() || model.soc_version.empty()) return;
    if (soc_compatible(model.soc_version, device_soc)) return;
    fail_model(kGeFailure, "E10001: " + origin_ + " was built for " + model.soc_version +
                               ", the device is " + device_soc +
                               "; convert the model again for this device, or choose the device");
  }

  const std::string& origin_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const FileBytes> file_;
  std::optional<AttrDictionary> dictionary_;
};

}  // namespace

OmSource::OmSource(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                   std::string origin)
    : bytes_(bytes), owner_(std::move(owner)), origin_(std::move(origin)) {}

namespace {

// A file may be far larger than what is on the disk.
void want_room(const std::string& path, const char* what, size_t size) {
  constexpr size_t kWorthAsking = size_t{64} << 20;
  if (size >= kWorthAsking) memory::want_host(size, std::string(what) + " '" + path + "'");
}

}  // namespace

Bytes read_model_file(const std::string& path, const char* what) {
  const File file(path, what);
  const size_t size = file.size();
  want_room(path, what, size);
  Bytes data(size);
  data.resize(file.read(data.data(), size));
  return data;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

OmSource OmSource::from_file(const std::string& path) {
  const File file(path, "model file");
  const size_t size = file.size();
  std::array<uint8_t, kHeaderSize> start = {};
  const size_t known = file.read(start.data(), std::min(size, start.size()));
  // Of what is no model, the start is enough to say so.
  const bool is_model =
      known == kHeaderSize && load_le<uint32_t>(start, HeaderAt::kMagic) == kOmMagic;
  const size_t rest = is_model ? size - known : 0;
  want_room(path, "model file", rest);
  auto data = std::make_shared<FileBytes>(known + rest);
  std::copy_n(start.begin(), known, data->data());
  data->shorten(known + file.read(data->data() + known, rest));
  OmSource source(data->bytes(), data, "model file '" + path + "'");
  source.file_ = std::move(data);
  source.path_ = path;
  source.probe();
  return source;
}

OmSource OmSource::from_memory(const void* data, size_t size) {
  memory::check_readable(data, size, "model");
  OmSource source({static_cast<const uint8_t*>(data), size}, nullptr,
                  "model in memory (" + std::to_string(size) + " bytes)");
  source.probe();
  return source;
}

OmSource OmSource::part_of(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                           const std::string& origin, const std::string& path) {
  OmSource source(bytes, std::move(owner), origin);
  source.path_ = path;
  return source;
}

void OmSource::probe() const {
  if (bytes_.size() < sizeof(kOmMagic)) {
    fail_model(kGeDataSizeInvalid, origin_ + " has " + std::to_string(bytes_.size()) +
                                       " bytes, an offline model has more than " +
                                       std::to_string(kHeaderSize));
  }
}

void OmSource::check_header(Entry entry) const {
  if (bytes_.size() >= kHeaderSize) return;
  int32_t code = entry == Entry::kQuerySize ? kGeParamInvalid : kGeDataSizeInvalid;
  // The acl layer finds it for memory, while it asks which of two executors the model is for.
  if (entry == Entry::kLoadMemory && base::env("ENABLE_RUNTIME_V2") != "0") code = kAclInvalidParam;
  fail_model(code,
             origin_ + " has " + std::to_string(bytes_.size()) + " bytes, the header alone has " +
                 std::to_string(kHeaderSize) + "; it " +
                 (looks_like_onnx(bytes_) ? kOnnxAdvice : "is truncated or not an offline model"));
}

bool OmSource::is_dynamic() const {
  if (bytes_.size() < kHeaderSize) return false;
  const HeaderInfo header = read_header(bytes_);
  return header.model_num > 1 || header.unknown_shape;
}

Model OmSource::read(const std::string& device_soc) const {
  check_header(Entry::kLoadFile);
  const Container container = read_container(bytes_, origin_);
  return ContentReader(origin_, owner_, file_).read(container, device_soc);
}

bool soc_compatible(const std::string& model_soc, const std::string& device_soc) {
  if (model_soc == device_soc) return true;
  const gen::Soc* device = gen::find_soc(device_soc);
  if (device == nullptr) return false;
  const gen::Soc* wanted = gen::find_soc(model_soc);
  // Ascend910B is a chip of the 910 family as well as the name of another family: the chip counts.
  return (wanted != nullptr ? std::string_view(wanted->short_name) : model_soc) ==
         device->short_name;
}

Model OmSource::read_description() const {
  check_header(Entry::kLoadFile);
  return ContentReader(origin_, owner_, file_).read_description(read_container(bytes_, origin_));
}

QuerySizes OmSource::query_sizes() const {
  check_header(Entry::kQuerySize);
  if (read_header(bytes_).model_type == kTypeBundle) {  // the real reader trips over its length
    fail_model(kGeParamInvalid,
               origin_ + " is a bundle of several models; ask with aclmdlBundleQueryInfoFrom*");
  }
  const Container container = read_container(bytes_, origin_);
  const bool dynamic = is_dynamic();
  const Block& root = container.blocks.front();
  if (!dynamic && root.parts.size() == 1) {
    fail_model(kGeParamInvalid, origin_ +
                                    " has a single partition: it describes a model but holds "
                                    "nothing to run, so it has no sizes");
  }
  QuerySizes sizes;
  for (const Block& block : container.blocks) sizes.weight += block.find(kPartWeights).size();
  const auto tasks = root.find(kPartTaskInfo);
  if (!dynamic && !tasks.empty()) {
    sizes.work =
        parse_part(kGeTaskPartition, origin_ + ": partition TASK_INFO", hint_of(container.header),
                   [&] { return parse_task_info(tasks).memory_size; });
  }
  return sizes;
}

}  // namespace ascendrt::model
