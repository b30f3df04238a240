#include "base/similar.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace ascendrt::base {
namespace {

constexpr size_t kMostNames = 3;
constexpr size_t kLongestWord = 64;  // a longer one is no misspelt name

// Letters to insert, remove or exchange (case counts half) to get from one word to the other,
// twice.
size_t distance(std::string_view from, std::string_view to) {
  const auto price = [](char a, char b) -> size_t {
    if (a == b) return 0;
    const bool alike =
        std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    return alike ? 1 : 2;
  };
  std::vector<size_t> row(to.size() + 1);
  for (size_t column = 0; column < row.size(); ++column) row[column] = 2 * column;
  for (const char letter : from) {
    size_t diagonal = std::exchange(row[0], row[0] + 2);
    for (size_t column = 1; column < row.size(); ++column) {
      const size_t exchanged = diagonal + price(letter, to[column - 1]);
      diagonal = row[column];
      row[column] = std::min({exchanged, row[column] + 2, row[column - 1] + 2});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known,
                         std::string_view prefix, std::string_view otherwise) {
  if (word.empty() || word.size() > kLongestWord) return std::string(otherwise);
  const size_t limit = std::max<size_t>(2, word.size() * 2 / 3);  // a third of the letters
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string_view name : known) {
    if (const size_t far = distance(word, name); far <= limit) near.emplace_back(far, name);
  }
  if (near.empty()) return std::string(otherwise);
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string names;
  for (size_t i = 0; i < std::min(near.size(), kMostNames); ++i) {
    if (near[i].first > near[0].first + 1) break;  // clearly worse than the best
    names += (names.empty() ? "" : " or ") + std::string(prefix) + std::string(near[i].second);
  }
  return "; did you mean " + names + "?";
}

}  // namespace ascendrt::base
