#include "kv/saved_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kBlockBytes = 192;
constexpr SavedSequenceKind kKind = {.key = {1, 2}, .block_bytes = kBlockBytes};

class SavedSequenceTest : public testing::TestWithParam<int> {
 protected:
  SavedSequenceTest()
      : path_((std::filesystem::path(testing::TempDir()) / "saved_sequence_test.kv").string()) {
    tokens_.resize(static_cast<size_t>(GetParam()));
    std::iota(tokens_.begin(), tokens_.end(), 7);
    blocks_.resize((tokens_.size() + 63) / 64);
    for (size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].resize(kBlockBytes);
      for (size_t i = 0; i < kBlockBytes; ++i) {
        blocks_[b][i] = static_cast<std::byte>(17 * b + 3 * i);
      }
    }
  }
  ~SavedSequenceTest() override { std::filesystem::remove(path_); }

  void Save() {
    std::vector<const std::byte*> pointers;
    for (const auto& block : blocks_) pointers.push_back(block.data());
    ASSERT_TRUE(SaveSequence({.path = path_,
                              .kind = kKind,
                              .tokens = tokens_,
                              .blocks = pointers,
                              .progress = nullptr}));
  }
  // Whether opening and reading all blocks succeeds.
  bool ReadsWhole() const {
    const Result<SavedSequence> saved = SavedSequence::Open(path_, kKind, 1000);
    if (!saved) return false;
    std::vector<std::byte> block(kBlockBytes);
    for (int64_t b = 0; b < saved->num_blocks(); ++b) {
      if (!saved->ReadBlock(b, block)) return false;
    }
    return true;
  }
  std::string Content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetContent(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }

  std::string path_;
  std::vector<TokenId> tokens_;
  std::vector<std::vector<std::byte>> blocks_;
};

TEST_P(SavedSequenceTest, GivesBackWhatWasSaved) {
  ASSERT_NO_FATAL_FAILURE(Save());
  const Result<SavedSequence> saved = SavedSequence::Open(path_, kKind, GetParam());
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  EXPECT_EQ(saved->tokens(), tokens_);
  ASSERT_EQ(saved->num_blocks(), std::ssize(blocks_));
  std::vector<std::byte> block(kBlockBytes);
  for (int64_t b = saved->num_blocks() - 1; b >= 0; --b) {
    ASSERT_TRUE(saved->ReadBlock(b, block));
    EXPECT_EQ(block, blocks_[static_cast<size_t>(b)]);
  }
}

TEST_P(SavedSequenceTest, RefusesWhatDiffers) {
  ASSERT_NO_FATAL_FAILURE(Save());
  const Result<SavedSequence> other =
      SavedSequence::Open(path_, {.key = {1, 3}, .block_bytes = kBlockBytes}, 1000);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("another model"), HasSubstr("another --kv-type")));
  EXPECT_FALSE(SavedSequence::Open(path_, {.key = {1, 2}, .block_bytes = 128}, 1000).has_value());
  const Result<SavedSequence> long_one = SavedSequence::Open(path_, kKind, GetParam() - 1);
  ASSERT_FALSE(long_one.has_value());
  EXPECT_THAT(long_one.error().message, HasSubstr("--ctx"));
  EXPECT_EQ(SavedSequence::Open(path_ + "x", kKind, 1000).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(SavedSequence::Open(testing::TempDir(), kKind, 1000).error().code, ErrorCode::kInvalid);
}

TEST_P(SavedSequenceTest, ReplacesNothingButItsKind) {
  ASSERT_NO_FATAL_FAILURE(Save());
  EXPECT_TRUE(CheckSavePath(path_));
  ASSERT_NO_FATAL_FAILURE(Save());
  for (const std::string& content : {std::string("GGUF and more"), std::string("x")}) {
    SetContent(content);
    const Result<> refused = CheckSavePath(path_);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, HasSubstr("something else than a saved cache"));
    EXPECT_FALSE(SaveSequence(
        {.path = path_, .kind = kKind, .tokens = {}, .blocks = {}, .progress = nullptr}));
    EXPECT_EQ(Content(), content);
  }
  SetContent("");
  EXPECT_TRUE(CheckSavePath(path_));
  EXPECT_FALSE(CheckSavePath(testing::TempDir()));
}

TEST_P(SavedSequenceTest, NoticesEveryCutAndEveryChangedByte) {
  ASSERT_NO_FATAL_FAILURE(Save());
  const std::string whole = Content();
  ASSERT_TRUE(ReadsWhole());
  for (size_t size = 0; size < whole.size(); size += 13) {
    SetContent(whole.substr(0, size));
    EXPECT_FALSE(ReadsWhole()) << size;
  }
  SetContent(whole + "x");
  EXPECT_FALSE(ReadsWhole());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    SetContent(changed);
    EXPECT_FALSE(ReadsWhole()) << i;
  }
}

TEST_P(SavedSequenceTest, IsForItsOwnerOnly) {
  ASSERT_NO_FATAL_FAILURE(Save());
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms{0600});
}

TEST_P(SavedSequenceTest, MuchIsToldBeforeTheModelIsThere) {
  EXPECT_EQ(CheckLoadPath(path_).error().code, ErrorCode::kNotFound);
  ASSERT_NO_FATAL_FAILURE(Save());
  EXPECT_TRUE(CheckLoadPath(path_));
  SetContent("GGUF");
  EXPECT_EQ(CheckLoadPath(path_).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(CheckLoadPath(testing::TempDir()).error().code, ErrorCode::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Tokens, SavedSequenceTest, testing::Values(1, 63, 64, 65, 200));

}  // namespace
}  // namespace baton
