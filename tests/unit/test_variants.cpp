// Programs of shapes: which are kept, one maker for many who ask, failures.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "model/variants.hpp"
#include "test.hpp"

using namespace ascendrt;
using model::VariantCache;
using model::VariantPtr;

namespace {

// A variant that counts with this many bytes of constants.
VariantPtr variant(int64_t bytes) {
  auto made = std::make_shared<model::Model>();
  model::Op op;
  op.type = "Const";
  model::Tensor tensor;
  tensor.desc.size = bytes;
  op.attrs.set("value", model::Box(std::move(tensor)));
  made->graphs.emplace_back().ops.push_back(std::move(op));
  return std::make_shared<const model::Variant>(model::Variant{made, {}});
}

VariantCache::Shapes shapes(int64_t rows) { return {{rows, 4}}; }

}  // namespace

TEST(variants_used_last_are_kept) {
  VariantCache cache;
  int made = 0;
  const auto ask = [&](int64_t rows) {
    cache.get(shapes(rows), [&] {
      ++made;
      return variant(100);
    });
  };
  for (int64_t rows = 0; rows < 70; ++rows) {
    ask(rows);
    ask(0);  // always used last but one
  }
  CHECK(cache.size() == VariantCache::kMostVariants);
  CHECK(made == 70);
  ask(0);
  ask(69);
  CHECK(made == 70);
  ask(1);
  CHECK(made == 71);
}

TEST(variants_are_bounded_by_bytes) {
  VariantCache cache;
  const auto half = static_cast<int64_t>(VariantCache::kMostBytes / 2);
  for (int64_t rows = 1; rows < 5; ++rows) cache.get(shapes(rows), [&] { return variant(half); });
  CHECK(cache.size() == 1);  // two take a little more than the bound
  cache.get(shapes(9), [&] { return variant(3 * half); });
  CHECK(cache.size() == 1);  // the one used last stays, however large
}

TEST(variants_that_cannot_be_made_are_asked_for_again) {
  VariantCache cache;
  int tries = 0;
  for (int i = 0; i < 2; ++i) {
    std::string text;
    try {
      cache.get(shapes(1), [&]() -> VariantPtr {
        ++tries;
        base::fail(507011, "no such shape");
      });
    } catch (const base::Error& error) {
      text = error.text;
    }
    CHECK(text == "no such shape");
    CHECK(cache.size() == 0);
  }
  CHECK(tries == 2);
}

TEST(variants_are_made_once_for_all_who_ask) {
  VariantCache cache;
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  std::vector<VariantPtr> got(4);
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      got[i] = cache.get(shapes(1), [&] {
        made.fetch_add(1);
        std::this_thread::yield();
        return variant(1);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(made.load() == 1);
  for (const VariantPtr& each : got) CHECK(each == got[0]);
}
