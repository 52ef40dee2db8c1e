#include "kv/disk_tier.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "kv/disk_block_file.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const BlockLayout kLayout =
    BlockLayout::Make({.num_layers = 1, .num_kv_heads = 1, .head_dim = 16}).value();
constexpr Hash128 kKey = {.low = 1, .high = 2};

// The first blocks of a sequence of its own for each number.
struct TestBlock {
  explicit TestBlock(uint64_t number, int64_t depth = 1)
      : name{.low = number, .high = ~number}, tokens(static_cast<size_t>(depth * kBlockTokens)) {
    std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(1000 * number));
    bytes.resize(kLayout.block_bytes());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number + 7 * i);
  }
  DiskBlockId id() const { return {.name = name, .tokens = tokens}; }

  Hash128 name;
  std::vector<TokenId> tokens;
  std::vector<std::byte> bytes;
};

class DiskTierTest : public testing::Test {
 protected:
  DiskTierTest() : folder_(fs::path(testing::TempDir()) / "disk_tier_test") {
    fs::remove_all(folder_);
  }
  ~DiskTierTest() override { fs::remove_all(folder_); }

  DiskTierConfig Config(uint64_t limit_bytes) {
    return {.folder = folder_.string(),
            .limit_bytes = limit_bytes,
            .kind = {.key = kKey, .layout = kLayout},
            .now_ns = [this] { return now_ns_ += 1'000'000; }};
  }
  DiskTier OpenTier(uint64_t limit_bytes = 1 << 30) {
    return DiskTier::Open(Config(limit_bytes)).value();
  }
  static bool GetsRight(DiskTier& tier, const TestBlock& block) {
    std::vector<std::byte> bytes(kLayout.block_bytes());
    return tier.Get(block.id(), bytes) && bytes == block.bytes;
  }
  static bool Gets(DiskTier& tier, const TestBlock& block) {
    std::vector<std::byte> bytes(kLayout.block_bytes());
    return tier.Get(block.id(), bytes);
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename() != DiskLedger::kFileName) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  uint64_t Bytes() const {
    uint64_t bytes = 0;
    for (const fs::path& file : Files()) bytes += fs::file_size(file);
    return bytes;
  }
  static std::string Content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void SetContent(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  fs::path folder_;
  int64_t now_ns_ = 1'700'000'000'000'000'000;
};

uint64_t OneFile() {
  return DiskBlockFileBytes({.key = kKey, .layout = kLayout}, kBlockTokens);
}

TEST_F(DiskTierTest, GivesBackWhatWasPutAlsoToTheNextProcess) {
  {
    DiskTier tier = OpenTier();
    for (uint64_t i = 0; i < 5; ++i) {
      const TestBlock block(i, static_cast<int64_t>(1 + 40 * i));
      EXPECT_FALSE(tier.Has(block.name));
      EXPECT_EQ(tier.Put(block.id(), block.bytes).value(), true);
      EXPECT_EQ(tier.Put(block.id(), block.bytes).value(), false) << "it is there already";
      EXPECT_TRUE(tier.Has(block.name));
    }
  }
  DiskTier tier = OpenTier();
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(GetsRight(tier, TestBlock(i, static_cast<int64_t>(1 + 40 * i)))) << i;
  }
  EXPECT_FALSE(Gets(tier, TestBlock(9)));
  EXPECT_EQ(tier.counters().hits, 5);
  EXPECT_EQ(tier.counters().misses, 1);
  EXPECT_EQ(tier.counters().refused + tier.counters().damaged, 0);
  EXPECT_EQ(Files().size(), 5u);
}

TEST_F(DiskTierTest, NobodyElseMayReadIt) {
  DiskTier tier = OpenTier();
  const TestBlock block(1);
  ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  const auto others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(folder_).permissions() & others, fs::perms::none);
  EXPECT_EQ(fs::status(Files()[0]).permissions() & others, fs::perms::none);
}

