// Entries: attributes of single operators. Must never: judge what an operator makes of them.
#include <string>
#include <vector>

#include "abi/op_objects.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

void set(aclopAttr* attr, const char* name, model::AttrValue value) {
  const auto target = live<OpAttr>(attr, "attr");
  check_not_null(name, "attrName");
  target->values.set(name, std::move(value));
}

template <class To, class From>
std::vector<To> list(int count, const From* values) {
  if (count < 0) refuse_argument("argument numValues is " + std::to_string(count));
  if (count > 0) check_not_null(values, "values");
  std::vector<To> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<To>(values[i]));
  return out;
}

std::vector<std::vector<int64_t>> lists(int count, const int* lengths,
                                        const int64_t* const* values) {
  if (count < 0) refuse_argument("argument numLists is " + std::to_string(count));
  if (count > 0) check_not_null(lengths, "numValues");
  if (count > 0) check_not_null(values, "values");
  std::vector<std::vector<int64_t>> out;
  for (int i = 0; i < count; ++i) out.push_back(list<int64_t>(lengths[i], values[i]));
  return out;
}

std::vector<std::string> texts(int count, const char** values) {
  std::vector<std::string> out;
  for (const char* text : list<const char*>(count, values)) {
    check_not_null(text, "values[i]");
    out.emplace_back(text);
  }
  return out;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclopAttr* art_emu_aclopCreateAttr(void) {
  return value<ApiId::aclopCreateAttr>(static_cast<aclopAttr*>(nullptr), [] {
    return static_cast<aclopAttr*>(base::handles().insert(base::make_ref<OpAttr>()));
  });
}

void art_emu_aclopDestroyAttr(const aclopAttr* attr) {
  if (attr == nullptr) return;
  call<ApiId::aclopDestroyAttr>([&] { take<OpAttr>(attr, "attr"); });
}

aclError art_emu_aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return call<ApiId::aclopSetAttrBool>([&] { set(attr, attrName, attrValue != 0); });
}

aclError art_emu_aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return call<ApiId::aclopSetAttrInt>([&] { set(attr, attrName, attrValue); });
}

aclError art_emu_aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return call<ApiId::aclopSetAttrFloat>([&] { set(attr, attrName, attrValue); });
}

aclError art_emu_aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  return call<ApiId::aclopSetAttrString>([&] {
    check_not_null(attrValue, "attrValue");
    set(attr, attrName, std::string(attrValue));
  });
}

aclError art_emu_aclopSetAttrDataType(aclopAttr* attr, const char* attrName,
                                      aclDataType attrValue) {
  return call<ApiId::aclopSetAttrDataType>(
      [&] { set(attr, attrName, model::DataTypeAttr{raw(attrValue)}); });
}

aclError art_emu_aclopSetAttrListDataType(aclopAttr* attr, const char* attrName, int numValues,
                                          const aclDataType values[]) {
  return call<ApiId::aclopSetAttrListDataType>(
      [&] { set(attr, attrName, model::DataTypeList{list<int64_t>(numValues, values)}); });
}

aclError art_emu_aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues,
                                      const uint8_t* values) {
  return call<ApiId::aclopSetAttrListBool>(
      [&] { set(attr, attrName, list<bool>(numValues, values)); });
}

aclError art_emu_aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues,
                                     const int64_t* values) {
  return call<ApiId::aclopSetAttrListInt>(
      [&] { set(attr, attrName, list<int64_t>(numValues, values)); });
}

aclError art_emu_aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues,
                                       const float* values) {
  return call<ApiId::aclopSetAttrListFloat>(
      [&] { set(attr, attrName, list<float>(numValues, values)); });
}

aclError art_emu_aclopSetAttrListString(aclopAttr* attr, const char* attrName, int numValues,
                                        const char** values) {
  return call<ApiId::aclopSetAttrListString>(
      [&] { set(attr, attrName, texts(numValues, values)); });
}

aclError art_emu_aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists,
                                         const int* numValues, const int64_t* const values[]) {
  return call<ApiId::aclopSetAttrListListInt>(
      [&] { set(attr, attrName, lists(numLists, numValues, values)); });
}

}  // extern "C"
