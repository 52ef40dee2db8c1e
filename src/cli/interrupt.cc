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

// Whether the program was started with a signal ignored, as `nohup` and shells without job control
// do for what runs in the background. Blocking it would change that: a blocked signal is delivered
// to a signalfd although it is ignored.
bool IsIgnored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

tl::unexpected<Error> NoDescriptor() {
  return Fail(ErrorCode::kInternal, "cannot watch for signals: no file descriptor to be had");
}

}  // namespace

Result<std::unique_ptr<Interrupt>> Interrupt::Make(StatusLine& status) {
  std::unique_ptr<Interrupt> interrupt(new Interrupt(status));
  interrupt->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (interrupt->wake_fd_ < 0) return NoDescriptor();
  sigset_t mask;
  sigemptyset(&mask);
  bool any = false;
  for (const int signal : {SIGINT, SIGTERM}) {
    if (IsIgnored(signal)) continue;
    sigaddset(&mask, signal);
    any = true;
  }
  if (!any) return interrupt;
  if (pthread_sigmask(SIG_BLOCK, &mask, nullptr) != 0) {
    return Fail(ErrorCode::kInternal, "cannot block SIGINT and SIGTERM");
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
    if (::read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      Note(static_cast<int>(info.ssi_signo));
    }
  }
}

void Interrupt::Note(int signal) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int num_scopes = num_termination_scopes_ + (signal == SIGINT ? num_scopes_ : 0);
  const bool ends_program = num_scopes == 0 || requested_;
  requested_ = true;
  SignalFd(wake_fd_);
  if (!ends_program) return;
  if (num_delays_ == 0) EndProgram(signal);
  pending_signal_ = signal;
}

void Interrupt::EndProgram(int signal) {
  const std::unique_lock<std::timed_mutex> erased = status_.EraseForExit();
  if (signal == SIGTERM) {
    ::signal(SIGTERM, SIG_DFL);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    (void)pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
    (void)::raise(SIGTERM);
  }
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

TerminationScope::TerminationScope(Interrupt& interrupt) : interrupt_(interrupt) {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  ++interrupt_.num_termination_scopes_;
}

TerminationScope::~TerminationScope() {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  --interrupt_.num_termination_scopes_;
}

InterruptDelay::InterruptDelay(Interrupt& interrupt) : interrupt_(interrupt) {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  ++interrupt_.num_delays_;
}

InterruptDelay::~InterruptDelay() {
  std::lock_guard<std::mutex> lock(interrupt_.mutex_);
  --interrupt_.num_delays_;
  if (interrupt_.num_delays_ == 0 && interrupt_.pending_signal_ != 0) {
    interrupt_.EndProgram(interrupt_.pending_signal_);
  }
}

}  // namespace baton
