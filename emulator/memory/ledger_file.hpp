// Finding the file behind a ledger. Must never: follow links or change an existing file.
#pragma once

#include <string>

namespace ascendrt::memory {

struct LedgerFile {
  int file = -1;
  std::string path;  // for error texts
};

// Opens the machine's file, or makes it (empty). Raises 100000 for a bad name, 507899 when it
// cannot be opened.
LedgerFile open_ledger_file(const std::string& machine);

}  // namespace ascendrt::memory
