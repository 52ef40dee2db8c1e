#include "base/replacing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

constexpr FileKind kAny = {.name = "anything", .holds = [](std::string_view) { return true; }};
constexpr FileKind kOld = {.name = "an old one",
                           .holds = [](std::string_view head) { return head.starts_with("old"); }};

// Files without a name until they are whole, and files with a temporary one.
enum class Way { kUnnamed, kNamed };

class ReplacingFileTest : public testing::TestWithParam<Way> {
 protected:
  ReplacingFileTest()
      : folder_(fs::path(testing::TempDir()) /
                fmt::format("replacing_{}_{}", static_cast<int>(GetParam()), ::getpid())),
        path_((folder_ / "file").string()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ReplacingFileTest() override { fs::remove_all(folder_); }

  static Result<ReplacingFile> Create(const std::string& path, const FileKind& kind) {
    return GetParam() == Way::kNamed ? ReplacingFile::CreateNamed(path, kind)
                                     : ReplacingFile::Create(path, kind);
  }
  mode_t ModeOf(const std::string& path) const {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 07777;
  }
  // Files beside the target while it is written.
  static int NumTemporary() { return GetParam() == Way::kNamed ? 1 : 0; }
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

TEST_P(ReplacingFileTest, AppearsWhole) {
  Result<ReplacingFile> file = Create(path_, kAny);
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

TEST_P(ReplacingFileTest, UnfinishedLeavesTheOldOne) {
  std::ofstream(path_) << "old";
  {
    Result<ReplacingFile> file = Create(path_, kAny);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->WriteAt(0, Bytes("new")));
    ReplacingFile moved = std::move(*file);
    EXPECT_EQ(Files(), 1 + NumTemporary());
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(Content(), "old");
}

TEST_P(ReplacingFileTest, TwoWritersDoNotMeet) {
  Result<ReplacingFile> first = Create(path_, kAny);
  Result<ReplacingFile> second = Create(path_, kAny);
  ASSERT_TRUE(first.has_value() && second.has_value());
  ASSERT_TRUE(first->WriteAt(0, Bytes("first")));
  ASSERT_TRUE(second->WriteAt(0, Bytes("second")));
  ASSERT_TRUE(second->Finish(6));
  ASSERT_TRUE(first->Finish(5));
  EXPECT_EQ(Content(), "first");
  EXPECT_EQ(Files(), 1);
}

TEST_P(ReplacingFileTest, NeverTakesThePlaceOfADeviceOrPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/null"), std::string("/dev/full")}) {
    const Result<ReplacingFile> file = Create(path, kAny);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_THAT(file.error().message, testing::HasSubstr("choose another name"));
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_P(ReplacingFileTest, KeepsTheModeOfTheOldOne) {
  std::ofstream(path_) << "old";
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  Result<ReplacingFile> file = Create(path_, kAny);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Finish(0));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_size, 0);
}

TEST_P(ReplacingFileTest, LinksStay) {
  fs::create_directory(folder_ / "far");
  const std::string far = (folder_ / "far" / "file").string();
  fs::create_symlink("far/file", path_);
  for (const std::string_view content : {"new", "newer"}) {  // the first of a file not yet there
    Result<ReplacingFile> file = Create(path_, kAny);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_TRUE(file->WriteAt(0, Bytes(content)));
    ASSERT_TRUE(file->Finish(content.size()));
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(far)));
    EXPECT_EQ(Content(), content);
  }
  EXPECT_EQ(Files(), 2);
}

TEST_P(ReplacingFileTest, SaysWhatCannotBeWritten) {
  const Result<ReplacingFile> file = Create((folder_ / "no" / "file").string(), kAny);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, testing::HasSubstr("no/file': No such file or directory"));
  const Result<ReplacingFile> over_folder = Create(folder_.string(), kAny);
  ASSERT_FALSE(over_folder.has_value());
  EXPECT_THAT(over_folder.error().message, testing::HasSubstr("Is a directory"));
  fs::create_symlink("file", path_);
  const Result<ReplacingFile> loop = Create(path_, kAny);
  ASSERT_FALSE(loop.has_value());
  EXPECT_THAT(loop.error().message, testing::HasSubstr("Too many levels of symbolic links"));
}

