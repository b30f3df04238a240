#include "core/runtime.hpp"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/similar.hpp"
#include "core/config_file.hpp"
#include "core/cost.hpp"
#include "core/init_callback.hpp"
#include "core/load.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

constexpr const char* kDefaultSoc = "Ascend910B1";
constexpr int64_t kMaxDevices = 64;  // src: hicann/runtime RT_MAX_DEV_NUM
constexpr const char* kVisibleDevices = "ASCEND_RT_VISIBLE_DEVICES";

std::atomic<Runtime*> g_runtime{nullptr};

const gen::Soc& find_soc(const std::string& name) {
  std::vector<std::string_view> known;
  for (const gen::Soc& soc : gen::kSocs) {
    if (name == soc.name) return soc;
    known.emplace_back(soc.name);
  }
  base::fail(ACL_ERROR_INTERNAL_ERROR,
             "ASCENDRT_SOC='" + name + "' is no known SoC" +
                 base::did_you_mean(name, known, "",
                                    "; names are like Ascend910B1, Ascend910_9391, Ascend310P3 or "
                                    "Ascend310B4, docs/emulation.md lists them"));
}

// The next comma-separated entry as a number; nothing when it is none.
std::optional<int32_t> entry_number(std::string_view entry) {
  const size_t first = entry.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::nullopt;
  entry = entry.substr(first, entry.find_last_not_of(' ') - first + 1);
  int32_t value = 0;
  const auto [stop, status] = std::from_chars(entry.data(), entry.data() + entry.size(), value);
  if (status != std::errc() || stop != entry.data() + entry.size()) return std::nullopt;
  return value;
}

// While functions of the client run inside aclInit or aclFinalize.
class Busy {
 public:
  explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool& flag_;
};

}  // namespace

Runtime::Runtime() {
  const auto soc = base::env("ASCENDRT_SOC");
  soc_ = &find_soc(soc && !soc->empty() ? *soc : kDefaultSoc);
  const int64_t count = base::env_int("ASCENDRT_DEVICES", 1, 0, kMaxDevices);
  for (int32_t index = 0; index < count; ++index) {
    devices_.push_back(std::make_unique<Device>(index, *soc_));
    visible_.push_back(index);
  }
  read_visible_devices();
  [[maybe_unused]] const CostModel checked(*soc_,
                                           read_time_settings().timing);  // raises what is wrong
  memory::configure(static_cast<uint32_t>(count), static_cast<uint64_t>(soc_->memory_bytes));
}

