#include "trace/trace.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"

namespace ascendrt::trace {
namespace {

// Rows of the picture: host threads are process 0, device d is process d + 1, and there a stream is
// thread 1000 + id, an engine a thread from 1 on.
constexpr int32_t kHostRow = 0;
constexpr int32_t kFirstStreamRow = 1000;
constexpr int32_t kTransferRow = 999;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Microseconds with the nanoseconds behind the point.
std::string us(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

using Names = std::map<std::pair<int32_t, int32_t>, std::string>;  // of rows

struct Row {
  int64_t start_ns;
  int32_t process;
  int32_t thread;
  std::string text;  // the event without its brace
};

std::string promise(const probe::RunFacts& facts) {
  if (facts.clock != "virtual") return "no: real time takes part";
  if (facts.host_threads > 1) {
    return "yes, if the program's own synchronization fixes the order of its threads' calls";
  }
  if (facts.overtaken == 0) return "yes";
  return "no: " + std::to_string(facts.overtaken) +
         " calls came after the clock had gone on without their thread (ASCENDRT_HOST_GRACE_MS)";
}

class File final : public probe::Sink {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}

  void task(const probe::TaskSpan& span) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(span);
  }
  void call(const probe::CallSpan& span) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back(span);
  }
  void write(const probe::RunFacts& facts) override;

 private:
  bool put(const std::string& header, const std::vector<Row>& rows) const;
  void add_tasks(std::vector<Row>& rows, Names& names);

  const std::string path_;
  std::mutex mutex_;
  std::vector<probe::TaskSpan> tasks_;
  std::vector<probe::CallSpan> calls_;
};

std::string span_text(std::string_view name, int32_t process, int32_t thread, int64_t start_ns,
                      int64_t end_ns, const std::string& arguments) {
  return "{\"ph\":\"X\",\"name\":" + quoted(name) + ",\"pid\":" + std::to_string(process) +
         ",\"tid\":" + std::to_string(thread) + ",\"ts\":" + us(start_ns) +
         ",\"dur\":" + us(end_ns - start_ns) + ",\"args\":{" + arguments + "}}";
}

// A task stands in the row of its stream and in the row of its engine.
void File::add_tasks(std::vector<Row>& rows, Names& names) {
  std::map<std::string, int32_t> engines;
  for (const char* engine : {"none", "cube", "vector", "h2d", "d2h", "d2d", "aicpu", "host"}) {
    engines.emplace(engine, static_cast<int32_t>(engines.size()) + 1);
  }
  for (const auto& task : tasks_) {
    const int32_t process = task.device + 1;
    const int32_t stream = task.stream < 0 ? kTransferRow : kFirstStreamRow + task.stream;
    const int32_t engine = engines.at(task.engine);
    names[{process, stream}] =
        task.stream < 0 ? "blocking copies" : "stream " + std::to_string(task.stream);
    names[{process, engine}] = std::string("engine ") + task.engine;
    const std::string arguments =
        "\"stream\":" + std::to_string(task.stream) + ",\"task\":" + std::to_string(task.task) +
        ",\"engine\":" + quoted(task.engine) + ",\"cores\":" + std::to_string(task.cores) +
        (task.label != nullptr ? ",\"operator\":" + quoted(task.label) : "");
    for (const int32_t thread : {stream, engine}) {
      rows.push_back(
          {task.start_ns, process, thread,
           span_text(task.name, process, thread, task.start_ns, task.end_ns, arguments)});
    }
  }
}

std::string header_of(const probe::RunFacts& facts, const Names& names) {
  std::string text =
      "{\"metadata\":{\"clock\":" + quoted(facts.clock) + ",\"soc\":" + quoted(facts.soc) +
      ",\"timing\":" + quoted(facts.timing) +
      ",\"seed\":" + (facts.seed ? std::to_string(*facts.seed) : "null") +
      ",\"host_threads\":" + std::to_string(facts.host_threads) +
      ",\"equal_bits\":" + quoted(promise(facts)) + "},\n\"traceEvents\":[\n" +
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"host\"}}";
  for (const auto& [row, name] : names) {
    text += ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + std::to_string(row.first) +
            ",\"tid\":" + std::to_string(row.second) + ",\"args\":{\"name\":" + quoted(name) + "}}";
  }
  return text;
}

// A device, pipe or folder of that name: a rename would replace it by a file.
bool is_taken(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
}

// Whole or not at all: the file gets its name when it is complete.
bool File::put(const std::string& header, const std::vector<Row>& rows) const {
  if (is_taken(path_)) return false;
  const std::string partial = path_ + ".part" + std::to_string(getpid());
  bool good = false;
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out << header;
    for (const Row& row : rows) out << ",\n" << row.text;
    out << "\n]}\n";
    good = static_cast<bool>(out.flush());
  }
  if (good && std::rename(partial.c_str(), path_.c_str()) == 0) return true;
  std::remove(partial.c_str());
  return false;
}

void File::write(const probe::RunFacts& facts) {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  Names names;
  add_tasks(rows, names);
  for (const auto& call : calls_) {
    const auto thread = static_cast<int32_t>(call.thread);
    names[{kHostRow, thread}] = "host thread " + std::to_string(call.thread);
    rows.push_back({call.start_ns, kHostRow, thread,
                    span_text(call.name, kHostRow, thread, call.start_ns, call.end_ns, "")});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.start_ns, a.process, a.thread, a.text) <
           std::tie(b.start_ns, b.process, b.thread, b.text);
  });
  if (!put(header_of(facts, names), rows)) {
    base::warn_once("trace.write",
                    "cannot write the trace to '" + path_ +
                        "' (ASCENDRT_TRACE); is the folder there and writable, and the "
                        "name not that of a device, pipe or folder?");
  }
}

}  // namespace

probe::Sink* from_environment() {
  const auto path = base::env("ASCENDRT_TRACE");
  if (!path || path->empty()) return nullptr;
  return new File(*path);  // leaked: written at process exit
}

}  // namespace ascendrt::trace
