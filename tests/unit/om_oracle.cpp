#include "om_oracle.hpp"

#include <cctype>

namespace ascendrt::test {
namespace {

uint64_t number(const model::Bytes& file, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= uint64_t{file[at + i]} << (8 * i);
  return value;
}

struct Fault {
  int32_t code;       // of a load
  int32_t query = 0;  // of a size query, where it is another
};

struct Walk {
  const model::Bytes& file;
  bool wide, flow;
  size_t at = 256;
  Documented& result;

  size_t head() const { return wide ? 8 : 4; }
  size_t left() const { return file.size() - at; }

  void block() {
    const size_t row = wide ? 24 : 12;
    if (left() < head()) throw Fault{145006};
    const uint64_t count = number(file, at, 4);
    if (count == 0 || count > (flow ? 4096U : 8U)) throw Fault{145000};
    const size_t table = head() + row * count;
    if (left() <= table) throw Fault{145006};  // no data after the table
    const size_t entries = at + head();
    result.tables.emplace_back(at, at + table);
    at += table;
    auto& parts = result.blocks.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      const size_t entry = entries + row * i;
      const uint64_t size = wide ? number(file, entry + 16, 8) : number(file, entry + 8, 4);
      if (size > left()) throw Fault{145006};
      const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
      parts.emplace_back(number(file, entry, 4),
                         model::Bytes(begin, begin + static_cast<std::ptrdiff_t>(size)));
      at += size;
    }
  }
};

// "1.11" or "3.51" where the new layout counts sub models.
bool has_version_text(const model::Bytes& file) {
  for (size_t i = 156; i < 160; ++i) {
    if (file[i] != '.' && std::isdigit(file[i]) == 0) return false;
  }
  return true;
}

void walk(const model::Bytes& file, Documented& result) {
  const bool old = number(file, 8, 4) < 0x20000000 || has_version_text(file);
  const uint64_t length = number(file, 184, 8) != 0 ? number(file, 184, 8) : number(file, 76, 4);
  if (number(file, 0, 4) != 0x444F4D49 || length != file.size() - 256) throw Fault{145000};
  if (file[82] == 5) throw Fault{500002, 145000};  // a bundle
  const bool flow = file[82] == 3;
  const bool phone = old && file[156] == '3' && file[157] == '.';
  Walk w{file, number(file, 184, 8) != 0 || (flow && !phone), flow, 256, result};
  const uint64_t models = old ? 1 : number(file, 156, 4);
  const bool several = !old && (models > 1 || file[193] != 0);
  w.block();
  for (uint64_t i = 1; several && i < models; ++i) {
    if (w.left() < w.head()) throw Fault{500002};  // fewer blocks than promised
    w.block();
  }
  if (several && w.left() != 0) throw Fault{500002};
  if (!several && result.blocks[0].size() == 1) result.query = 145000;  // nothing to run
}

}  // namespace

Documented documented(const model::Bytes& file) {
  Documented result;
  if (file.size() < 256) {
    result.load = 145006;
    result.query = file.size() < 4 ? 145006 : 145000;
    return result;
  }
  try {
    walk(file, result);
  } catch (const Fault& fault) {
    result.load = fault.code;
    result.query = fault.query != 0 ? fault.query : fault.code;
  }
  return result;
}

}  // namespace ascendrt::test