TEST_F(DiskTierTest, RefusesWhatDiffersAndLeavesIt) {
  const TestBlock block(1, 3);
  {
    DiskTier tier = OpenTier();
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
    for (const size_t changed : {size_t{0}, size_t{100}, size_t{191}}) {
      TestBlock other = block;
      ++other.tokens[changed];
      EXPECT_FALSE(Gets(tier, other)) << "other tokens under the same name";
    }
    TestBlock shorter = block;
    shorter.tokens.resize(128);
    EXPECT_FALSE(Gets(tier, shorter));
    EXPECT_EQ(tier.counters().refused, 4);
  }
  DiskTierConfig config = Config(1 << 30);
  config.kind.key.high = 3;
  DiskTier other_model = DiskTier::Open(config).value();
  EXPECT_FALSE(Gets(other_model, block));
  EXPECT_EQ(other_model.counters().refused, 1);
  config = Config(1 << 30);
  // Another shape of the same size.
  config.kind.layout =
      BlockLayout::Make({.num_layers = 1, .num_kv_heads = 2, .head_dim = 16}).value();
  DiskTier other_layout = DiskTier::Open(config).value();
  std::vector<std::byte> bytes(config.kind.layout.block_bytes());
  EXPECT_FALSE(other_layout.Get(block.id(), bytes));
  EXPECT_EQ(other_layout.counters().refused, 1);

  DiskTier tier = OpenTier();
  EXPECT_TRUE(GetsRight(tier, block));
}

// The type is refused by itself: here nothing else differs, not even the size.
TEST_F(DiskTierTest, RefusesABlockOfAnotherTypeThanTheCache) {
  constexpr size_t kTypeAt = 80;
  constexpr size_t kChecksumAt = 120;
  const TestBlock block(1);
  DiskTier tier = OpenTier();
  ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  const std::string content = Content(Files()[0]);
  for (const KvType type : {KvType::kF16, KvType::kQ8}) {
    std::string changed = content;
    changed[kTypeAt] = static_cast<char>(type);
    const uint64_t checksum = Checksum64(std::as_bytes(std::span(changed)).first(kChecksumAt));
    std::memcpy(changed.data() + kChecksumAt, &checksum, sizeof(checksum));
    SetContent(Files()[0], changed);
    EXPECT_EQ(GetsRight(tier, block), type == KvType::kF16) << KvTypeName(type);
  }
  EXPECT_EQ(tier.counters().refused, 1);
  EXPECT_EQ(tier.counters().damaged, 0);
}

TEST_F(DiskTierTest, NoticesEveryCutAndEveryChangedByte) {
  DiskTier tier = OpenTier();
  const TestBlock block(1);
  ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  const fs::path file = Files().at(0);
  const std::string good = Content(file);
  ASSERT_EQ(good.size(), 128 + 256 + kLayout.block_bytes());
  int64_t damaged = 0;
  const auto expect_removed = [&](const std::string& content, const std::string& what) {
    SetContent(file, content);
    ASSERT_FALSE(Gets(tier, block)) << what;
    ASSERT_FALSE(fs::exists(file)) << what;
    ASSERT_EQ(tier.counters().damaged, ++damaged);
  };
  for (size_t length = 0; length < good.size(); ++length) {
    ASSERT_NO_FATAL_FAILURE(
        expect_removed(good.substr(0, length), "cut to " + std::to_string(length)));
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string content = good;
    content[at] = static_cast<char>(content[at] ^ (1 << (at % 8)));
    ASSERT_NO_FATAL_FAILURE(expect_removed(content, "changed at " + std::to_string(at)));
  }
  ASSERT_NO_FATAL_FAILURE(expect_removed(good + "x", "longer"));
  ASSERT_NO_FATAL_FAILURE(expect_removed(std::string(good.size(), '\0'), "zeros"));
  SetContent(file, good);
  EXPECT_TRUE(GetsRight(tier, block));
}

