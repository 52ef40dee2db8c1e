#include "format/packed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace baton {
namespace {

using testing::HasSubstr;

std::vector<std::byte> Bytes(size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<int>(i) * 31 + seed);
  }
  return bytes;
}

Hash128 KeyOf(std::string_view text) {
  return Hasher().Add(text).Finish();
}

class PackedFileTest : public testing::Test {
 protected:
  static constexpr PackedFile::Expected kAbout = {.source = {1, 2}, .layout_version = 7};

  PackedFileTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()),
        path_((folder_ / "m.packed").string()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~PackedFileTest() override { std::filesystem::remove_all(folder_); }

  // Matrices "a" of 5,000 bytes and "b" of 64.
  void WriteTwo() {
    Result<PackedWriter> writer = PackedWriter::Create(path_, kAbout, 2);
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    ASSERT_TRUE(writer->Add(KeyOf("a"), Bytes(5000, 1)));
    ASSERT_TRUE(writer->Add(KeyOf("b"), Bytes(64, 2)));
    ASSERT_TRUE(writer->Finish());
  }
  std::string Content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetContent(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }
  size_t FilesInFolder() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                             std::filesystem::directory_iterator()));
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(PackedFileTest, GivesBackWhatWasWritten) {
  ASSERT_NO_FATAL_FAILURE(WriteTwo());
  EXPECT_EQ(FilesInFolder(), 1u);
  const Result<PackedFile> file = PackedFile::Open(path_, kAbout);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->num_entries(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(file->CheckEntry(i));
  const auto a = file->Find(KeyOf("a"));
  const auto b = file->Find(KeyOf("b"));
  ASSERT_TRUE(a && b);
  EXPECT_THAT(*a, testing::ElementsAreArray(Bytes(5000, 1)));
  EXPECT_THAT(*b, testing::ElementsAreArray(Bytes(64, 2)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 64, 0u);
  EXPECT_FALSE(file->Find(KeyOf("c")).has_value());
}

TEST_F(PackedFileTest, RefusesAnotherModelOrVersion) {
  ASSERT_NO_FATAL_FAILURE(WriteTwo());
  const Result<PackedFile> stale = PackedFile::Open(path_, {{1, 3}, 7});
  ASSERT_FALSE(stale.has_value());
  EXPECT_THAT(stale.error().message, HasSubstr("stale"));
  EXPECT_THAT(stale.error().message, HasSubstr("baton pack"));
  const Result<PackedFile> other = PackedFile::Open(path_, {{1, 2}, 8});
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("another version"));
  SetContent("GGUF");
  EXPECT_EQ(PackedFile::Open(path_, kAbout).error().code, ErrorCode::kInvalid);
}

TEST_F(PackedFileTest, NoticesEveryCutAndEveryChangedByte) {
  ASSERT_NO_FATAL_FAILURE(WriteTwo());
  const std::string whole = Content();
  for (size_t size = 1; size < whole.size(); size += 509) {
    SetContent(whole.substr(0, size));
    EXPECT_FALSE(PackedFile::Open(path_, kAbout).has_value()) << size;
  }
  size_t padding = 0;
  for (size_t i = 0; i < whole.size(); i += 61) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    SetContent(changed);
    const Result<PackedFile> file = PackedFile::Open(path_, kAbout);
    if (!file) continue;
    const bool noticed = !file->CheckEntry(0) || !file->CheckEntry(1);
    // Between the parts of the file there are zeros that nobody reads.
    if (!noticed) {
      EXPECT_EQ(whole[i], '\0') << i;
      ++padding;
    }
  }
  EXPECT_LT(padding * 61, whole.size() - 5000 - 64 - 64 - 96 + 61);
}

TEST_F(PackedFileTest, AnUnfinishedFileLeavesTheOldOne) {
  ASSERT_NO_FATAL_FAILURE(WriteTwo());
  const std::string before = Content();
  {
    Result<PackedWriter> writer = PackedWriter::Create(path_, {{9, 9}, 7}, 2);
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE(writer->Add(KeyOf("a"), Bytes(10, 1)));
    EXPECT_EQ(FilesInFolder(), 2u);
  }
  EXPECT_EQ(FilesInFolder(), 1u);
  EXPECT_EQ(Content(), before);
  EXPECT_FALSE(PackedWriter::Create((folder_ / "no" / "x").string(), kAbout, 1).has_value());
}

}  // namespace
}  // namespace baton
