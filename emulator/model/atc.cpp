// Owns: words to options, the modes, success and failure as scripts look for them.
#include "model/atc.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/similar.hpp"
#include "model/atc_options.hpp"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_json.hpp"
#include "model/om_reader.hpp"
#include "model/output_file.hpp"
#include "model/single_op_file.hpp"

namespace ascendrt::model {
namespace {

// A command line that cannot be carried out. The codes are those of the vendor's messages.
struct Refusal {
  std::string text;
  bool usage;  // the words themselves are wrong
};
// A value that no run takes, a word that is no option, an option that is missing.
constexpr const char* kUsageCodes[] = {"E10001", "E10003", "E10004", "E10007"};

[[noreturn]] void refuse(const std::string& text) {
  const bool usage = std::any_of(std::begin(kUsageCodes), std::end(kUsageCodes),
                                 [&](const char* code) { return text.starts_with(code); });
  throw Refusal{text, usage};
}

// The option with this name, or the one whose name begins so. Dashes inside stand for underscores.
const AtcOption* find_option(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  const AtcOption* longer = nullptr;
  size_t matches = 0;
  for (const AtcOption& option : atc_options()) {
    if (option.name == name) return &option;
    if (!option.name.starts_with(name)) continue;
    longer = &option;
    ++matches;
  }
  return matches == 1 ? longer : nullptr;
}

std::string did_you_mean_option(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string_view> known;
  for (const AtcOption& option : atc_options()) known.push_back(option.name);
  return base::did_you_mean(name, known, "--");
}

bool is_among(std::string_view values, std::string_view value) {
  while (!values.empty()) {
    const size_t end = values.find(' ');
    if (values.substr(0, end) == value) return true;
    if (end == std::string_view::npos) break;
    values.remove_prefix(end + 1);
  }
  return false;
}

class CommandLine {
 public:
  CommandLine(std::span<const std::string> words, Dialect dialect) : dialect_(dialect) {
    size_t at = 0;
    while (at < words.size()) at += take(words, at);
  }

  const std::string& get(std::string_view name) const {
    static const std::string kNone;
    const auto found = values_.find(name);
    return found == values_.end() ? kNone : found->second;
  }
  bool has(std::string_view name) const { return values_.contains(name); }
  bool exact_output() const { return exact_output_; }
  ConvertOptions options() const;
  std::vector<std::string_view> without_effect() const;

 private:
  size_t take(std::span<const std::string> words, size_t at);
  void set(const AtcOption& option, std::string value);

  Dialect dialect_;
  std::map<std::string_view, std::string> values_;
  bool exact_output_ = false;
};

void CommandLine::set(const AtcOption& option, std::string value) {
  const std::string name(option.name);
  if (!option.values.empty() && !is_among(option.values, value)) {
    refuse("E10001: value [" + value + "] of --" + name +
           " is not valid; it takes one of: " + std::string(option.values));
  }
  values_[option.name] = std::move(value);
}

// Returns how many words belong together.
size_t CommandLine::take(std::span<const std::string> words, size_t at) {
  const std::string& word = words[at];
  const auto value_behind = [&] {
    if (at + 1 >= words.size()) refuse("E10003: option '" + word + "' needs a value");
    return words[at + 1];
  };
  if (word == "-h") return set(*find_option("help"), "true"), 1;
  if (dialect_ == Dialect::kConvert && word == "-o") {
    exact_output_ = true;
    return set(*find_option("output"), value_behind()), 2;
  }
  if (word.size() < 3 || word[0] != '-' ||
      (word[1] != '-' && std::isalpha(static_cast<unsigned char>(word[1])) == 0)) {
    const bool network = dialect_ == Dialect::kConvert && !word.empty() && word[0] != '-';
    if (!network || has("model")) refuse("E10003: word '" + word + "' is no option");
    return set(*find_option("model"), word), 1;
  }
  const size_t dashes = word[1] == '-' ? 2 : 1;  // one dash does as well
  const size_t equals = word.find('=');
  const std::string name = word.substr(dashes, equals - dashes);
  const AtcOption* option = find_option(name);
  if (option == nullptr) {
    refuse("E10003: unknown command line option '--" + name + "'" + did_you_mean_option(name));
  }
  if (option->name == "help") return set(*option, "true"), 1;
  if (equals != std::string::npos) return set(*option, word.substr(equals + 1)), 1;
  return set(*option, value_behind()), 2;
}

ConvertOptions CommandLine::options() const {
  ConvertOptions options;
  for (const auto& [name, value] : values_) {
    if (find_option(std::string(name))->effect != Effect::kConvert) continue;
    if (value.empty()) continue;  // as if it were not there
    try {
      if (!set_convert_option(options, name, value)) {
        refuse("E10001: --" + std::string(name) + " is not offered yet");
      }
    } catch (const base::Error& error) {
      refuse("E10001: value [" + value + "] is not valid: --" + error.text);
    }
  }
  try {
    check_convert_options(options);
  } catch (const base::Error& error) {
    refuse("E10001: " + error.text);
  }
  return options;
}

std::vector<std::string_view> CommandLine::without_effect() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : values_) {
    if (find_option(std::string(name))->effect == Effect::kNone) names.push_back(name);
  }
  return names;
}

