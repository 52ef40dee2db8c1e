// Several processes on one folder, some of which are killed or stopped in the middle of a write.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/rng.h"
#include "kv/disk_tier.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

// 1.1 MB, so that most of the time is spent writing.
const BlockLayout kLayout =
    BlockLayout::Make({.num_layers = 32, .num_kv_heads = 2, .head_dim = 64}).value();
const DiskBlockKind kKind = {.key = {.low = 1, .high = 2}, .layout = kLayout};
const uint64_t kFileBytes = DiskBlockFileBytes(kKind, kBlockTokens);

struct TestBlock {
  explicit TestBlock(uint64_t number) : tokens(kBlockTokens, static_cast<TokenId>(number)) {
    name = {.low = number * 0x9e3779b97f4a7c15u, .high = number};
    bytes.resize(kLayout.block_bytes());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number + i / 64);
  }
  DiskBlockId id() const { return {.name = name, .tokens = tokens}; }

  Hash128 name;
  std::vector<TokenId> tokens;
  std::vector<std::byte> bytes;
};

class DiskTierProcessesTest : public testing::Test {
 protected:
  DiskTierProcessesTest() : folder_(fs::path(testing::TempDir()) / "disk_tier_processes_test") {
    fs::remove_all(folder_);
    for (uint64_t number = 0; number < 16; ++number) blocks_.emplace_back(number);
  }
  ~DiskTierProcessesTest() override { fs::remove_all(folder_); }

  DiskTier OpenTier(uint64_t limit_bytes) {
    return DiskTier::Open({.folder = folder_.string(),
                           .limit_bytes = limit_bytes,
                           .kind = kKind,
                           .now_ns = WallClockNs})
        .value();
  }
  // Runs `work` in a process of its own, whose exit status is what it returns.
  static pid_t Start(FunctionRef<int()> work) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(work());
    return pid;
  }
  static int WaitFor(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }
  // Puts one block after the other until it is killed.
  int PutForEver(uint64_t limit_bytes) {
    DiskTier tier = OpenTier(limit_bytes);
    for (size_t i = 0; i < 1000000; ++i) {
      const TestBlock& block = blocks_[i % blocks_.size()];
      if (!tier.Put(block.id(), block.bytes)) return 1;
    }
    return 0;
  }
  // Waits, up to a second, until somebody writes, and a random moment more.
  void WaitForAWrite() {
    for (int i = 0; i < 20000 && NumTemporaries() == 0; ++i) {
      std::this_thread::sleep_for(microseconds(50));
    }
    const auto until = std::chrono::steady_clock::now() +
                       microseconds(static_cast<int64_t>(random_.NextBelow(300)));
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  int64_t NumTemporaries() const {
    if (!fs::exists(folder_)) return 0;
    return std::ranges::count_if(fs::directory_iterator(folder_), [](const auto& entry) {
      return entry.path().extension() == ".baton-new";
    });
  }
  // Bytes of all files but the ledger.
  uint64_t Bytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      struct stat status {};
      if (entry.path().filename() == DiskLedger::kFileName) continue;
      if (::stat(entry.path().c_str(), &status) != 0) continue;
      bytes += static_cast<uint64_t>(status.st_size);
    }
    return bytes;
  }
  // The same while processes run, taken while none adds or renames a file.
  uint64_t BytesUnderLock() const {
    const Descriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open()) return 0;  // not there yet
    const auto ledger = DiskLedger::Open(folder.get());
    const auto lock = ledger->TakeLock(10000);
    EXPECT_TRUE(lock.has_value());
    return Bytes();
  }

  fs::path folder_;
  std::vector<TestBlock> blocks_;
  RandomStream random_{{.seed = 1, .stream = 0}};
};

