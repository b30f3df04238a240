#include "core/cost.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <sstream>

#include "base/config.hpp"
#include "base/error.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr uint32_t kSdmaChannels = 4;  // copies inside the device that run together; guess
constexpr uint64_t kDefaultSeed = 1;
constexpr int64_t kDefaultGraceMs = 100;

[[noreturn]] void refuse(const std::string& variable, const std::string& why) {
  base::fail(ACL_ERROR_INVALID_PARAM, "environment variable " + variable + " " + why);
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

double number(const std::string& key, const std::string& value) {
  double parsed = 0;  // not strtod, which goes by the client's locale
  const char* end = value.data() + value.size();
  const auto [stop, status] = std::from_chars(value.data(), end, parsed);
  const bool whole = status == std::errc() && stop == end;
  if (whole && parsed >= 0 && !std::isnan(parsed)) return parsed;
  refuse("ASCENDRT_TIMING",
         "gives '" + value + "' for " + key + "; give a number of 0 or more, or inf");
}

const gen::TimingRow& row_of(const gen::Soc& soc) {
  const auto* found = std::find_if(
      std::begin(gen::kSocTimings), std::end(gen::kSocTimings),
      [&](const gen::SocTiming& each) { return std::string_view(each.soc) == soc.name; });
  return found->row;  // the generator writes a row for every chip
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() > end.size() && std::string_view(text).ends_with(end);
}

// Microseconds for bytes at GB/s (1e9).
double us_of(double bytes, double gbps) { return bytes / (gbps * 1e3); }

}  // namespace

CostModel::CostModel(const gen::Soc& soc, const std::string& settings)
    : soc_(soc), row_(row_of(soc)) {
  std::string text = settings;
  if (settings.find('=') == std::string::npos && !trimmed(settings).empty()) {
    std::ifstream file(settings);
    std::stringstream content;
    if (!file || !(content << file.rdbuf())) {
      refuse("ASCENDRT_TIMING", "is '" + settings +
                                    "', which is neither key=value,... nor a file that can be "
                                    "read");
    }
    text = content.str();
  }
  std::replace(text.begin(), text.end(), '\n', ',');
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    part = trimmed(part.substr(0, part.find('#')));
    if (part.empty()) continue;
    const size_t equals = part.rfind('=');
    if (equals == std::string::npos) {
      refuse("ASCENDRT_TIMING", "holds '" + part + "', which is no key=value");
    }
    set(trimmed(part.substr(0, equals)), trimmed(part.substr(equals + 1)));
  }
}

void CostModel::set(const std::string& key, const std::string& value) {
  taken_[key] = value;
  if (key.starts_with("op.")) return set_operator(key, value);
  const auto* known = std::find_if(std::begin(gen::kTimingKeys), std::end(gen::kTimingKeys),
                                   [&](const gen::TimingKey& each) { return key == each.name; });
  if (known == std::end(gen::kTimingKeys)) {
    std::string names;
    for (const auto& each : gen::kTimingKeys) names += std::string(" ") + each.name;
    refuse("ASCENDRT_TIMING", "sets '" + key +
                                  "', which does not exist; known are op.NAME.us, op.NAME.cores "
                                  "and" +
                                  names);
  }
  const double figure = number(key, value);
  const bool divides = key.starts_with("cube.fp16") || key.starts_with("cube.int8") ||
                       ends_with(key, ".gbps") || ends_with(key, ".tops") ||
                       ends_with(key, ".efficiency");
  if (figure == 0 && divides) refuse("ASCENDRT_TIMING", "sets " + key + " to 0; give more");
  if (std::isinf(figure) && !divides) {
    refuse("ASCENDRT_TIMING", "sets " + key + " to inf; only rates may be infinite");
  }
  row_.*(known->field) = figure;
}

void CostModel::set_operator(const std::string& key, const std::string& value) {
  const double figure = number(key, value);
  constexpr std::string_view kPrefix = "op.";
  for (const std::string_view suffix : {".us", ".cores"}) {
    if (!ends_with(key, suffix) || key.size() <= kPrefix.size() + suffix.size()) continue;
    const std::string name =
        key.substr(kPrefix.size(), key.size() - kPrefix.size() - suffix.size());
    if (std::isinf(figure)) refuse("ASCENDRT_TIMING", "sets " + key + " to inf");
    if (suffix == ".us") {
      operators_[name].us = figure;
    } else {
      operators_[name].cores = static_cast<uint32_t>(std::min(figure, 65536.0));
    }
    return;
  }
  refuse("ASCENDRT_TIMING", "sets '" + key + "'; an operator has op.NAME.us and op.NAME.cores");
}