TEST_F(DiskTierTest, ABlockUnderAnothersNameIsDamaged) {
  DiskTier tier = OpenTier();
  const TestBlock first(1);
  const TestBlock second(2);
  ASSERT_TRUE(tier.Put(first.id(), first.bytes).has_value());
  const fs::path path = Files()[0];
  ASSERT_TRUE(tier.Put(second.id(), second.bytes).has_value());
  for (const fs::path& other : Files()) {
    if (other != path) fs::copy_file(path, other, fs::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(Gets(tier, second));
  EXPECT_EQ(tier.counters().damaged, 1);
  EXPECT_TRUE(GetsRight(tier, first));
}

TEST_F(DiskTierTest, KeepsTheLimitAndDropsTheLongestUnused) {
  const uint64_t limit = 20 * OneFile();
  DiskTier tier = OpenTier(limit);
  for (uint64_t i = 0; i < 20; ++i) {
    const TestBlock block(i);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  }
  EXPECT_EQ(Files().size(), 20u) << "exactly full";
  EXPECT_TRUE(GetsRight(tier, TestBlock(0)));
  EXPECT_EQ(tier.Put(TestBlock(2).id(), TestBlock(2).bytes).value(), false);
  for (uint64_t i = 20; i < 28; ++i) {
    const TestBlock block(i);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
    ASSERT_LE(Bytes(), limit);
  }
  EXPECT_TRUE(tier.Has(TestBlock(0).name)) << "read";
  EXPECT_TRUE(tier.Has(TestBlock(2).name)) << "put again";
  EXPECT_FALSE(tier.Has(TestBlock(1).name));
  EXPECT_FALSE(tier.Has(TestBlock(7).name));
  // What is gone is older than all that is left.
  bool gone_so_far = true;
  for (uint64_t i = 3; i < 28; ++i) {
    const bool gone = !tier.Has(TestBlock(i).name);
    EXPECT_TRUE(gone_so_far || !gone) << i;
    gone_so_far = gone;
  }
  EXPECT_EQ(tier.counters().evicted, 28 - std::ssize(Files()));
  EXPECT_GE(Files().size(), 18u) << "room is not made for more than a sixteenth";
}

TEST_F(DiskTierTest, OfASequenceTheEndGoesFirst) {
  const uint64_t bytes = 8 * DiskBlockFileBytes({.key = kKey, .layout = kLayout}, 8 * kBlockTokens);
  DiskTier tier = OpenTier(bytes);
  for (int64_t depth = 1; depth <= 8; ++depth) {
    const TestBlock block(static_cast<uint64_t>(depth), depth);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  }
  for (int64_t depth = 1; depth <= 8; ++depth) {
    ASSERT_TRUE(GetsRight(tier, TestBlock(static_cast<uint64_t>(depth), depth)));
  }
  now_ns_ += 60'000'000'000;
  for (uint64_t other = 100; tier.counters().evicted < 4; ++other) {
    const TestBlock block(other);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  }
  for (int64_t depth = 1; depth <= 8; ++depth) {
    EXPECT_EQ(tier.Has(TestBlock(static_cast<uint64_t>(depth), depth).name),
              depth <= 8 - tier.counters().evicted)
        << depth;
  }
}

TEST_F(DiskTierTest, ASmallerLimitIsKeptAtOnce) {
  {
    DiskTier tier = OpenTier();
    for (uint64_t i = 0; i < 10; ++i) {
      const TestBlock block(i);
      ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
    }
  }
  DiskTier tier = OpenTier(4 * OneFile());
  EXPECT_LE(Bytes(), 4 * OneFile());
  EXPECT_TRUE(GetsRight(tier, TestBlock(9)));
}

TEST_F(DiskTierTest, TimesOfAClockThatWasSetBackDoNotLastForEver) {
  DiskTier tier = OpenTier(4 * OneFile());
  now_ns_ += 3'600'000'000'000;
  const TestBlock future(1);
  ASSERT_TRUE(tier.Put(future.id(), future.bytes).has_value());
  now_ns_ -= 3'600'000'000'000;
  for (uint64_t i = 2; i < 6; ++i) {
    const TestBlock block(i);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  }
  EXPECT_FALSE(tier.Has(future.name));
  EXPECT_TRUE(tier.Has(TestBlock(5).name));
}

TEST_F(DiskTierTest, WhatIsNotNamedLikeOursIsNeverTouched) {
  fs::create_directories(folder_);
  const std::string name(32, 'a');
  const std::vector<std::string> names = {"notes.txt",
                                          name,
                                          name + ".baton-block.bak",
                                          name + "a.baton-block",
                                          std::string(32, 'A') + ".baton-block",
                                          std::string(31, 'a') + ".baton-new",
                                          std::string(32, 'x') + ".baton-new"};
  for (const std::string& each : names) SetContent(folder_ / each, std::string(100000, '!'));
  // Named like ours, and something else.
  fs::create_directory(folder_ / (std::string(32, 'b') + ".baton-block"));
  fs::create_directory(folder_ / (std::string(32, 'b') + ".baton-new"));
  fs::create_symlink("notes.txt", folder_ / (std::string(32, 'c') + ".baton-block"));
  fs::create_symlink("notes.txt", folder_ / (std::string(32, 'c') + ".baton-new"));

  DiskTier tier = OpenTier(3 * OneFile());
  for (uint64_t i = 0; i < 10; ++i) {
    const TestBlock block(i);
    ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  }
  for (const char c : {'b', 'c'}) {
    TestBlock block(1);
    block.name.low = block.name.high = 0x1111111111111111u * static_cast<uint64_t>(c - 'a' + 10);
    EXPECT_FALSE(Gets(tier, block));
    EXPECT_FALSE(tier.Put(block.id(), block.bytes).has_value());
  }
  EXPECT_EQ(tier.counters().refused, 2);
  EXPECT_EQ(tier.counters().damaged, 0);
  for (const std::string& each : names) {
    EXPECT_EQ(Content(folder_ / each), std::string(100000, '!')) << each;
  }
  EXPECT_TRUE(fs::is_directory(folder_ / (std::string(32, 'b') + ".baton-block")));
  EXPECT_TRUE(fs::is_directory(folder_ / (std::string(32, 'b') + ".baton-new")));
  EXPECT_TRUE(fs::is_symlink(folder_ / (std::string(32, 'c') + ".baton-block")));
  EXPECT_TRUE(fs::is_symlink(folder_ / (std::string(32, 'c') + ".baton-new")));
}

TEST_F(DiskTierTest, RefusesFoldersAndLimitsThatCannotBe) {
  const auto small = DiskTier::Open(Config(OneFile() - 1));
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(small.error().message, HasSubstr(std::to_string(OneFile())));

  DiskTierConfig config = Config(1 << 30);
  config.folder = (folder_ / "a" / "b").string();
  EXPECT_EQ(DiskTier::Open(config).error().code, ErrorCode::kInvalid);
  fs::create_directories(folder_);
  SetContent(folder_ / "file", "x");
  config.folder = (folder_ / "file").string();
  EXPECT_EQ(DiskTier::Open(config).error().code, ErrorCode::kInvalid);

  DiskTier tier = OpenTier(OneFile());
  const TestBlock deep(1, 100);
  const auto too_large = tier.Put(deep.id(), deep.bytes);
  ASSERT_FALSE(too_large.has_value());
  EXPECT_EQ(too_large.error().code, ErrorCode::kExhausted);
}

// With the words of Open, and nothing is made.
TEST_F(DiskTierTest, AFolderIsCheckedAsItIsOpened) {
  const auto check = [&](const std::string& folder) {
    const Result<> checked = CheckDiskFolder(folder);
    DiskTierConfig config = Config(1 << 30);
    config.folder = folder;
    const bool was_there = fs::exists(folder);
    const Result<DiskTier> opened = DiskTier::Open(config);
    EXPECT_EQ(checked.has_value(), opened.has_value()) << folder;
    if (!checked && !opened) {
      EXPECT_EQ(checked.error().message, opened.error().message);
    }
    if (!checked) {
      EXPECT_THAT(checked.error().message, HasSubstr("; choose another folder"));
    }
    EXPECT_TRUE(checked || was_there == fs::exists(folder));
    return checked.has_value();
  };
  const std::string in = folder_.string() + "/";
  EXPECT_FALSE(check(in + "a/b"));
  fs::create_directories(folder_);
  EXPECT_TRUE(CheckDiskFolder(in + "new").has_value());
  EXPECT_FALSE(fs::exists(in + "new"));
  EXPECT_TRUE(check(in + "new"));
  EXPECT_TRUE(check(in + "new/"));
  SetContent(folder_ / "file", "x");
  EXPECT_FALSE(check(in + "file"));
  EXPECT_FALSE(check(in + "file/x"));
  fs::create_symlink("nowhere", folder_ / "link");
  EXPECT_FALSE(check(in + "link"));
  fs::create_directories(fs::path(in + "taken") / DiskLedger::kFileName);
  EXPECT_FALSE(check(in + "taken"));
  EXPECT_FALSE(check("/proc/baton-cache"));
  EXPECT_FALSE(check("/proc/self"));
}

TEST_F(DiskTierTest, ALedgerThatIsDamagedOrGoneIsCountedAnew) {
  DiskTier tier = OpenTier(4 * OneFile());
  const auto put = [&](uint64_t number) {
    const TestBlock block(number);
    return tier.Put(block.id(), block.bytes).has_value();
  };
  ASSERT_TRUE(put(1) && put(2));
  const fs::path ledger = folder_ / DiskLedger::kFileName;
  const std::string good = Content(ledger);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string content = good;
    content[at] = static_cast<char>(content[at] ^ 0x40);
    SetContent(ledger, content);
    ASSERT_TRUE(put(100 + at));
    ASSERT_LE(Bytes(), 4 * OneFile()) << at;
  }
  SetContent(ledger, "");
  ASSERT_TRUE(put(3));
  ASSERT_LE(Bytes(), 4 * OneFile());
  // Removed by somebody: the ledger says too much until room is needed.
  for (const fs::path& file : Files()) fs::remove(file);
  for (uint64_t i = 10; i < 14; ++i) ASSERT_TRUE(put(i));
  EXPECT_EQ(Files().size(), 4u);
}

TEST_F(DiskTierTest, GoesOnWithoutStoringWhileSomebodyHoldsTheLedger) {
  DiskTier tier = OpenTier();
  const TestBlock first(1);
  ASSERT_TRUE(tier.Put(first.id(), first.bytes).has_value());
  const Descriptor ledger(::open((folder_ / DiskLedger::kFileName).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(ledger.get(), LOCK_EX), 0);
  const TestBlock second(2);
  const auto held = tier.Put(second.id(), second.bytes);
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(GetsRight(tier, first));
  EXPECT_TRUE(DiskTier::Open(Config(1 << 30)).has_value());
  ASSERT_EQ(::flock(ledger.get(), LOCK_UN), 0);
  EXPECT_TRUE(tier.Put(second.id(), second.bytes).has_value());
}

TEST_F(DiskTierTest, SurvivesTheLossOfItsFolder) {
  DiskTier tier = OpenTier();
  const TestBlock block(1);
  ASSERT_TRUE(tier.Put(block.id(), block.bytes).has_value());
  fs::remove_all(folder_);
  EXPECT_FALSE(Gets(tier, block));
  EXPECT_FALSE(tier.Has(block.name));
  EXPECT_EQ(tier.Put(block.id(), block.bytes).error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace baton
