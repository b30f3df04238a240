#include "memory/report.hpp"

#include <algorithm>
#include <map>

#include "base/json.hpp"
#include "memory/ledger_file.hpp"
#include "memory/machine.hpp"
#include "memory/owners.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

// An object or a list under construction.
class Json {
 public:
  explicit Json(char open) : text_(1, open) {}
  Json& put(const char* name, const std::string& value) {
    text_ += std::string(text_.size() > 1 ? "," : "") + "\"" + name + "\":" + value;
    return *this;
  }
  Json& put(const char* name, int64_t value) { return put(name, std::to_string(value)); }
  Json& add(const std::string& value) {
    text_ += (text_.size() > 1 ? "," : "") + value;
    return *this;
  }
  std::string close() const { return text_ + (text_[0] == '{' ? "}" : "]"); }

 private:
  std::string text_;
};

int64_t reserved(const Pool::Figures& of) { return static_cast<int64_t>(of.reserved.total()); }

Json& put_figures(Json& out, const Pool::Figures& of) {
  const double used = reserved(of) == 0
                          ? 1
                          : static_cast<double>(of.live_bytes) / static_cast<double>(reserved(of));
  return out.put("live_bytes", of.live_bytes)
      .put("peak_bytes", of.peak_bytes)
      .put("blocks", of.blocks)
      .put("reserved_bytes", reserved(of))
      .put("thread_cached_bytes", of.thread_cached)
      .put("pool_cached_bytes", of.pool_cached)
      .put("pool_credit_bytes", of.credit)
      .put("fragmentation", std::to_string(1 - used));
}

std::string owners_json(const std::vector<Arena::Live>& blocks) {
  std::map<uint16_t, std::pair<int64_t, int64_t>> by_owner;
  for (const Arena::Live& live : blocks) {
    auto& [bytes, count] = by_owner[live.owner];
    bytes += static_cast<int64_t>(live.entry.block.bytes);
    ++count;
  }
  Json list('[');
  for (const auto& [owner, held] : by_owner) {
    Json row('{');
    row.put("owner", base::quoted(owner_text(owner)));
    list.add(row.put("live_bytes", held.first).put("blocks", held.second).close());
  }
  return list.close();
}

std::string block_json(Arena& arena, const Arena::Live& live) {
  const std::byte* address = arena.setup().client + live.entry.block.offset;
  Json stack('[');
  for (const std::string& frame : call_sites().of(address)) stack.add(base::quoted(frame));
  Json row('{');
  const uint32_t context = arena.context_of(live.entry.home);
  return row.put("address", static_cast<int64_t>(reinterpret_cast<uintptr_t>(address)))
      .put("offset", static_cast<int64_t>(live.entry.block.offset))
      .put("bytes", static_cast<int64_t>(live.entry.block.bytes))
      .put("asked_bytes", static_cast<int64_t>(live.entry.block.asked()))
      .put("context", context == kNoContext ? "null" : std::to_string(context))
      .put("huge_pages", live.entry.tag == Shape::kNormal ? "false" : "true")
      .put("owner", base::quoted(owner_text(live.owner)))
      .put("stack", stack.close())
      .close();
}

std::string device_json(Arena& arena, bool with_blocks) {
  const int32_t device = arena.setup().device;
  const Usage all = usage(device);
  Json contexts('[');
  for (const auto& [context, figures] : arena.figures()) {
    Json row('{');
    row.put("context", context == kNoContext ? "null" : std::to_string(context));
    contexts.add(put_figures(row, figures).close());
  }
  const auto live = arena.largest(SIZE_MAX);
  Json out('{');
  out.put("device", device)
      .put("total_bytes", static_cast<int64_t>(all.total_bytes))
      .put("free_bytes", static_cast<int64_t>(all.free_bytes));
  put_figures(out, arena.total())
      .put("touched_host_bytes", static_cast<int64_t>(arena.touched_bytes()))
      .put("contexts", contexts.close())
      .put("owners", owners_json(live));
  if (!with_blocks) return out.close();
  Json blocks('[');
  for (const Arena::Live& each : live) blocks.add(block_json(arena, each));
  return out.put("allocations", blocks.close()).close();
}

}  // namespace

std::array<int64_t, 5> device_figures(int32_t device) {
  const Pool::Figures all = machine().arena(device).total();
  return {all.live_bytes, reserved(all), all.thread_cached + all.pool_cached + all.credit,
          all.blocks, all.peak_bytes};
}

std::string snapshot_json(bool blocks) {
  Json list('[');
  for (uint32_t device = 0; device < machine().setup().devices; ++device) {
    Arena* arena = machine().arena_or_null(static_cast<int32_t>(device));
    if (arena != nullptr) list.add(device_json(*arena, blocks));
  }
  Json out('{');
  return out.put("machine", base::quoted(machine().setup().name))
      .put("devices", list.close())
      .close();
}

std::string machine_json() {
  Machine& all = machine();
  Json devices('[');
  for (uint32_t device = 0; device < all.setup().devices; ++device) {
    Json holders('[');
    for (const Ledger::Holder& holder : all.ledger().holders(device)) {
      if (holder.own && holder.used.total() == 0) continue;
      Json row('{');
      holders.add(row.put("process", int64_t{holder.process})
                      .put("normal_bytes", static_cast<int64_t>(holder.used.normal))
                      .put("huge_bytes", static_cast<int64_t>(holder.used.huge))
                      .close());
    }
    const Usage now = usage(static_cast<int32_t>(device));
    Json row('{');
    devices.add(row.put("device", int64_t{device})
                    .put("total_bytes", static_cast<int64_t>(now.total_bytes))
                    .put("free_bytes", static_cast<int64_t>(now.free_bytes))
                    .put("processes", holders.close())
                    .close());
  }
  Json out('{');
  return out.put("machine", base::quoted(all.setup().name)).put("devices", devices.close()).close();
}

std::string ledgers_json() {
  Json files('[');
  for (const LedgerEntry& entry : ledger_files()) {
    Json row('{');
    files.add(row.put("file", base::quoted(entry.path))
                  .put("machine", base::quoted(entry.machine))
                  .put("version", int64_t{entry.version})
                  .put("in_use", entry.in_use ? "true" : "false")
                  .close());
  }
  Json out('{');
  return out.put("version", int64_t{kLedgerVersion})
      .put("prefix", base::quoted(ledger_prefix()))
      .put("files", files.close())
      .close();
}

std::string clean_ledgers_json() {
  Json removed('[');
  for (const std::string& path : remove_unused_ledgers()) removed.add(base::quoted(path));
  Json out('{');
  return out.put("removed", removed.close()).close();
}

std::string reset_ledger(const std::string& machine) { return Ledger::reset(machine); }

}  // namespace ascendrt::memory
