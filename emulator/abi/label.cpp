// Entries: labels and jumps between bound streams. Must never: hold state of its own.
#include <string>

#include "abi/boundary.hpp"
#include "core/context.hpp"
#include "core/model_instance.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kMostLabels = 65535;  // of a process. src: manual of aclrtCreateLabel

base::Ref<core::Label> label_behind(aclrtLabel handle) {
  auto label = base::handles().get<core::Label>(handle);
  if (!label) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               "the label handle is no live label: it was destroyed or is the handle of something "
               "else");
  }
  return label;
}

[[noreturn]] void refuse_list() {
  base::fail(ACL_ERROR_RT_INVALID_HANDLE,
             "the label list is none that lives: it was destroyed or is the handle of something "
             "else");
}

base::Ref<core::Stream> own_stream(const base::Ref<core::Stream>& stream) {
  return core::in_current_context(stream);
}

}  // namespace

extern "C" {

aclError art_emu_aclrtCreateLabel(aclrtLabel* label) {
  return call<ApiId::aclrtCreateLabel>([&] {
    check_not_null(label, "label");
    const auto context = core::current_context();
    if (base::handles().live(base::Kind::kLabel) >= kMostLabels) {
      base::fail(ACL_ERROR_RT_INTERNAL_ERROR, std::to_string(kMostLabels) +
                                                  " labels exist, a process takes no more; destroy "
                                                  "labels that are no longer used");
    }
    *label = base::handles().insert(base::make_ref<core::Label>(context));
  });
}

aclError art_emu_aclrtSetLabel(aclrtLabel label, aclrtStream stream) {
  return call<ApiId::aclrtSetLabel>([&] {
    check_not_null(label, "label");
    check_not_null(stream, "stream");
    const auto found = label_behind(label);
    const auto queue = own_stream(core::stream_behind(stream));
    if (found->context.get() != &queue->context()) {
      base::fail(ACL_ERROR_RT_LABEL_CONTEXT, "the label was created in another context");
    }
    core::set_label(*found, *queue);
  });
}

aclError art_emu_aclrtDestroyLabel(aclrtLabel label) {
  return call<ApiId::aclrtDestroyLabel>([&] {
    check_not_null(label, "label");
    label_behind(label);
    base::handles().remove<core::Label>(label);  // tasks that jump to it keep it
  });
}

aclError art_emu_aclrtCreateLabelList(aclrtLabel* labels, size_t num, aclrtLabelList* labelList) {
  return call<ApiId::aclrtCreateLabelList>([&] {
    check_not_null(labels, "labels");
    check_not_null(labelList, "labelList");
    if (num == 0 || num > kMostLabels) {
      base::fail(
          ACL_ERROR_RT_PARAM_INVALID,
          "a list of " + std::to_string(num) + " labels; give 1 to " + std::to_string(kMostLabels));
    }
    auto list = base::make_ref<core::LabelList>();
    for (size_t i = 0; i < num; ++i) list->labels.push_back(label_behind(labels[i]));
    const auto context = core::current_context();
    *labelList = static_cast<aclrtLabelList>(base::handles().insert(list));
  });
}

aclError art_emu_aclrtDestroyLabelList(aclrtLabelList labelList) {
  return call<ApiId::aclrtDestroyLabelList>([&] {
    check_not_null(labelList, "labelList");
    if (!base::handles().remove<core::LabelList>(labelList)) refuse_list();
  });
}

aclError art_emu_aclrtSwitchLabelByIndex(void* ptr, uint32_t maxValue, aclrtLabelList labelList,
                                         aclrtStream stream) {
  return call<ApiId::aclrtSwitchLabelByIndex>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(labelList, "labelList");
    check_not_null(stream, "stream");
    const auto list = base::handles().get<core::LabelList>(labelList);
    if (!list) refuse_list();
    const auto found = core::stream_behind(stream);
    if (maxValue == 0 || maxValue > list->labels.size()) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument maxValue is " + std::to_string(maxValue) +
                                                 ", the list has " +
                                                 std::to_string(list->labels.size()) + " labels");
    }
    core::switch_label(ptr, maxValue, list, *own_stream(found));
  });
}

aclError art_emu_aclrtSwitchStream(void* leftValue, aclrtCondition cond, void* rightValue,
                                   aclrtCompareDataType dataType, aclrtStream trueStream,
                                   aclrtStream falseStream, aclrtStream stream) {
  return call<ApiId::aclrtSwitchStream>([&] {
    check_not_null(leftValue, "leftValue");
    check_not_null(rightValue, "rightValue");
    check_not_null(trueStream, "trueStream");
    check_not_null(stream, "stream");
    if (falseStream != nullptr) refuse_argument("argument falseStream must be a null pointer");
    const auto target = core::stream_behind(trueStream);
    const auto found = core::stream_behind(stream);
    const int32_t condition = raw(cond);
    const int32_t type = raw(dataType);
    if (condition < ACL_RT_EQUAL || condition > ACL_RT_LESS_OR_EQUAL ||
        type < ACL_RT_SWITCH_INT32 || type > ACL_RT_SWITCH_INT64) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "condition " + std::to_string(condition) +
                                                 " or data type " + std::to_string(type) +
                                                 " is unknown; give 0 to 5, and 0 or 1");
    }
    core::switch_stream(leftValue, condition, rightValue, type, *target, *own_stream(found));
  });
}

aclError art_emu_aclrtActiveStream(aclrtStream activeStream, aclrtStream stream) {
  return call<ApiId::aclrtActiveStream>([&] {
    check_not_null(activeStream, "activeStream");
    check_not_null(stream, "stream");
    const auto target = core::stream_behind(activeStream);
    core::active_stream(*target, *own_stream(core::stream_behind(stream)));
  });
}

}  // extern "C"
