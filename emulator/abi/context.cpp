// Entries: contexts and their parameters. Must never: hold state of its own.
#include "core/context.hpp"

#include <string>

#include "abi/checks.hpp"
#include "core/runtime.hpp"
#include "core/state_callback.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

// The option as a number; 107000 when there is none of it.
int32_t option_of(const aclSysParamOpt& opt) {
  const int32_t number = raw(opt);
  if (number < ACL_OPT_DETERMINISTIC || number > ACL_OPT_ENABLE_KERNEL_EARLY_START) {
    refuse_value("argument opt is " + std::to_string(number) + ", not within 0..3");
  }
  return number;
}

}  // namespace

extern "C" {

aclError art_emu_aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return call<ApiId::aclrtCreateContext>([&] {
    check_not_null(context, "context");
    core::Device& device = core::runtime().device(deviceId);
    core::tell_opening(device);
    const auto made = core::Context::create(device, false);
    if (const auto main = made->default_stream()) core::tell_created(*main);
    core::thread_state().set_explicit(made);
    *context = made->handle();
  });
}

aclError art_emu_aclrtDestroyContext(aclrtContext context) {
  return call<ApiId::aclrtDestroyContext>([&] {
    check_not_null(context, "context");
    const auto found = core::find_context(context);
    if (!found) {
      base::fail(ACL_ERROR_RT_CONTEXT_NULL,
                 "the handle is no live context: it was destroyed before or never was one");
    }
    if (found->primary()) {
      base::fail(ACL_ERROR_RT_CONTEXT_NULL,
                 "the primary context of a device cannot be destroyed; use aclrtResetDevice");
    }
    core::ThreadState& thread = core::thread_state();
    if (thread.explicit_context == found && found->alive()) thread.set_explicit(nullptr);
    found->destroy();
  });
}

aclError art_emu_aclrtSetCurrentContext(aclrtContext context) {
  return call<ApiId::aclrtSetCurrentContext>([&] {
    check_not_null(context, "context");
    const auto found = core::find_context(context);
    if (!found || !found->alive()) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "the handle is no live context: it was destroyed, its device was reset, or it "
                 "never was one");
    }
    core::thread_state().set_explicit(found);
  });
}

aclError art_emu_aclrtGetCurrentContext(aclrtContext* context) {
  return call<ApiId::aclrtGetCurrentContext>([&] {
    check_not_null(context, "context");
    const auto current = core::current_context_or_null();
    if (!current) {
      base::fail(ACL_ERROR_RT_CONTEXT_NULL,
                 "the calling thread has no context; call aclrtSetDevice or aclrtSetCurrentContext",
                 base::Layer::kRuntimeNotStored);
    }
    *context = current->handle();
  });
}

aclError art_emu_aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  return call<ApiId::aclrtCtxGetCurrentDefaultStream>([&] {
    check_not_null(stream, "stream");
    *stream = core::current_context()->default_stream()->handle();
  });
}

aclError art_emu_aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return call<ApiId::aclrtCtxSetSysParamOpt>([&] {
    const int32_t option = option_of(opt);
    core::current_context()->set_parameter(option, value);
    core::runtime().set_parameter(option, value);
  });
}

aclError art_emu_aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return call<ApiId::aclrtCtxGetSysParamOpt>([&] {
    check_not_null(value, "value");
    const int32_t option = option_of(opt);
    const auto found = core::current_context()->parameter(option);
    if (!found) {
      base::fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                 "option " + std::to_string(option) + " was never set in this context",
                 base::Layer::kRuntimeNotStored);
    }
    *value = *found;
  });
}

aclError art_emu_aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return call<ApiId::aclrtSetSysParamOpt>(
      [&] { core::runtime().set_parameter(option_of(opt), value); });
}

aclError art_emu_aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return call<ApiId::aclrtGetSysParamOpt>([&] {
    check_not_null(value, "value");
    *value = core::runtime().parameter(option_of(opt));
  });
}

}  // extern "C"
