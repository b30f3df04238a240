// Enumerated attributes: numbers in place of names and string values.
// Owns: decoding of the base-127 names and the replacement pass.
#include <optional>
#include <utility>

#include "model/om_proto.hpp"

namespace ascendrt::model {
namespace {

constexpr std::string_view kVersionAttr = "om_compress_version";
constexpr std::string_view kNamesAttr = "attr_name_enum";
constexpr std::string_view kValuesAttr = "attr_value_enum";
constexpr std::string_view kIsStringAttr = "attrs_use_string_value";

[[noreturn]] void malformed(const std::string& text) {
  throw wire::Malformed{0, "enumerated attributes: " + text};
}

class Expander {
 public:
  Expander(const AttrDictionary& dictionary, uint64_t budget_bytes)
      : dictionary_(dictionary), budget_(budget_bytes) {}

  void expand(AttrMap& attrs) {
    for (Attr& attr : attrs.items()) {
      // Names that do not start with a zero byte are plain.
      if (!attr.name.empty() && attr.name[0] == '\0') expand(attr);
    }
    // Genuine files hold some names both ways; the plain ones come later and are the newer values.
    attrs.keep_last();
  }
  void expand(std::vector<TensorDesc>& descs) {
    for (TensorDesc& desc : descs) expand(desc.attrs);
  }

 private:
  // 0x00, then digits to base 127, least significant first, each stored plus one.
  static size_t decode(const std::string& name, size_t limit) {
    size_t index = 0;
    for (size_t i = name.size(); i-- > 1;) {
      const auto digit = static_cast<uint8_t>(name[i]);
      if (digit == 0 || digit > 127) malformed("a name holds an impossible digit");
      index = index * 127 + (digit - 1U);
      if (index >= limit)
        malformed("a name has number " + std::to_string(index) + ", the list has " +
                  std::to_string(limit));
    }
    if (name.size() < 2 || index >= limit) malformed("a name has no number");
    return index;
  }

  const std::string& value_at(int64_t number) {
    if (number < 0 || static_cast<uint64_t>(number) >= dictionary_.values.size()) {
      malformed("a value has number " + std::to_string(number) + ", the list has " +
                std::to_string(dictionary_.values.size()));
    }
    const std::string& value = dictionary_.values[static_cast<size_t>(number)];
    budget_.charge(sizeof(std::string) + value.size(), 0);
    return value;
  }

  void expand(Attr& attr) {
    const size_t index = decode(attr.name, dictionary_.names.size());
    budget_.charge(dictionary_.names[index].size(), 0);
    attr.name = dictionary_.names[index];
    if (!dictionary_.is_string[index]) return;
    if (const auto* number = attr.value.as<int64_t>()) {
      attr.value = std::string(value_at(*number));
    } else if (const auto* numbers = attr.value.as<std::vector<int64_t>>()) {
      std::vector<std::string> strings;
      for (int64_t each : *numbers) strings.push_back(value_at(each));
      attr.value = std::move(strings);
    } else if (attr.value.as<EmptyList>() != nullptr) {
      attr.value = std::vector<std::string>{};
    }
  }

  const AttrDictionary& dictionary_;
  wire::Budget budget_;
};

template <class T>
T take(AttrMap& attrs, std::string_view name) {
  AttrValue* value = attrs.find(name);
  const T* list = value == nullptr ? nullptr : value->as<T>();
  T taken = list == nullptr ? T{} : *list;
  attrs.erase(name);
  return taken;
}

}  // namespace

std::optional<AttrDictionary> take_dictionary(Model& model) {
  if (!model.attrs.erase(kVersionAttr)) return std::nullopt;
  AttrDictionary dictionary;
  dictionary.names = take<std::vector<std::string>>(model.attrs, kNamesAttr);
  dictionary.values = take<std::vector<std::string>>(model.attrs, kValuesAttr);
  dictionary.is_string = take<std::vector<bool>>(model.attrs, kIsStringAttr);
  if (dictionary.is_string.size() < dictionary.names.size()) {
    malformed("there are " + std::to_string(dictionary.names.size()) + " names but " +
              std::to_string(dictionary.is_string.size()) + " kinds");
  }
  return dictionary;
}

void expand_attributes(Model& model, const AttrDictionary& dictionary, uint64_t budget_bytes) {
  Expander expander(dictionary, budget_bytes);
  for (Graph& graph : model.graphs) {
    for (Op& op : graph.ops) {
      expander.expand(op.attrs);
      expander.expand(op.input_descs);
      expander.expand(op.output_descs);
    }
  }
}

}  // namespace ascendrt::model
