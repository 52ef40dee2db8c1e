#pragma once

#include <chrono>
#include <thread>

namespace baton {

// Whether it comes to be, within five seconds. For tests.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace baton
