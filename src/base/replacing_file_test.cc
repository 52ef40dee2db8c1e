#include "base/replacing_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace baton {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class ReplacingFileTest : public testing::Test {
 protected:
  ReplacingFileTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("replacing_") +
                 testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_((folder_ / "file").string()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ReplacingFileTest() override { fs::remove_all(folder_); }

  std::string Content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t Files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ReplacingFileTest, AppearsWhole) {
  Result<ReplacingFile> file = ReplacingFile::Create(path_);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->WriteAt(2, Bytes("cd")));
  ASSERT_TRUE(file->WriteAt(0, Bytes("a")));
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(file->Finish(6));
  EXPECT_EQ(Content(), std::string("a\0cd\0\0", 6));
  EXPECT_EQ(Files(), 1);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST_F(ReplacingFileTest, UnfinishedLeavesTheOldOne) {
  std::ofstream(path_) << "old";
  {
    Result<ReplacingFile> file = ReplacingFile::Create(path_);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->WriteAt(0, Bytes("new")));
    ReplacingFile moved = std::move(*file);
    EXPECT_EQ(Files(), 2);
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(Content(), "old");
}

TEST_F(ReplacingFileTest, TwoWritersDoNotMeet) {
  Result<ReplacingFile> first = ReplacingFile::Create(path_);
  Result<ReplacingFile> second = ReplacingFile::Create(path_);
  ASSERT_TRUE(first.has_value() && second.has_value());
  ASSERT_TRUE(first->WriteAt(0, Bytes("first")));
  ASSERT_TRUE(second->WriteAt(0, Bytes("second")));
  ASSERT_TRUE(second->Finish(6));
  ASSERT_TRUE(first->Finish(5));
  EXPECT_EQ(Content(), "first");
  EXPECT_EQ(Files(), 1);
}

TEST_F(ReplacingFileTest, NeverTakesThePlaceOfADeviceOrPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/null"), std::string("/dev/full")}) {
    const Result<ReplacingFile> file = ReplacingFile::Create(path);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_THAT(file.error().message, testing::HasSubstr("choose another name"));
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(ReplacingFileTest, KeepsTheModeOfTheOldOne) {
  std::ofstream(path_) << "old";
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  Result<ReplacingFile> file = ReplacingFile::Create(path_);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Finish(0));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_size, 0);
}

TEST_F(ReplacingFileTest, LinksStay) {
  fs::create_directory(folder_ / "far");
  const std::string far = (folder_ / "far" / "file").string();
  fs::create_symlink("far/file", path_);
  for (const std::string_view content : {"new", "newer"}) {  // the first of a file not yet there
    Result<ReplacingFile> file = ReplacingFile::Create(path_);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_TRUE(file->WriteAt(0, Bytes(content)));
    ASSERT_TRUE(file->Finish(content.size()));
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(far)));
    EXPECT_EQ(Content(), content);
  }
  EXPECT_EQ(Files(), 2);
}

TEST_F(ReplacingFileTest, SaysWhatCannotBeWritten) {
  const Result<ReplacingFile> file = ReplacingFile::Create((folder_ / "no" / "file").string());
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, testing::HasSubstr("no/file': No such file or directory"));
  const Result<ReplacingFile> over_folder = ReplacingFile::Create(folder_.string());
  ASSERT_FALSE(over_folder.has_value());
  EXPECT_THAT(over_folder.error().message, testing::HasSubstr("Is a directory"));
  fs::create_symlink("file", path_);
  const Result<ReplacingFile> loop = ReplacingFile::Create(path_);
  ASSERT_FALSE(loop.has_value());
  EXPECT_THAT(loop.error().message, testing::HasSubstr("Too many levels of symbolic links"));
}

}  // namespace
}  // namespace baton
