// The programs of a model whose shapes only a run tells, by shapes. Owns: which are kept.
// Must never: hold its lock while a program is made.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "model/program.hpp"

namespace ascendrt::model {

// A model for one choice of shapes: its only one, that of a gear, or that of a run.
struct Variant {
  std::shared_ptr<const Model> model;  // holds the graphs that the program points into
  Program program;
};
using VariantPtr = std::shared_ptr<const Variant>;

// Thread-safe. A variant that several threads ask for at once is made by one of them; other shapes
// do not wait for it. Those used last are kept; a run keeps its own.
class VariantCache {
 public:
  using Shapes = std::vector<Dims>;
  static constexpr size_t kMostVariants = 64;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;

  // Raises what `make` raises, to all who wait for it.
  VariantPtr get(const Shapes& shapes, const std::function<VariantPtr()>& make);
  size_t size() const;

 private:
  struct Entry {
    Shapes shapes;
    std::shared_future<VariantPtr> variant;
    uint64_t bytes = 0;  // 0: being made
  };
  using Entries = std::list<Entry>;

  VariantPtr make_into(Entries::iterator entry, std::promise<VariantPtr>& promise,
                       const std::function<VariantPtr()>& make);
  void trim();

  mutable std::mutex mutex_;
  Entries entries_;  // used last first
};

}  // namespace ascendrt::model