// --- one run ---

class Run {
 public:
  Run(const CommandLine& line, Dialect dialect, std::string words, const Print& print)
      : line_(line), dialect_(dialect), words_(std::move(words)), print_(print) {}

  void help() const;
  void convert();
  void single_ops();
  void check();
  void show();
  void to_json();
  void go();

 private:
  std::string network() const;
  std::string target() const;
  ConvertOptions prepared();
  void want_chip() const;
  void tell_ignored() const;
  void log(const char* level, const std::string& text) const;
  void describe(const Model& model, uint64_t file_bytes) const;

  const CommandLine& line_;
  Dialect dialect_;
  std::string words_;
  const Print& print_;
};

void Run::help() const {
  const bool atc = dialect_ == Dialect::kAtc;
  print_(Channel::kOut, atc ? "usage: atc --model=NET.onnx --framework=5 --output=NET "
                              "--soc_version=CHIP [OPTION=VALUE ...]"
                            : "usage: ascendrt om convert NET.onnx -o NET.om [--soc CHIP] "
                              "[OPTION=VALUE ...]\n"
                              "The options are those of the vendor's compiler, atc.");
  for (const AtcOption& option : atc_options()) {
    if (option.help.empty()) continue;
    std::string text = "  --" + std::string(option.name);
    text.resize(std::max<size_t>(text.size() + 1, 26), ' ');
    print_(Channel::kOut, text + std::string(option.help));
  }
  std::string names;
  for (const AtcOption& option : atc_options()) {
    if (option.help.empty()) names += " " + std::string(option.name);
  }
  print_(Channel::kOut, "accepted, and without effect on the emulator:" + names);
}

void Run::log(const char* level, const std::string& text) const {
  constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
  const auto rank = [&](std::string_view name) {
    return std::find(std::begin(kLevels), std::end(kLevels), name) - std::begin(kLevels);
  };
  if (rank(level) < rank(line_.get("log").empty() ? "null" : line_.get("log"))) return;
  print_(Channel::kOut, "[" + std::string(level) + "] " + text);
}

std::string Run::network() const {
  const std::string& path = line_.get("model");
  if (path.empty()) refuse("E10004: --model is missing: say which network to convert");
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) refuse("E10005: --model: " + path + " does not exist");
  if (S_ISDIR(info.st_mode)) refuse("E10005: --model: " + path + " is a folder, not a file");
  if (!S_ISREG(info.st_mode)) refuse("E10005: --model: " + path + " is no regular file");
  return path;
}

