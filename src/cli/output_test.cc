#include "cli/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>

namespace baton {
namespace {

// A pipe that is full and that nobody reads.
class FullPipe : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    ASSERT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    ASSERT_GT(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
    ASSERT_EQ(::fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
    const std::string filling(1024, 'x');
    ssize_t written = 0;
    while ((written = ::write(ends_[1], filling.data(), filling.size())) > 0)
      num_filled_ += written;
    ASSERT_EQ(::fcntl(ends_[1], F_SETFL, 0), 0);
  }
  void TearDown() override {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  std::string Read(size_t size) {
    std::string text(size, '\0');
    size_t found = 0;
    while (found < size) {
      const ssize_t got = ::read(ends_[0], text.data() + found, size - found);
      if (got <= 0) break;
      found += static_cast<size_t>(got);
    }
    text.resize(found);
    return text;
  }

  std::array<int, 2> ends_ = {-1, -1};
  ssize_t num_filled_ = 0;
};

TEST_F(FullPipe, IsGivenUpWhenToldSo) {
  FdOutput out(ends_[1], "the log");
  int asked = 0;
  const Result<> done = out.WriteWhile("a line\n", [&] { return ++asked < 3; });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kDeadline);
  EXPECT_EQ(asked, 3);
  // Nothing is broken: once there is room again all goes through.
  Read(static_cast<size_t>(num_filled_));
  EXPECT_TRUE(out.WriteWhile("later\n", [] { return false; }).has_value());
  EXPECT_EQ(Read(6), "later\n");
}

TEST_F(FullPipe, ASlowReaderGetsEverything) {
  FdOutput out(ends_[1], "the log");
  const std::string text(50'000, 'y');
  std::string read;
  std::thread reader([&] { read = Read(static_cast<size_t>(num_filled_) + text.size()); });
  EXPECT_TRUE(out.WriteWhile(text, [] { return true; }).has_value());
  reader.join();
  EXPECT_EQ(read.substr(static_cast<size_t>(num_filled_)), text);
}

TEST_F(FullPipe, AReaderThatIsGoneIsNotWaitedFor) {
  FdOutput out(ends_[1], "the log");
  ::close(ends_[0]);
  ends_[0] = -1;
  const Result<> done = out.WriteWhile("a line\n", [] { return true; });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(out.reader_is_gone());
}

}  // namespace
}  // namespace baton