// Every refusal names the path, the reason and a way out.
TEST_P(ReplacingFileTest, SaysWhatToDo) {
  std::ofstream(folder_ / "plain") << "x";
  fs::create_symlink(folder_ / "no" / "file", folder_ / "link");
  const std::string in = folder_.string() + "/";
  const std::pair<std::string, std::string> cases[] = {
      {"/proc/x", "no file can be made in the folder /proc; choose another place"},
      {"/proc/self/x", "no file can be made in the folder /proc/self; choose another place"},
      {in + "no/x", "No such file or directory; make the folder first"},
      {in + "link", "No such file or directory; make the folder first"},
      {in + "no/", "Is a directory; name a file in it"},
      {in + "plain/x", "Not a directory; choose another name or place"},
      {in + std::string(300, 'n'), "File name too long; choose another name or place"},
      {"/dev/null", "a device or pipe is there; choose another name"},
  };
  for (const auto& [path, words] : cases) {
    const Result<ReplacingFile> file = Create(path, kAny);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_EQ(file.error().message, fmt::format("cannot write '{}': {}", path, words));
  }
}

TEST_P(ReplacingFileTest, ReplacesOnlyItsKind) {
  std::ofstream(path_) << "something";
  const Result<ReplacingFile> other = Create(path_, kOld);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(other.error().message,
              testing::HasSubstr("holds something else than an old one; remove it first"));
  EXPECT_EQ(Content(), "something");
  std::ofstream(path_) << "old and more";
  EXPECT_TRUE(Create(path_, kOld).has_value());
  std::ofstream(path_) << "";
  EXPECT_TRUE(Create(path_, kOld).has_value());
  EXPECT_EQ(Files(), 1);
}

TEST_P(ReplacingFileTest, PrivateIfNew) {
  FileKind kind = kAny;
  kind.is_private = true;
  for (const mode_t mode : {0600u, 0644u}) {  // the second time of an old file with that mode
    Result<ReplacingFile> file = Create(path_, kind);
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->Finish(1));
    EXPECT_EQ(ModeOf(path_), mode);
    ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  }
}

// /dev/stdout and /dev/fd/N are such links; the file behind them may be deleted.
TEST_P(ReplacingFileTest, ANameInProcIsNoPlace) {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  const std::string link = (folder_ / "link").string();
  fs::create_symlink(fmt::format("/proc/self/fd/{}", fd), link);
  for (const bool is_deleted : {false, true}) {
    if (is_deleted) fs::remove(path_);
    for (const std::string& path : {fmt::format("/dev/fd/{}", fd), link}) {
      const Result<ReplacingFile> file = Create(path, kAny);
      ASSERT_FALSE(file.has_value());
      EXPECT_THAT(file.error().message, testing::HasSubstr("name the file itself"));
    }
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(Files(), is_deleted ? 1 : 2);
  }
  ::close(fd);
}

TEST_P(ReplacingFileTest, AKilledWriterLeavesNothingForLong) {
  const pid_t child = ::fork();
  if (child == 0) {
    Result<ReplacingFile> file = Create(path_, kAny);
    const bool written = file && file->WriteAt(0, Bytes("half"));
    ::raise(written ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(Files(), NumTemporary());
  // What others write, and what only looks alike, stays.
  Result<ReplacingFile> other = ReplacingFile::CreateNamed(path_, kAny);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(Files(), 1);
  std::ofstream(path_ + ".1-x.tmp") << "mine";
  std::ofstream(path_ + "s.1-0.tmp") << "mine";
  std::ofstream(path_ + ".12-0.tmp") << "left over";
  Result<ReplacingFile> file = Create(path_, kAny);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(Files(), 3 + NumTemporary());
  ASSERT_TRUE(file->Finish(0));
  ASSERT_TRUE(other->Finish(0));
  EXPECT_EQ(Files(), 3);
}

TEST_P(ReplacingFileTest, TakesTheLongestNames) {
  const std::string longest = (folder_ / std::string(255, 'n')).string();
  for (int i = 0; i < 2; ++i) {
    Result<ReplacingFile> file = Create(longest, kAny);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_TRUE(file->Finish(0));
  }
  EXPECT_EQ(Files(), 1);
  const Result<ReplacingFile> longer = Create(longest + "n", kAny);
  ASSERT_FALSE(longer.has_value());
  EXPECT_THAT(longer.error().message, testing::HasSubstr("File name too long"));
}

INSTANTIATE_TEST_SUITE_P(Ways, ReplacingFileTest, testing::Values(Way::kUnnamed, Way::kNamed),
                         [](const auto& way) {
                           return way.param == Way::kNamed ? "named" : "unnamed";
                         });

}  // namespace
}  // namespace baton
