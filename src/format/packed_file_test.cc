#include "format/packed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
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
  // One bit of byte i, another one of the next byte.
  void FlipBit(size_t i) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(i));
    const int old = file.get();
    file.seekp(static_cast<std::streamoff>(i));
    file.put(static_cast<char>(old ^ (1 << (i % 8))));
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
  SetContent(whole);
  for (size_t i = 0; i < whole.size(); ++i) {
    FlipBit(i);
    const Result<PackedFile> file = PackedFile::Open(path_, kAbout);
    EXPECT_FALSE(file && file->CheckEntry(0) && file->CheckEntry(1)) << i;
    FlipBit(i);
  }
}

TEST_F(PackedFileTest, WhateverIsThereTheWayOutIsTold) {
  const std::vector<std::function<void()>> makers = {
      [&] { SetContent(""); },
      [&] { SetContent("GG"); },
      [&] { std::filesystem::create_directory(path_); },
      [&] { ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0); },
      [&] { std::filesystem::create_symlink("m.packed", path_); },
      [&] {
        WriteTwo();
        std::filesystem::resize_file(path_, 100);
      },
  };
  for (const auto& make : makers) {
    make();
    const Result<PackedFile> file = PackedFile::Open(path_, kAbout);
    ASSERT_FALSE(file.has_value());
    EXPECT_NE(file.error().code, ErrorCode::kNotFound) << file.error().message;
    EXPECT_THAT(file.error().message,
                testing::MatchesRegex(".*/m.packed: [^;]*; delete it, make it anew \\(baton pack "
                                      ".*/m\\), or go without \\(--no-packed\\)"));
    std::filesystem::remove(path_);
  }
  // None is there, if only because no name can be so long.
  for (const std::string& path : {path_, path_ + std::string(250, 'x')}) {
    EXPECT_EQ(PackedFile::Open(path, kAbout).error().code, ErrorCode::kNotFound);
  }
}

TEST_F(PackedFileTest, ReplacesOnlyAPackedFile) {
  SetContent("the notes of a year");
  const Result<PackedWriter> refused = PackedWriter::Create(path_, kAbout, 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("something else than a packed model"));
  EXPECT_EQ(Content(), "the notes of a year");
}

TEST_F(PackedFileTest, AnUnfinishedFileLeavesTheOldOne) {
  ASSERT_NO_FATAL_FAILURE(WriteTwo());
  const std::string before = Content();
  {
    Result<PackedWriter> writer = PackedWriter::Create(path_, {{9, 9}, 7}, 2);
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE(writer->Add(KeyOf("a"), Bytes(10, 1)));
  }
  EXPECT_EQ(FilesInFolder(), 1u);
  EXPECT_EQ(Content(), before);
  EXPECT_FALSE(PackedWriter::Create((folder_ / "no" / "x").string(), kAbout, 1).has_value());
}

}  // namespace
}  // namespace baton
