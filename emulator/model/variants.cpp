// Owns: the order of use and the estimate of what a variant takes.
#include "model/variants.hpp"

#include <algorithm>
#include <utility>

namespace ascendrt::model {
namespace {

// Kernels pack the constants they read, so each counts once; what the variant itself holds again.
uint64_t bytes_of(const Variant& variant) {
  constexpr uint64_t kPerStep = 1024;
  uint64_t bytes = 1 + kPerStep * variant.program.steps().size();
  for (const Graph& graph : variant.model->graphs) {
    for (const Op& op : graph.ops) {
      const Tensor* tensor = op.constant();
      if (tensor == nullptr) continue;
      const auto stored = static_cast<uint64_t>(std::max<int64_t>(tensor->desc.size, 0));
      bytes += stored + tensor->data.size();
    }
  }
  return bytes;
}

}  // namespace

VariantPtr VariantCache::get(const Shapes& shapes, const std::function<VariantPtr()>& make) {
  std::promise<VariantPtr> promise;
  Entries::iterator entry;
  {
    std::unique_lock lock(mutex_);
    entry = std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& each) { return each.shapes == shapes; });
    if (entry != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, entry);
      const auto variant = entry->variant;
      lock.unlock();
      return variant.get();
    }
    entries_.push_front({shapes, promise.get_future().share()});
    entry = entries_.begin();
  }
  return make_into(entry, promise, make);
}

// The entry stays where it is until it has its bytes: trim() leaves it alone.
VariantPtr VariantCache::make_into(Entries::iterator entry, std::promise<VariantPtr>& promise,
                                   const std::function<VariantPtr()>& make) {
  try {
    VariantPtr variant = make();
    const uint64_t bytes = bytes_of(*variant);
    promise.set_value(variant);
    const std::lock_guard lock(mutex_);
    entry->bytes = bytes;
    trim();
    return variant;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    entries_.erase(entry);
    throw;
  }
}

void VariantCache::trim() {
  uint64_t bytes = 0;
  size_t count = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += entry->bytes;
    ++count;
    const bool over = count > kMostVariants || bytes > kMostBytes;
    entry = over && count > 1 && entry->bytes > 0 ? entries_.erase(entry) : std::next(entry);
  }
}

size_t VariantCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace ascendrt::model
