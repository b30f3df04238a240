// A move-only callable with inline storage, for task bodies.
// Owns: the callable. Must never: be called twice at the same time or after being moved from.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace ascendrt::base {

template <class Signature>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, Function> && std::is_invocable_r_v<R, F&, Args...>)
  Function(F&& f) {  // NOLINT(google-explicit-constructor)
    using Stored = std::decay_t<F>;
    if constexpr (sizeof(Stored) <= kInlineBytes && alignof(Stored) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<Stored>) {
      new (storage_) Stored(std::forward<F>(f));
      ops_ = &kInline<Stored>;
    } else {
      *reinterpret_cast<Stored**>(storage_) = new Stored(std::forward<F>(f));
      ops_ = &kHeap<Stored>;
    }
  }
  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Function() { reset(); }

  explicit operator bool() const { return ops_ != nullptr; }
  R operator()(Args... args) { return ops_->call(storage_, std::forward<Args>(args)...); }

 private:
  static constexpr size_t kInlineBytes = 48;
  struct Ops {
    R (*call)(void*, Args&&...);
    void (*move)(void* to, void* from);  // moves and destroys the source; null: copy the bytes
    void (*destroy)(void*);              // null: nothing to do
  };
  template <class F>
  static R call_inline(void* s, Args&&... args) {
    return (*static_cast<F*>(s))(std::forward<Args>(args)...);
  }
  template <class F>
  static constexpr Ops inline_ops() {
    if constexpr (std::is_trivially_copyable_v<F>) return {call_inline<F>, nullptr, nullptr};
    return {call_inline<F>,
            [](void* to, void* from) {
              new (to) F(std::move(*static_cast<F*>(from)));
              static_cast<F*>(from)->~F();
            },
            [](void* s) { static_cast<F*>(s)->~F(); }};
  }
  template <class F>
  static constexpr Ops kInline = inline_ops<F>();
  template <class F>
  static constexpr Ops kHeap = {[](void* s, Args&&... args) -> R {
                                  return (**static_cast<F**>(s))(std::forward<Args>(args)...);
                                },
                                nullptr, [](void* s) { delete *static_cast<F**>(s); }};

  void take(Function& other) {
    if (other.ops_ == nullptr) return;
    if (other.ops_->move == nullptr) {
      std::memcpy(storage_, other.storage_, kInlineBytes);
    } else {
      other.ops_->move(storage_, other.storage_);
    }
    ops_ = std::exchange(other.ops_, nullptr);
  }
  void reset() {
    const Ops* ops = std::exchange(ops_, nullptr);
    if (ops != nullptr && ops->destroy != nullptr) ops->destroy(storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
  const Ops* ops_ = nullptr;
};

}  // namespace ascendrt::base