std::string Run::target() const {
  std::string path = line_.get("output");
  if (path.empty()) refuse("E10004: --output is missing: say where the model goes");
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..") {
    refuse("E10005: --output: " + path + " names a folder; name the file in it as well");
  }
  if (!line_.exact_output()) path += ".om";
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    refuse("E10005: --output: no folder " + folder + " to write the model into");
  }
  return path;
}

ConvertOptions Run::prepared() {
  if (dialect_ == Dialect::kAtc && !line_.has("framework")) {
    refuse("E10004: --framework is missing: say --framework=5 for an ONNX network");
  }
  if (line_.has("framework") && line_.get("framework") != "5") {
    refuse("E10007: --framework=" + line_.get("framework") +
           " cannot be read, only 5 (ONNX) can; export the network to ONNX");
  }
  want_chip();
  ConvertOptions options = line_.options();
  options.command_line = words_;
  tell_ignored();
  return options;
}

void Run::want_chip() const {
  if (dialect_ == Dialect::kAtc && line_.get("soc_version").empty()) {
    refuse("E10004: --soc_version is missing: say which chip, such as Ascend910B1");
  }
}

void Run::tell_ignored() const {
  const auto names = line_.without_effect();
  if (names.empty()) return;
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? "--" : ", --") + std::string(name);
  print_(Channel::kError, "warning: without effect on the emulator: " + text);
}

// Neither framework nor shapes: the description has them.
void Run::single_ops() {
  if (line_.has("model")) refuse("E10001: --singleop and --model exclude each other");
  want_chip();
  const std::string soc = line_.options().soc_version;
  tell_ignored();
  for (const std::string& path :
       write_single_ops(line_.get("singleop"), line_.get("output"), soc)) {
    log("info", "wrote " + path);
    if (dialect_ == Dialect::kConvert) print_(Channel::kOut, "wrote " + path);
  }
}

void Run::convert() {
  const std::string origin = network();
  const std::string path = target();
  const ConvertOptions options = prepared();
  log("info", "converting " + origin + " to " + path);
  const Model model = convert_onnx_file(origin, path, options);
  size_t ops = 0;
  for (const Graph& graph : model.graphs) ops += graph.ops.size();
  log("info", "graphs " + std::to_string(model.graphs.size()) + ", operators " +
                  std::to_string(ops) + ", weights " + std::to_string(model.weights.bytes.size()) +
                  " bytes, work memory " + std::to_string(model.task_info.memory_size) + " bytes");
  struct stat info = {};
  const uint64_t bytes = ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  if (dialect_ == Dialect::kConvert) {
    print_(Channel::kOut, "wrote " + path + " (" + std::to_string(bytes) + " bytes)");
  }
  if (line_.get("display_model_info") == "1") describe(model, bytes);
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out + "\"";
}

// Everything but writing the model; the report is written whatever the answer.
void Run::check() {
  const std::string origin = network();
  const ConvertOptions options = prepared();
  const std::string report =
      line_.get("check_report").empty() ? "check_result.json" : line_.get("check_report");
  std::optional<base::Error> found;
  try {
    convert_onnx_file(origin, "", options);
  } catch (const base::Error& error) {
    found = error;
  }
  std::ofstream file(report);
  file << "{\"model\": " << json_text(origin)
       << ", \"result\": " << (found ? "\"failed\"" : "\"success\"")
       << ", \"text\": " << json_text(found ? found->text : "") << "}\n";
  file.close();
  if (!file) refuse("E10005: --check_report: " + report + " cannot be written");
  if (found) throw base::Error(*found);
}

