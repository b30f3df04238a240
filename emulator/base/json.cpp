#include "base/json.hpp"

#include <charconv>
#include <cstdint>

namespace ascendrt::base {
namespace {

class Parser {
 public:
  Parser(std::string_view text, size_t max_depth) : text_(text), max_depth_(max_depth) {}

  std::optional<Json> document() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark, as some editors write
    auto result = value();
    skip_space();
    if (!result || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool accept_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::optional<Json> value() {
    skip_space();
    if (at_ >= text_.size()) return std::nullopt;
    switch (text_[at_]) {
      case '{':
        return object();
      case '[':
        return array();
      case '"': {
        auto s = string();
        if (!s) return std::nullopt;
        return Json{std::move(*s)};
      }
      case 't':
        return accept_word("true") ? std::optional(Json{true}) : std::nullopt;
      case 'f':
        return accept_word("false") ? std::optional(Json{false}) : std::nullopt;
      case 'n':
        return accept_word("null") ? std::optional(Json{nullptr}) : std::nullopt;
      default:
        return number();
    }
  }

  std::optional<Json> object() {
    ++at_;
    if (++objects_ > max_depth_) return std::nullopt;
    JsonObject members;
    if (!accept('}')) {
      do {
        skip_space();
        auto key = string();
        if (!key || !accept(':')) return std::nullopt;
        auto member = value();
        if (!member) return std::nullopt;
        members.emplace_back(std::move(*key), std::move(*member));
      } while (accept(','));
      if (!accept('}')) return std::nullopt;
    }
    --objects_;
    return Json{std::move(members)};
  }

  std::optional<Json> array() {
    ++at_;
    if (++arrays_ > max_depth_) return std::nullopt;
    JsonArray items;
    if (!accept(']')) {
      do {
        auto item = value();
        if (!item) return std::nullopt;
        items.push_back(std::move(*item));
      } while (accept(','));
      if (!accept(']')) return std::nullopt;
    }
    --arrays_;
    return Json{std::move(items)};
  }

  std::optional<Json> number() {
    double result = 0;
    const auto [stop, status] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), result);
    const bool starts_well = text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9');
    if (status != std::errc() || !starts_well) return std::nullopt;
    at_ = static_cast<size_t>(stop - text_.data());
    return Json{result};
  }

  std::optional<std::string> string() {
    if (at_ >= text_.size() || text_[at_] != '"') return std::nullopt;
    ++at_;
    std::string result;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return result;
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c != '\\') {
        result.push_back(c);
      } else if (!escape(result)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  bool escape(std::string& result) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      result.push_back(kValues[i]);
      return true;
    }
    return c == 'u' && unicode(result);
  }

  // Code points are written as UTF-8; surrogate pairs are kept as two three-byte sequences, since
  // nothing here looks inside such strings.
  bool unicode(std::string& result) {
    if (at_ + 4 > text_.size()) return false;
    uint32_t code = 0;
    const char* first = text_.data() + at_;
    const auto [stop, status] = std::from_chars(first, first + 4, code, 16);
    if (status != std::errc() || stop != first + 4) return false;
    at_ += 4;
    if (code < 0x80) {
      result.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      result.push_back(static_cast<char>(0xC0 | code >> 6));
      result.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    } else {
      result.push_back(static_cast<char>(0xE0 | code >> 12));
      result.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
      result.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    return true;
  }

  std::string_view text_;
  size_t max_depth_;
  size_t at_ = 0;
  size_t objects_ = 0;
  size_t arrays_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<JsonObject>(&value);
  if (object == nullptr) return nullptr;
  for (const auto& [name, member] : *object) {
    if (name == key) return &member;
  }
  return nullptr;
}

std::optional<Json> parse_json(std::string_view text, size_t max_depth) {
  return Parser(text, max_depth).document();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') out += '\\';
    if (byte < 0x20) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      out += letter;
    }
  }
  return out + '"';
}

}  // namespace ascendrt::base