std::string CostModel::settings() const {
  std::string text;
  for (const auto& [key, value] : taken_) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

const CostModel::Operator* CostModel::find(const char* name) const {
  if (name == nullptr || operators_.empty()) return nullptr;
  const auto found = operators_.find(std::string_view(name));
  return found != operators_.end() ? &found->second : nullptr;
}

int64_t CostModel::to_ns(double us) {
  constexpr double kMost = 9.0e18;  // below the largest int64
  return static_cast<int64_t>(std::min(std::round(us * 1e3), kMost));
}

Engine CostModel::engine_for(Engine engine) const {
  return engine == Engine::kVector && !soc_.split_cores ? Engine::kCube : engine;
}

uint32_t CostModel::capacity(Engine engine) const {
  switch (engine) {
    case Engine::kNone:
    case Engine::kHost:
      return std::numeric_limits<uint32_t>::max();
    case Engine::kCube:
      return static_cast<uint32_t>(std::max(1, soc_.split_cores ? soc_.cube_core : soc_.ai_core));
    case Engine::kVector:
      return static_cast<uint32_t>(std::max(1, soc_.vector_core));
    case Engine::kAicpu:
      return static_cast<uint32_t>(std::max(1, soc_.ai_cpu));
    case Engine::kDeviceToDevice:
      return kSdmaChannels;
    default:
      return 1;
  }
}

double CostModel::copy_us(Engine engine, const Load& load) const {
  const auto bytes = static_cast<double>(load.bytes);
  if (engine == Engine::kDeviceToDevice) {
    return row_.d2d_latency_us + us_of(bytes, row_.d2d_gbps);
  }
  if (load.pageable) return row_.pageable_latency_us + us_of(bytes, row_.pageable_gbps);
  return engine == Engine::kHostToDevice ? row_.h2d_latency_us + us_of(bytes, row_.h2d_gbps)
                                         : row_.d2h_latency_us + us_of(bytes, row_.d2h_gbps);
}

namespace {

// The most cores a kernel may take: those of its engine, or fewer by a core limit.
uint32_t most_cores(uint32_t all, const Load& load) {
  return std::min(all, std::max(1U, load.most_cores));
}

double rounds(uint32_t blocks, uint32_t cores) {
  const uint64_t whole = (uint64_t{blocks} + cores - 1) / cores;
  return static_cast<double>(whole);
}

}  // namespace

// How many times longer a kernel of so many blocks takes by its core limit.
double CostModel::waves(Engine engine, const Load& load, uint32_t blocks) const {
  const uint32_t all = capacity(engine_for(engine));
  return blocks == 0 ? 1 : rounds(blocks, most_cores(all, load)) / rounds(blocks, all);
}

// The roofline. A kernel of unknown shape takes so many cores that each has kernel.block_us of
// work; one with more blocks than cores runs in waves.
double CostModel::kernel_us(Engine engine, const Load& load, uint32_t& cores) const {
  const uint32_t all = capacity(engine_for(engine));
  double peak = row_.vector_tops;
  if (load.rate == Rate::kFp16) peak = row_.cube_fp16_tflops * row_.cube_efficiency;
  if (load.rate == Rate::kInt8) peak = row_.cube_int8_tops * row_.cube_efficiency;
  if (load.rate == Rate::kFp32 && row_.cube_fp32_share > 0) {
    peak = row_.cube_fp16_tflops * row_.cube_fp32_share * row_.cube_efficiency;
  }
  const double whole_us = load.flops / (peak * 1e6);  // with all cores
  const double memory_us =
      us_of(static_cast<double>(load.bytes), row_.memory_gbps * row_.memory_efficiency);
  const uint32_t blocks = load.cores > 0 ? load.cores : cores;
  const uint32_t most = most_cores(all, load);
  double compute_us = whole_us;
  if (blocks > 0) {
    cores = std::min(blocks, most);
    compute_us = whole_us * all * rounds(blocks, most) / blocks;
  } else {
    const double wanted =
        row_.kernel_block_us > 0
            ? std::ceil(std::max(whole_us, memory_us) * all / row_.kernel_block_us)
            : all;
    cores = static_cast<uint32_t>(std::clamp(wanted, 1.0, static_cast<double>(most)));
    compute_us = whole_us * all / cores;
  }
  return std::max(compute_us, memory_us) + row_.kernel_floor_us;
}

Timing CostModel::timing_of(Engine engine, const char* name, const Load& load) const {
  Timing timing;
  timing.label = interned(load.label);
  timing.cores = 1;
  const Operator* own = find(load.label);
  if (own == nullptr) own = find(name);
  double us = 0;
  switch (engine) {
    case Engine::kNone:
    case Engine::kHost:
      return timing;
    case Engine::kCube:
    case Engine::kVector:
      timing.cores = own != nullptr ? own->cores : 0;
      us = kernel_us(engine, load, timing.cores);
      break;
    case Engine::kAicpu:
      us = row_.aicpu_floor_us;
      break;
    default:
      us = copy_us(engine, load);
  }
  if (own != nullptr && own->us) {
    us = *own->us * waves(engine, load, own->cores > 0 ? own->cores : load.cores);
  }
  timing.duration_ns = to_ns(us);
  const bool kernel = engine == Engine::kCube || engine == Engine::kVector;
  if (kernel && us > static_cast<double>(load.limit_us)) {
    timing.duration_ns = to_ns(static_cast<double>(load.limit_us));
    timing.cut = true;
  }
  return timing;
}

TimeSettings read_time_settings() {
  TimeSettings settings;
  const std::string mode = base::env("ASCENDRT_CLOCK").value_or("real");
  if (mode == "virtual") {
    settings.mode = ClockMode::kVirtual;
  } else if (mode == "paced") {
    settings.mode = ClockMode::kPaced;
  } else if (mode != "real" && !mode.empty()) {
    refuse("ASCENDRT_CLOCK", "is '" + mode + "'; give real, virtual or paced");
  }
  settings.timing = base::env("ASCENDRT_TIMING").value_or("");
  settings.seeded = base::env("ASCENDRT_SCHED_SEED").has_value();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  settings.seed =
      static_cast<uint64_t>(base::env_int("ASCENDRT_SCHED_SEED", kDefaultSeed, 0, kMost));
  settings.grace_ns =
      base::env_int("ASCENDRT_HOST_GRACE_MS", kDefaultGraceMs, 1, 3'600'000) * 1'000'000;
  return settings;
}

const char* interned(const char* text) {
  if (text == nullptr) return nullptr;
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string, std::less<>>;  // addresses are given out
  const std::lock_guard lock(mutex);
  const auto found = kept->find(std::string_view(text));
  return (found != kept->end() ? found : kept->insert(text).first)->c_str();
}

}  // namespace ascendrt::core
