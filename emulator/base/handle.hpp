// Handles: what the client holds instead of an object's address.
// Owns: the PROT_NONE window, slots with generation and kind. A handle looks like a pointer, faults
// when dereferenced, and a dead, foreign or wrong-kind handle is recognised with certainty.
// Must never: hold a lock while an object is destroyed.
#pragma once

#include <cstdint>

#include "base/ref.hpp"

namespace ascendrt::base {

enum class Kind : uint8_t {
  kNone,
  kContext,
  kStream,
  kEvent,
  kNotify,
  kCntNotify,
  kLabel,
  kLabelList,
  kModelInstance,
  kRecordedTask,
  kTaskGroup,
  kCondition,
  kDataBuffer,
  kTensorDesc,
  kModelDesc,
  kDataset,
  kAipp,
  kConfig,
  kPhysicalMemory,
  kOther,
};

// Base of everything that can be behind a handle. T::kKind tells the kind statically.
class Object : public Counted {
 public:
  // The handle given out for this object; null until inserted.
  void* handle() const { return handle_; }

 private:
  friend class HandleTable;
  void* handle_ = nullptr;
};

class HandleTable {
 public:
  template <class T>
  void* insert(const Ref<T>& object) {
    return insert_object(object.get(), T::kKind);
  }
  // Null when the handle is null, foreign, dead, or of another kind.
  template <class T>
  Ref<T> get(const void* handle) {
    return adopt<T>(lookup(handle, T::kKind));
  }
  // Marks the handle dead at once; the object lives until its last Ref goes. Null as for get().
  template <class T>
  Ref<T> remove(const void* handle) {
    return adopt<T>(take(handle, T::kKind));
  }
  // Number of live handles of a kind, for leak reports and tests.
  uint32_t live(Kind kind) const;
  // True when the address lies in the window, dead or alive.
  bool in_window(const void* address) const;

 private:
  template <class T>
  static Ref<T> adopt(Object* retained) {
    Ref<T> ref(static_cast<T*>(retained));
    if (retained != nullptr) retained->release();
    return ref;
  }
  void* insert_object(Object* object, Kind kind);
  Object* lookup(const void* handle, Kind kind);  // returns a retained object or null
  Object* take(const void* handle, Kind kind);    // returns a retained object or null
};

HandleTable& handles();

}  // namespace ascendrt::base
