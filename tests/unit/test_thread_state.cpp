// The state of a thread beyond its end.
#include <cstdlib>
#include <thread>

#include "core/thread_state.hpp"
#include "test.hpp"

namespace {

using ascendrt::core::thread_state;

struct AtThreadEnd {
  int* seen;
  ~AtThreadEnd() { *seen = thread_state().last_error; }
};

struct AtProcessEnd {
  const void* state;
  ~AtProcessEnd() {
    if (&thread_state() != state) std::_Exit(3);
  }
};

}  // namespace

TEST(thread_state_answers_after_the_thread_cleaned_up) {
  int seen = -1;
  std::thread([&] {
    // Made before the state's own clean-up is registered, so destroyed after it.
    static thread_local AtThreadEnd late{&seen};
    late.seen = &seen;
    thread_state().last_error = 5;
  }).join();
  CHECK_EQ(seen, 0);  // a new state, not the destroyed one
}

TEST(thread_state_of_the_main_thread_outlives_static_objects) {
  static const AtProcessEnd checks_at_exit{&thread_state()};
  CHECK(checks_at_exit.state != nullptr);
}