TEST_F(DiskTierProcessesTest, KilledInTheMiddleOfAWriteItLeavesNoHalfFile) {
  const uint64_t limit = 10 * kFileBytes;
  int in_the_middle = 0;
  for (int round = 0; round < 200 && in_the_middle < 15; ++round) {
    const pid_t pid = Start([&] { return PutForEver(limit); });
    WaitForAWrite();
    ::kill(pid, SIGKILL);
    const int status = WaitFor(pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    const int64_t left = NumTemporaries();
    in_the_middle += left > 0 ? 1 : 0;
    ASSERT_LE(left, 1);
    DiskTier tier = OpenTier(limit);
    ASSERT_EQ(NumTemporaries(), 0) << "what nobody writes any more is removed";
    std::vector<std::byte> bytes(kLayout.block_bytes());
    for (const TestBlock& block : blocks_) {
      if (tier.Get(block.id(), bytes)) {
        ASSERT_EQ(bytes, block.bytes);
      }
    }
    ASSERT_EQ(tier.counters().damaged + tier.counters().refused, 0);
  }
  EXPECT_EQ(in_the_middle, 15);
}

TEST_F(DiskTierProcessesTest, WhatAStoppedProcessIsWritingIsLeftToIt) {
  const uint64_t limit = 10 * kFileBytes;
  int in_the_middle = 0;
  for (int round = 0; round < 200 && in_the_middle < 5; ++round) {
    const pid_t pid = Start([&] { return PutForEver(limit); });
    WaitForAWrite();
    ::kill(pid, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
    ASSERT_TRUE(WIFSTOPPED(status)) << status;
    if (NumTemporaries() == 1) {
      ++in_the_middle;
      const DiskTier tier = OpenTier(limit);
      EXPECT_EQ(NumTemporaries(), 1);
      EXPECT_LE(Bytes(), limit);
    }
    ::kill(pid, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // It has gone on: had its file been taken away, it would have ended with 1.
    ASSERT_EQ(::waitpid(pid, &status, WNOHANG), 0);
    ::kill(pid, SIGKILL);
    WaitFor(pid);
    fs::remove_all(folder_);  // with what it was writing now
  }
  EXPECT_EQ(in_the_middle, 5);
}

TEST_F(DiskTierProcessesTest, AWriteThatTheSystemRefusesLeavesNothing) {
  const auto work = [&] {
    DiskTier tier = OpenTier(10 * kFileBytes);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {.rlim_cur = kFileBytes / 2, .rlim_max = RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
    for (int i = 0; i < 30; ++i) {
      const auto put = tier.Put(blocks_[0].id(), blocks_[0].bytes);
      if (put || put.error().code != ErrorCode::kInternal) return 2;
      if (NumTemporaries() != 0 || Bytes() != 0) return 3;
    }
    const rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0) return 4;
    for (size_t i = 0; i < 10; ++i) {
      if (!tier.Put(blocks_[i].id(), blocks_[i].bytes)) return 5;
    }
    return tier.counters().evicted == 0 ? 0 : 6;  // what failed is not counted
  };
  const int status = WaitFor(Start(work));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(DiskTierProcessesTest, ThreeProcessesShareAFolderAndItsLimit) {
  const uint64_t limit = 8 * kFileBytes;
  const auto work = [&](uint64_t seed) {
    RandomStream random({.seed = seed, .stream = 0});
    DiskTier tier = OpenTier(limit);
    std::vector<std::byte> bytes(kLayout.block_bytes());
    for (int i = 0; i < 300; ++i) {
      const TestBlock& block = blocks_[random.NextBelow(blocks_.size())];
      if (random.NextBelow(2) == 0) {
        if (tier.Get(block.id(), bytes) && bytes != block.bytes) return 2;
      } else {
        const auto put = tier.Put(block.id(), block.bytes);
        if (!put && put.error().code != ErrorCode::kUnavailable) return 3;
      }
    }
    const DiskTierCounters& counters = tier.counters();
    if (counters.damaged + counters.refused > 0) return 4;
    // A test that neither reads nor writes nor drops shows nothing.
    return counters.hits > 5 && counters.written > 5 && counters.evicted > 5 ? 0 : 5;
  };
  std::vector<pid_t> running;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    running.push_back(Start([&] { return work(seed); }));
  }
  uint64_t most = 0;
  while (!running.empty()) {
    most = std::max(most, BytesUnderLock());
    std::this_thread::sleep_for(microseconds(500));
    int status = 0;
    if (::waitpid(running.back(), &status, WNOHANG) == 0) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    running.pop_back();
  }
  EXPECT_LE(most, limit);
  EXPECT_GT(most, limit / 2);
  EXPECT_LE(Bytes(), limit);
  EXPECT_EQ(NumTemporaries(), 0);
}

}  // namespace
}  // namespace baton
