#include "format/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "format/gguf.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("baton_mapped_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  fs::path folder_;
};

TEST_F(MappedFileTest, HoldsTheBytesOfTheFile) {
  const std::string content(3 * 4096 + 17, 'x');
  Result<MappedFile> file = MappedFile::Open(Write("f", content));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  MappedFile moved = *std::move(file);
  const auto bytes = moved.bytes();
  ASSERT_EQ(bytes.size(), content.size());
  moved.Release(bytes.subspan(100, 9000));
  moved.Release(bytes.subspan(100, 10));
  for (const std::byte byte : bytes) ASSERT_EQ(byte, std::byte{'x'});
}

TEST_F(MappedFileTest, RefusesWhatIsNoFile) {
  const auto missing = MappedFile::Open((folder_ / "none").string());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("none: there is no such file"));

  const auto folder = MappedFile::Open(folder_.string());
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(folder.error().message, HasSubstr("is a folder"));

  const auto empty = MappedFile::Open(Write("empty", ""));
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(empty.error().message, HasSubstr("is empty"));

  const auto device = MappedFile::Open("/dev/null");
  EXPECT_EQ(device.error().code, ErrorCode::kInvalid);

  const auto nul = MappedFile::Open(std::string("a\0b", 3));
  EXPECT_EQ(nul.error().code, ErrorCode::kInvalid);
}

// Without O_NONBLOCK this would wait for a writer for ever.
TEST_F(MappedFileTest, NeverWaitsOnAPipe) {
  const std::string path = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto pipe = GgufFile::Open(path);
  ASSERT_FALSE(pipe.has_value());
  EXPECT_EQ(pipe.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(pipe.error().message, HasSubstr("is a pipe"));
}

TEST_F(MappedFileTest, NoPermission) {
  const std::string path = Write("secret", "GGUF");
  fs::permissions(path, fs::perms::none);
  // Root may read everything, so the test is somebody else for a moment.
  constexpr uid_t kNobody = 65534;
  const uid_t self = geteuid();
  if (self == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const auto file = MappedFile::Open(path);
  if (self == 0) {
    ASSERT_EQ(seteuid(self), 0);
  }
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(file.error().message, HasSubstr("no permission to read it"));
}

TEST_F(MappedFileTest, TinyModels) {
  EXPECT_THAT(GgufFile::Open(Write("a.gguf", "GGUF")).error().message,
              HasSubstr("a.gguf: at byte 4: the file ends inside the version"));
  EXPECT_THAT(GgufFile::Open(Write("b.gguf", "G")).error().message,
              HasSubstr("b.gguf: at byte 0: the file ends inside the magic number"));
  EXPECT_THAT(GgufFile::Open(Write("c.gguf", "PK\x03\x04 and so on")).error().message,
              HasSubstr("not a GGUF file: it starts with \"PK\\x03\\x04\""));
}

}  // namespace
}  // namespace baton
