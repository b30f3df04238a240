// Entries: allocators of the client. Static models plan their memory when they are loaded and ask
// no allocator; single operators and models of open shapes do. Must never: hold state of its own.
#include "core/allocator.hpp"

#include <string>

#include "abi/boundary.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

base::Ref<core::AllocatorDesc> desc_of(aclrtAllocatorDesc handle) {
  check_not_null(handle, "allocatorDesc");
  auto desc = base::handles().get<core::AllocatorDesc>(handle);
  if (!desc) refuse_argument("argument allocatorDesc is no live description of an allocator");
  return desc;
}

template <auto member, class T>
void set(aclrtAllocatorDesc handle, T value, const char* name) {
  const auto desc = desc_of(handle);
  check_not_null(reinterpret_cast<const void*>(value), name);
  desc->allocator.*member = value;
}

template <class T>
void give(T* out, T value) {
  if (out != nullptr) *out = value;
}

void enter(aclrtStream stream, aclrtAllocatorDesc handle) {
  check_not_null(stream, "stream");
  const core::Allocator& made = desc_of(handle)->allocator;
  if (made.object == nullptr || made.allocate == nullptr || made.free == nullptr ||
      made.address_of == nullptr) {
    refuse_argument(
        "argument allocatorDesc lacks the allocator, or its function to allocate, to "
        "free, or to tell an address; set all four");
  }
  core::allocators().put(stream, {handle, made});
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)
using core::Allocator;

extern "C" {

aclrtAllocatorDesc art_emu_aclrtAllocatorCreateDesc(void) {
  return value<ApiId::aclrtAllocatorCreateDesc, aclrtAllocatorDesc>(
      nullptr, [] { return base::handles().insert(base::make_ref<core::AllocatorDesc>()); });
}

aclError art_emu_aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
  return call<ApiId::aclrtAllocatorDestroyDesc>([&] {
    desc_of(allocatorDesc);
    base::handles().remove<core::AllocatorDesc>(allocatorDesc);
  });
}

aclError art_emu_aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc,
                                            aclrtAllocator allocator) {
  return call<ApiId::aclrtAllocatorSetObjToDesc>(
      [&] { set<&Allocator::object>(allocatorDesc, allocator, "allocator"); });
}

aclError art_emu_aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                  aclrtAllocatorAllocFunc func) {
  return call<ApiId::aclrtAllocatorSetAllocFuncToDesc>(
      [&] { set<&Allocator::allocate>(allocatorDesc, func, "func"); });
}

aclError art_emu_aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                 aclrtAllocatorFreeFunc func) {
  return call<ApiId::aclrtAllocatorSetFreeFuncToDesc>(
      [&] { set<&Allocator::free>(allocatorDesc, func, "func"); });
}

aclError art_emu_aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                        aclrtAllocatorAllocAdviseFunc func) {
  return call<ApiId::aclrtAllocatorSetAllocAdviseFuncToDesc>(
      [&] { set<&Allocator::allocate_near>(allocatorDesc, func, "func"); });
}

aclError art_emu_aclrtAllocatorSetGetAddrFromBlockFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func) {
  return call<ApiId::aclrtAllocatorSetGetAddrFromBlockFuncToDesc>(
      [&] { set<&Allocator::address_of>(allocatorDesc, func, "func"); });
}

aclError art_emu_aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc) {
  return call<ApiId::aclrtAllocatorRegister>([&] { enter(stream, allocatorDesc); });
}

aclError art_emu_aclrtAllocatorGetByStream(
    aclrtStream stream, aclrtAllocatorDesc* allocatorDesc, aclrtAllocator* allocator,
    aclrtAllocatorAllocFunc* allocFunc, aclrtAllocatorFreeFunc* freeFunc,
    aclrtAllocatorAllocAdviseFunc* allocAdviseFunc,
    aclrtAllocatorGetAddrFromBlockFunc* getAddrFromBlockFunc) {
  return call<ApiId::aclrtAllocatorGetByStream>([&] {
    check_not_null(allocatorDesc, "allocatorDesc");
    check_not_null(stream, "stream");
    const auto found = core::allocators().of(stream);
    if (!found) refuse_argument("no allocator is registered for this stream");
    *allocatorDesc = found->desc;
    give(allocator, found->allocator.object);
    give(allocFunc, found->allocator.allocate);
    give(freeFunc, found->allocator.free);
    give(allocAdviseFunc, found->allocator.allocate_near);
    give(getAddrFromBlockFunc, found->allocator.address_of);
  });
}

aclError art_emu_aclrtAllocatorUnregister(aclrtStream stream) {
  return call<ApiId::aclrtAllocatorUnregister>([&] {
    check_not_null(stream, "stream");
    core::allocators().remove(stream);
  });
}

}  // extern "C"
