#include "cli/serve_stop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "cli/exit_code.h"

namespace baton {

ServeStop::ServeStop(Console& console, int64_t drain_seconds)
    : console_(console),
      drain_seconds_(drain_seconds),
      end_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

ServeStop::~ServeStop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(end_fd_, &one, sizeof(one));
  thread_.join();
  ::close(end_fd_);
}

void ServeStop::SetActions(Actions actions) {
  const std::lock_guard lock(mutex_);
  actions_ = std::move(actions);
}

bool ServeStop::WaitForEnd(int64_t timeout_ms, bool or_signal) const {
  std::array<pollfd, 2> waiting = {
      pollfd{.fd = end_fd_, .events = POLLIN, .revents = 0},
      pollfd{.fd = console_.interrupt.wake_fd(), .events = POLLIN, .revents = 0}};
  while (::poll(waiting.data(), or_signal ? 2 : 1, static_cast<int>(timeout_ms)) < 0) {
  }
  return (waiting[0].revents & POLLIN) != 0;
}

void ServeStop::Run() {
  if (WaitForEnd(-1, /*or_signal=*/true)) return;
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    if (!actions_.drain) {
      const std::unique_lock<std::timed_mutex> erased = console_.status.EraseForExit();
      // Not exit: a model is being loaded, and nothing is left to be flushed.
      ::_exit(kExitOk);
    }
    actions = actions_;
  }
  actions.drain();
  if (!WaitForEnd(drain_seconds_ * 1000, /*or_signal=*/false)) actions.stop();
}

}  // namespace baton
