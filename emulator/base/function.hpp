// A move-only callable with inline storage, for task bodies.
// Owns: the callable. Must never: be called twice at the same time or after being moved from.
#pragma once

#include <cstddef>
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
  static constexpr size_t kInlineBytes = 64;
  struct Ops {
    R (*call)(void*, Args&&...);
    void (*move)(void* to, void* from);  // moves and destroys the source
    void (*destroy)(void*);
  };
  template <class F>
  static constexpr Ops kInline = {[](void* s, Args&&... args) -> R {
                                    return (*static_cast<F*>(s))(std::forward<Args>(args)...);
                                  },
                                  [](void* to, void* from) {
                                    new (to) F(std::move(*static_cast<F*>(from)));
                                    static_cast<F*>(from)->~F();
                                  },
                                  [](void* s) { static_cast<F*>(s)->~F(); }};
  template <class F>
  static constexpr Ops kHeap = {
      [](void* s, Args&&... args) -> R {
        return (**static_cast<F**>(s))(std::forward<Args>(args)...);
      },
      [](void* to, void* from) { *static_cast<F**>(to) = *static_cast<F**>(from); },
      [](void* s) { delete *static_cast<F**>(s); }};

  void take(Function& other) {
    if (other.ops_ == nullptr) return;
    other.ops_->move(storage_, other.storage_);
    ops_ = std::exchange(other.ops_, nullptr);
  }
  void reset() {
    if (ops_ != nullptr) std::exchange(ops_, nullptr)->destroy(storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
  const Ops* ops_ = nullptr;
};

}  // namespace ascendrt::base