void Run::describe(const Model& model, uint64_t file_bytes) const {
  const auto text = [&](const char* name) { return model.attrs.string_or(name, ""); };
  const TaskInfo& tasks = model.task_info;
  print_(Channel::kOut, "============ Display Model Info start ============");
  print_(Channel::kOut, "Original Atc command line: " + text("atc_cmdline"));
  print_(Channel::kOut, "system   info: atc_version[" + text("atc_version") + "], soc_version[" +
                            model.soc_version + "], framework_type[" + text("framework_type") +
                            "].");
  print_(Channel::kOut, "resource info: memory_size[" + std::to_string(tasks.memory_size) +
                            " B], weight_size[" + std::to_string(tasks.weight_size) +
                            " B], stream_num[" + std::to_string(tasks.stream_num) +
                            "], event_num[" + std::to_string(tasks.event_num) + "].");
  print_(Channel::kOut, "om       info: file_size[" + std::to_string(file_bytes) +
                            " B], weight_data_size[" + std::to_string(model.weights.bytes.size()) +
                            " B].");
  print_(Channel::kOut, "============ Display Model Info end   ============");
}

void Run::show() {
  const std::string& path = line_.get("om");
  if (path.empty()) refuse("E10004: --om is missing: say which model to show");
  const OmSource source = OmSource::from_file(path);
  source.check_header(Entry::kLoadFile);
  describe(source.read(""), source.bytes().size());
}

void Run::to_json() {
  const std::string& path = line_.get("om");
  const std::string& target = line_.get("json");
  if (path.empty()) {
    refuse("E10004: --om is missing: say which model to write as JSON; networks (--model) are not");
  }
  if (target.empty()) refuse("E10004: --json is missing: say where the JSON goes");
  const OmSource source = OmSource::from_file(path);
  source.check_header(Entry::kLoadFile);
  const std::string text = model_def_json(source.read_description());
  OutputFile file(target);
  file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  file.rename();
}

void Run::go() {
  const std::string mode = line_.has("mode") ? line_.get("mode") : "0";
  if (line_.has("help")) return help();
  if (mode == "0") return line_.has("singleop") ? single_ops() : convert();
  if (mode == "1") return to_json();
  if (mode == "3") return check();
  if (mode == "6") return show();
  refuse(
      "E10001: --mode=" + mode +
      " is not offered, only 0 (convert), 1 (to JSON), 3 (check) and 6 (show) are; graphs that the "
      "vendor's compiler dumps (5) and code for small devices (30) do not exist here");
}

// As it is recorded in the model. Where the files lie is nobody's business but the vendor's tool
// tells it, and the network is looked for there.
std::string recorded(const CommandLine& line, std::span<const std::string> words, Dialect dialect) {
  std::string text = dialect == Dialect::kAtc ? "atc" : "ascendrt om convert";
  if (dialect == Dialect::kAtc) {
    for (const std::string& word : words) text += " " + word;
    return text;
  }
  const std::string& model = line.get("model");
  text += " " + model.substr(model.rfind('/') + 1);
  for (const AtcOption& option : atc_options()) {
    if (option.effect == Effect::kCommand || !line.has(option.name)) continue;
    text += " --" + std::string(option.name) + "=" + line.get(option.name);
  }
  return text;
}

}  // namespace

int run_atc(std::span<const std::string> words, Dialect dialect, const Print& print) {
  constexpr int kFailed = 255;
  constexpr int kUsage = 2;
  const bool atc = dialect == Dialect::kAtc;
  const auto failed = [&](const std::string& text) {
    if (atc) {
      print(Channel::kOut,
            "ATC run failed, Please check the detail log, Try 'atc --help' for more information");
    }
    print(Channel::kError, text);
    return kFailed;
  };
  if (atc) print(Channel::kOut, "ATC start working now, please wait for a moment.");
  try {
    const CommandLine line(words, dialect);
    Run run(line, dialect, recorded(line, words, dialect), print);
    run.go();
    if (atc && !line.has("help")) {
      print(Channel::kOut, "ATC run success, welcome to the next use.");
    }
    return 0;
  } catch (const Refusal& refusal) {
    const int code = failed(refusal.text);
    return refusal.usage && !atc ? kUsage : code;
  } catch (const base::Error& error) {
    return failed("E" + std::to_string(error.code) + ": " + error.text);
  } catch (const std::exception& error) {
    return failed(std::string("E19999: ") + error.what());
  }
}

}  // namespace ascendrt::model
