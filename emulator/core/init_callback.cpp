#include "core/init_callback.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/mutex.hpp"

namespace ascendrt::core {
namespace {

template <class Function>
class Registry {
 public:
  struct Entry {
    int32_t type;
    Function function;
    void* data;
  };

  void add(int32_t type, Function function, void* data) {
    check(function);
    const std::lock_guard lock(mutex_);
    const bool taken = std::any_of(entries_.begin(), entries_.end(),
                                   [&](const Entry& entry) { return entry.type == type; });
    if (taken && type != ACL_REG_TYPE_OTHER) {
      base::fail(ACL_ERROR_INTERNAL_ERROR,
                 "a function of type " + std::to_string(type) +
                     " is registered already; unregister it first",
                 base::Layer::kAcl);
    }
    entries_.push_back({type, function, data});
  }

  void remove(int32_t type, Function function) {
    check(function);
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.type == type && entry.function == function;
    });
    if (found == entries_.end()) {
      base::fail(ACL_ERROR_INTERNAL_ERROR,
                 "this function is not registered for type " + std::to_string(type),
                 base::Layer::kAcl);
    }
    entries_.erase(found);
  }

  std::vector<Entry> of(int32_t type) {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> found;
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(found),
                 [&](const Entry& entry) { return entry.type == type; });
    return found;
  }

 private:
  static void check(Function function) {
    if (function != nullptr) return;
    base::fail(ACL_ERROR_INVALID_PARAM, "argument cbFunc is a null pointer", base::Layer::kAcl);
  }

  base::RankedMutex mutex_{base::Rank::kRegistry};
  std::vector<Entry> entries_;
};

Registry<aclInitCallbackFunc>& inits() {
  static auto* const made = new Registry<aclInitCallbackFunc>;  // used at the end of the process
  return *made;
}

Registry<aclFinalizeCallbackFunc>& finals() {
  static auto* const made = new Registry<aclFinalizeCallbackFunc>;
  return *made;
}

// A client may pass any number for the enum.
int32_t number(const aclRegisterCallbackType& type) {
  int32_t value = 0;
  std::memcpy(&value, &type, sizeof value);
  return value;
}

void pass_on(base::Code code, const char* when) {
  if (code == 0) return;
  base::fail(code, std::string("a function registered for ") + when + " answered this code",
             base::Layer::kAcl);
}

}  // namespace

void add_init_callback(aclRegisterCallbackType type, aclInitCallbackFunc function, void* data) {
  inits().add(number(type), function, data);
}

void remove_init_callback(aclRegisterCallbackType type, aclInitCallbackFunc function) {
  inits().remove(number(type), function);
}

void add_finalize_callback(aclRegisterCallbackType type, aclFinalizeCallbackFunc function,
                           void* data) {
  finals().add(number(type), function, data);
}

void remove_finalize_callback(aclRegisterCallbackType type, aclFinalizeCallbackFunc function) {
  finals().remove(number(type), function);
}

void notify_init(aclRegisterCallbackType type, const std::string& config) {
  for (const auto& entry : inits().of(number(type))) {
    pass_on(entry.function(config.c_str(), config.size(), entry.data), "aclInit");
  }
}

void notify_finalize(aclRegisterCallbackType type) {
  for (const auto& entry : finals().of(number(type))) {
    pass_on(entry.function(entry.data), "aclFinalize");
  }
}

}  // namespace ascendrt::core
