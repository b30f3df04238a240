// How a model instance reads: a trace (chrome://tracing, Perfetto) with one row per stream, one
// slice per task in the order of recording and an arrow from each record to its waits.
// Must never: change the instance.
#include <map>
#include <mutex>
#include <string>

#include "core/context.hpp"
#include "core/device.hpp"
#include "core/model_instance.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

const char* kind_of(const Record& record) {
  switch (record.task.kind) {
    case TaskKind::kRecord:
      return "EVENT_RECORD";
    case TaskKind::kWait:
      return "EVENT_WAIT";
    case TaskKind::kReset:
      return record.sort == Record::Sort::kLabel ? "LABEL" : "EVENT_RESET";
    case TaskKind::kHost:
    case TaskKind::kHostDetached:
      return "HOST_FUNC";
    case TaskKind::kWatch:
      return record_type(record) == ACL_MODEL_RI_TASK_VALUE_WAIT ? "VALUE_WAIT" : "NOTIFY_WAIT";
    default:
      break;
  }
  if (record.sort == Record::Sort::kLabel) return "LABEL";
  if (record.sort == Record::Sort::kControl) return "JUMP";
  if (record.sort == Record::Sort::kBranch) return "CONDITION";
  if (record_type(record) == ACL_MODEL_RI_TASK_VALUE_WRITE) return "VALUE_WRITE";
  return record.task.engine == Engine::kCube || record.task.engine == Engine::kVector ? "KERNEL"
                                                                                      : "MEMORY";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + "\"";
}

// The head that all entries have: what, phase, row and place in time (the order of recording).
std::string entry(const std::string& name, const char* phase, const Part& part, uint32_t at) {
  return "{\"name\":" + quoted(name) + ",\"ph\":\"" + phase +
         "\",\"pid\":\"model instance\",\"tid\":\"stream " + std::to_string(part.source->id()) +
         "\",\"ts\":" + std::to_string(at * 10);
}

}  // namespace

int32_t record_type(const Record& record) {
  switch (record.task.kind) {
    case TaskKind::kRecord:
      return ACL_MODEL_RI_TASK_EVENT_RECORD;
    case TaskKind::kWait:
      return ACL_MODEL_RI_TASK_EVENT_WAIT;
    case TaskKind::kReset:
      return ACL_MODEL_RI_TASK_EVENT_RESET;
    case TaskKind::kBody:
    case TaskKind::kWatch:
      return record.task.extra ? static_cast<const Watch&>(*record.task.extra).type
                               : ACL_MODEL_RI_TASK_DEFAULT;
    default:
      return ACL_MODEL_RI_TASK_DEFAULT;
  }
}

std::string ModelInstance::json(bool verbose) const {
  const std::lock_guard lock(recording_mutex());
  std::string out = "[";
  std::map<const EventState*, std::pair<const Part*, uint32_t>> recorded;
  for (const auto& part : parts) {
    for (const auto& record : part->records) {
      if (record->task.kind == TaskKind::kRecord) {
        recorded[record->task.event.get()] = {part.get(), record->id};
      }
    }
  }
  for (const auto& part : parts) {
    for (const auto& record : part->records) {
      out += (out.size() > 1 ? ",\n" : "\n") + entry(record->task.name, "X", *part, record->id) +
             ",\"dur\":8,\"args\":{\"model_id\":" + std::to_string(id_) +
             ",\"model_name\":" + quoted(name) +
             ",\"device_id\":" + std::to_string(context_->device().index()) +
             ",\"stream_id\":" + std::to_string(part->source->id()) +
             ",\"task_id\":" + std::to_string(record->id) + ",\"task_type\":\"" + kind_of(*record) +
             "\"" +
             (verbose ? ",\"disabled\":" + std::string(record->disabled ? "true" : "false") : "") +
             "}}";
      const auto from = recorded.find(record->task.event.get());
      if (record->task.kind != TaskKind::kWait || from == recorded.end()) continue;
      const auto& [origin, at] = from->second;
      const std::string flow = ",\"cat\":\"event\",\"id\":" + std::to_string(record->id);
      out += ",\n" + entry("event", "s", *origin, at) + flow + "}";
      out += ",\n" + entry("event", "f", *part, record->id) + flow + ",\"bp\":\"e\"}";
    }
  }
  return out + "\n]\n";
}

}  // namespace ascendrt::core
