#include "cli/interrupt.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "cli/exit_code.h"

namespace baton {
namespace {

bool IsReadable(int fd) {
  pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

// Waits until an interrupt is noted. A signal that got lost runs into the test's time limit.
void WaitFor(const Interrupt& interrupt) {
  while (!interrupt.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Interrupt, InsideAScopeItIsNotedAndForgotten) {
  StringOutput screen;
  StatusLine status(screen, true, nullptr);
  const auto interrupt = Interrupt::Make(status).value();
  const InterruptScope scope(*interrupt);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(IsReadable(interrupt->wake_fd()));
    ::kill(::getpid(), SIGINT);
    WaitFor(*interrupt);
    EXPECT_TRUE(IsReadable(interrupt->wake_fd()));
    interrupt->Clear();
    EXPECT_FALSE(interrupt->requested());
  }
}

TEST(Interrupt, InsideATerminationScopeSigtermIsNoted) {
  StringOutput screen;
  StatusLine status(screen, true, nullptr);
  const auto interrupt = Interrupt::Make(status).value();
  const TerminationScope scope(*interrupt);
  for (const int signal : {SIGTERM, SIGINT}) {
    ::kill(::getpid(), signal);
    WaitFor(*interrupt);
    EXPECT_TRUE(IsReadable(interrupt->wake_fd()));
    interrupt->Clear();
  }
}

class InterruptDeathTest : public ::testing::Test {
 protected:
  InterruptDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(InterruptDeathTest, OutsideAScopeItEndsTheProgramWithTheLineTakenAway) {
  EXPECT_EXIT(
      {
        FdOutput screen(STDERR_FILENO, "standard error");
        StatusLine status(screen, true, nullptr);
        const auto interrupt = Interrupt::Make(status).value();
        status.Draw("half way");
        ::kill(::getpid(), SIGINT);
        while (true) ::pause();
      },
      ::testing::ExitedWithCode(kExitInterrupted), "half way\r\x1b\\[K$");
}

TEST_F(InterruptDeathTest, TheSecondOneEndsTheProgram) {
  EXPECT_EXIT(
      {
        StringOutput screen;
        StatusLine status(screen, true, nullptr);
        const auto interrupt = Interrupt::Make(status).value();
        const InterruptScope scope(*interrupt);
        ::kill(::getpid(), SIGINT);
        WaitFor(*interrupt);
        ::kill(::getpid(), SIGINT);
        while (true) ::pause();
      },
      ::testing::ExitedWithCode(kExitInterrupted), "");
}

TEST_F(InterruptDeathTest, SigtermEndsTheProgramAsItsDefaultDoes) {
  EXPECT_EXIT(
      {
        FdOutput screen(STDERR_FILENO, "standard error");
        StatusLine status(screen, true, nullptr);
        const auto interrupt = Interrupt::Make(status).value();
        const InterruptScope scope(*interrupt);
        status.Draw("half way");
        ::kill(::getpid(), SIGTERM);
        while (true) ::pause();
      },
      ::testing::KilledBySignal(SIGTERM), "half way\r\x1b\\[K$");
}

TEST_F(InterruptDeathTest, ASecondSigtermEndsTheProgram) {
  EXPECT_EXIT(
      {
        StringOutput screen;
        StatusLine status(screen, true, nullptr);
        const auto interrupt = Interrupt::Make(status).value();
        const TerminationScope scope(*interrupt);
        ::kill(::getpid(), SIGTERM);
        WaitFor(*interrupt);
        ::kill(::getpid(), SIGTERM);
        while (true) ::pause();
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(InterruptDeathTest, ADelayPutsTheEndOff) {
  EXPECT_EXIT(
      {
        StringOutput screen;
        StatusLine status(screen, true, nullptr);
        const auto interrupt = Interrupt::Make(status).value();
        {
          const InterruptDelay delay(*interrupt);
          ::kill(::getpid(), SIGINT);
          WaitFor(*interrupt);
          [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, "whole", 5);
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(kExitInterrupted), "whole");
}

// Draws on a screen that takes nothing more, as a stopped terminal, and then is interrupted.
[[noreturn]] void DrawOnAStoppedTerminal() {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ::_exit(1);
  FdOutput screen(ends[1], "the terminal");
  StatusLine status(screen, true, nullptr);
  const auto interrupt = Interrupt::Make(status).value();
  std::atomic<int> num_drawn = 0;
  std::thread drawing([&] {
    const std::string line(4000, '=');
    while (true) {
      status.Draw(line);
      ++num_drawn;
    }
  });
  // A pipe is full after some dozens of lines; then no more is drawn.
  int seen = -1;
  while (seen != num_drawn || seen < 2) {
    seen = num_drawn;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(::getpid(), SIGINT);
  drawing.join();
  ::_exit(1);
}

TEST_F(InterruptDeathTest, AStoppedTerminalKeepsNobody) {
  EXPECT_EXIT(DrawOnAStoppedTerminal(), ::testing::ExitedWithCode(kExitInterrupted), "");
}

// 0 if SIGINT is left alone and the rest works.
[[noreturn]] void StartWithSigintIgnored() {
  ::signal(SIGINT, SIG_IGN);
  StringOutput screen;
  StatusLine status(screen, true, nullptr);
  const auto interrupt = Interrupt::Make(status).value();
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  ::kill(::getpid(), SIGINT);
  interrupt->Request();
  const bool wakes = IsReadable(interrupt->wake_fd());
  ::_exit(::sigismember(&blocked, SIGINT) == 0 && wakes ? 0 : 1);
}

TEST_F(InterruptDeathTest, WhatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(StartWithSigintIgnored(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace baton