// A bad entry ends the list silently, except as the first one; a repeated or descending pair spoils
// the variable. src: hicann/runtime src/runtime runtime.cc, rules S2 of aclrtGetDeviceCount.
void Runtime::read_visible_devices() {
  const auto text = base::env(kVisibleDevices);
  if (!text) return;
  visible_.clear();
  std::string_view rest = *text;
  while (true) {
    const size_t comma = rest.find(',');
    const auto id = entry_number(rest.substr(0, comma));
    if (!id || *id < 0 || *id >= static_cast<int64_t>(devices_.size())) break;
    if (!visible_.empty() && *id <= visible_.back()) {
      visible_problem_ = "its ids must ascend and not repeat";
      break;
    }
    visible_.push_back(*id);
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
  if (visible_.empty()) {
    visible_problem_ = "its first entry is no id of the " + std::to_string(devices_.size()) +
                       " devices of this machine (ASCENDRT_DEVICES sets their number)";
  }
  if (!visible_problem_.empty()) visible_.clear();
}

uint32_t Runtime::device_count() const {
  if (!visible_problem_.empty()) {
    base::fail(ACL_ERROR_RT_NO_DEVICE, std::string(kVisibleDevices) + "='" +
                                           base::env(kVisibleDevices).value_or("") +
                                           "' leaves no device: " + visible_problem_);
  }
  return static_cast<uint32_t>(visible_.size());
}

namespace {

// Why there are so many devices to see; empty when all of some are.
std::string why_visible(size_t seen, size_t present, const std::string& problem) {
  if (present == 0) return "; the machine has no device at all (ASCENDRT_DEVICES=0)";
  const auto text = base::env(kVisibleDevices);
  if (!text || (seen == present && problem.empty())) return {};
  const std::string variable = "; " + std::string(kVisibleDevices) + "='" + *text + "' ";
  if (!problem.empty()) return variable + "is set but " + problem;
  const auto entries = static_cast<size_t>(std::ranges::count(*text, ',')) + 1;
  std::string why =
      variable + "shows " + std::to_string(seen) + " devices, and programs number them from 0";
  if (entries > seen) {
    why += "; its entry " + std::to_string(seen + 1) + " is no id of the " +
           std::to_string(present) + " devices of this machine, so the list ends before it";
  }
  return why;
}

}  // namespace

Device& Runtime::device(int32_t user_id) {
  if (user_id < 0 || static_cast<size_t>(user_id) >= visible_.size()) {
    base::fail(ACL_ERROR_RT_INVALID_DEVICEID,
               "device id " + std::to_string(user_id) + " is outside [0, " +
                   std::to_string(visible_.size()) + ")" +
                   why_visible(visible_.size(), devices_.size(), visible_problem_));
  }
  return physical_device(visible_[static_cast<size_t>(user_id)]);
}

int32_t Runtime::user_id(const Device& device) const {
  for (size_t id = 0; id < visible_.size(); ++id) {
    if (visible_[id] == device.index()) return static_cast<int32_t>(id);
  }
  return -1;
}

base::Code Runtime::init(const char* config_path) {
  const std::lock_guard whole(init_mutex_);
  if (init_count_ > 0 || busy_) {
    if (!busy_) ++init_count_;
    return ACL_ERROR_REPEAT_INITIALIZE;
  }
  const std::string text = read_config_file(config_path);
  if (first_config_ && *first_config_ != text) {
    base::fail(ACL_ERROR_INVALID_PARAM,
               "the configuration differs from the one of the first aclInit of this process; after "
               "aclFinalize only the same configuration can be given again",
               base::Layer::kAcl);
  }
  const Busy busy(busy_);
  run_init(text, config_path != nullptr && *config_path != '\0');
  first_config_ = text;
  finalised_ = false;
  // release: pairs with the acquire in initialised().
  init_count_.store(1, std::memory_order_release);
  return 0;
}

// The order is that of the vendor's aclInit. src: rules S1 of aclInit
void Runtime::run_init(const std::string& text, bool with_file) {
  notify_init(ACL_REG_TYPE_ACL_MODEL, text);
  if (with_file) notify_init(ACL_REG_TYPE_ACL_OP_EXECUTOR, text);
  apply_config(text);
  notify_init(ACL_REG_TYPE_ACL_DVPP, text);
  notify_init(ACL_REG_TYPE_OTHER, text);
}

std::string Runtime::config() {
  const std::lock_guard whole(init_mutex_);
  return first_config_.value_or("");
}

void Runtime::apply_config(const std::string& text) {
  const auto id = default_device_of(text);
  if (const auto knobs = memory_section_of(text); !knobs.empty()) memory::configure_knobs(knobs);
  if (!id) return;
  device(*id);  // raises 107001 when there is no such device
  default_device_ = *id;
}

void Runtime::finalize() {
  const std::lock_guard whole(init_mutex_);
  if (finalised_) {
    base::fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called twice without aclInit in between",
               base::Layer::kAcl);
  }
  run_finalize();
}

void Runtime::run_finalize() {
  if (!busy_) {
    const Busy busy(busy_);
    for (const auto type : {ACL_REG_TYPE_ACL_OP_COMPILER, ACL_REG_TYPE_ACL_MODEL,
                            ACL_REG_TYPE_ACL_DVPP, ACL_REG_TYPE_OTHER}) {
      notify_finalize(type);
    }
  }
  finalised_ = true;
  init_count_ = 0;
  default_device_ = -1;
}

uint64_t Runtime::finalize_reference() {
  const std::lock_guard whole(init_mutex_);
  if (init_count_ == 0) {
    base::fail(ACL_ERROR_REPEAT_FINALIZE,
               "aclFinalizeReference: no reference is left, aclInit was not called as often",
               base::Layer::kAcl);
  }
  if (init_count_ > 1) return --init_count_;
  run_finalize();
  return 0;
}

std::optional<int32_t> Runtime::default_device() const {
  const int32_t id = default_device_.load(std::memory_order_acquire);
  if (id < 0) return std::nullopt;
  return id;
}

int64_t Runtime::parameter(int32_t option) const {
  const std::lock_guard lock(mutex_);
  const auto found = parameters_.find(option);
  return found == parameters_.end() ? 0 : found->second;
}

void Runtime::set_parameter(int32_t option, int64_t value) {
  const std::lock_guard lock(mutex_);
  parameters_[option] = value;
}

// A program may ask for memory, or of what kind it is, before anything else.
[[maybe_unused]] const bool g_memory_knows_whom_to_ask = [] {
  memory::g_first_use = [] { runtime(); };
  return true;
}();

Runtime& runtime() {
  // acquire: pairs with the release below, so that a found runtime is complete.
  if (Runtime* found = g_runtime.load(std::memory_order_acquire)) return *found;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (Runtime* found = g_runtime.load(std::memory_order_relaxed)) return *found;
  auto* made = new Runtime;
  pthread_atfork(nullptr, nullptr,
                 [] { g_clock.store(Clock::kForked, std::memory_order_relaxed); });
  g_runtime.store(made, std::memory_order_release);
  return *made;
}

}  // namespace ascendrt::core
