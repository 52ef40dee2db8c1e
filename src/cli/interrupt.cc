#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "cli/exit_code.h"

namespace baton {
namespace {

void SignalFd(int fd) {
  const uint64_t one = 1;
  // An eventfd counter takes the write unless it is full, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
}

void DrainFd(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof(count));
}

// Whether the program was started with SIGINT ignored, as `nohup` and shells without job control do
// for what runs in the background. Blocking it would change that: a blocked signal is delivered to
// a signalfd although it is ignored.
bool IsIgnored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

tl::unexpected<Error> NoDescriptor() {
  return Fail(ErrorCode::kInternal, "cannot watch for SIGINT: no file descriptor to be had");
}

}  // namespace

Result<std::unique_ptr<Interrupt>> Interrupt::Make(StatusLine& status) {
  std::unique_ptr<Interrupt> interrupt(new Interrupt(status));
  interrupt->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (interrupt->wake_fd_ < 0) return NoDescriptor();
  if (IsIgnored(SIGINT)) return interrupt;
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &mask, nullptr) != 0) {
    return Fail(ErrorCode::kInternal, "cannot block SIGINT");
  }
  interrupt->signal_fd_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  interrupt->stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (interrupt->signal_fd_ < 0 || interrupt->stop_fd_ < 0) return NoDescriptor();
  Interrupt* self = interrupt.get();
  interrupt->thread_ = std::thread([self] { self->Wait(); });
  return interrupt;
}

Interrupt::~Interrupt() {
  if (thread_.joinable()) {
    SignalFd(stop_fd_);
    thread_.join();
  }
  for (const int fd : {signal_fd_, stop_fd_, wake_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Interrupt::Request() {
  std::lock_guard<std::mutex> lock(mutex_);
  requested_ = true;
  SignalFd(wake_fd_);
}

void Interrupt::Clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  requested_ = false;
  DrainFd(wake_fd_);
}

void Interrupt::Wait() {
  while (true) {
    std::array<pollfd, 2> waiting = {pollfd{.fd = signal_fd_, .events = POLLIN, .revents = 0},
                                     pollfd{.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if ((waiting[1].revents & POLLIN) != 0) return;
    signalfd_siginfo info;
    if (::read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) Note();
  }
}

void Interrupt::Note() {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool ends_program = num_scopes_ == 0 || requested_;
  requested_ = true;
  SignalFd(wake_fd_);
  if (!ends_program) return;
  is_end_pending_ = num_delays_ > 0;
  if (!is_end_pending_) EndProgram();
}

void Interrupt::EndProgram() {
  const std::unique_lock<std::timed_mutex> erased = status_.EraseForExit();
  // Not exit: other threads are at work, and nothing is left to be flushed.
  ::_exit(kExitInterrupted);
}

InterruptScope::InterruptScope(Interrupt& interrupt) : interrupt_(interrupt) {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  ++interrupt_.num_scopes_;
}

InterruptScope::~InterruptScope() {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  --interrupt_.num_scopes_;
}

InterruptDelay::InterruptDelay(Interrupt& interrupt) : interrupt_(interrupt) {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  ++interrupt_.num_delays_;
}

InterruptDelay::~InterruptDelay() {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  --interrupt_.num_delays_;
  if (interrupt_.num_delays_ == 0 && interrupt_.is_end_pending_) interrupt_.EndProgram();
}

}  // namespace baton
