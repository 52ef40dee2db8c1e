#include "cli/conversation_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace baton {
namespace {

using ::testing::HasSubstr;

const std::vector<ConversationMessage> kMessages = {
    {.role = "system", .content = "Be brief."},
    {.role = "user", .content = "Naïve \"question\"\n\twith lines"},
    {.role = "assistant", .content = "🦉"},
};

class ConversationFileTest : public ::testing::Test {
 protected:
  ConversationFileTest()
      : status_(screen_, /*live=*/false, nullptr), interrupt_(Interrupt::Make(status_).value()) {
    std::string name = ::testing::TempDir() + "conversation_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ConversationFileTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  Result<> Save(const std::string& path,
                const std::vector<ConversationMessage>& messages = kMessages) {
    return SaveConversation(path, messages, *interrupt_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  size_t NumFiles() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      (void)entry;
      ++count;
    }
    return count;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
  StringOutput screen_;
  StatusLine status_;
  std::unique_ptr<Interrupt> interrupt_;
};

TEST_F(ConversationFileTest, ComesBackAsItWent) {
  ASSERT_TRUE(Save(Path("a.json")).has_value());
  EXPECT_EQ(LoadConversation(Path("a.json")).value(), kMessages);
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ConversationFileTest, AFullDiskKeepsTheOldFile) {
  ASSERT_TRUE(Save(Path("a.json")).has_value());
  const std::string before = Contents(Path("a.json"));
  // A limit on file sizes fails a write in the same way as a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small = {.rlim_cur = 1024, .rlim_max = old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<> saved =
      Save(Path("a.json"), {{.role = "user", .content = std::string(100'000, 'x')}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, HasSubstr("cannot write '" + Path("a.json") + "': File too"));
  EXPECT_EQ(Contents(Path("a.json")), before);
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ConversationFileTest, DevicesAreWrittenToNotReplaced) {
  const Result<> saved = Save("/dev/full");
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, HasSubstr("No space left on device"));
  EXPECT_TRUE(Save("/dev/null").has_value());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(ConversationFileTest, LinksStayAndTheirTargetsAreReplaced) {
  namespace fs = std::filesystem;
  fs::create_directory(Path("far"));
  ASSERT_TRUE(Save(Path("far/target.json"), {}).has_value());
  fs::create_symlink("far/target.json", Path("inner"));
  fs::create_symlink(Path("inner"), Path("outer"));
  ASSERT_TRUE(Save(Path("outer")).has_value());
  EXPECT_TRUE(fs::is_symlink(Path("outer")));
  EXPECT_TRUE(fs::is_symlink(Path("inner")));
  EXPECT_FALSE(fs::is_symlink(Path("far/target.json")));
  EXPECT_EQ(LoadConversation(Path("far/target.json")).value(), kMessages);
  // A link to nothing yet.
  fs::create_symlink("far/new.json", Path("dangling"));
  ASSERT_TRUE(Save(Path("dangling")).has_value());
  EXPECT_TRUE(fs::is_symlink(Path("dangling")));
  EXPECT_EQ(LoadConversation(Path("far/new.json")).value(), kMessages);
  fs::create_symlink("loop", Path("loop"));
  EXPECT_THAT(Save(Path("loop")).error().message, HasSubstr("Too many levels of symbolic links"));
  EXPECT_EQ(NumFiles(), 5u);  // far, inner, outer, dangling, loop
}

TEST_F(ConversationFileTest, APipeGetsAllOfIt) {
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Save(Path("fifo")).error().message, HasSubstr("No such device or address"));
  // Far more than a pipe holds, so that writing has to wait for the reader.
  const std::vector<ConversationMessage> large = {
      {.role = "user", .content = std::string(1'000'000, 'x')}};
  ASSERT_TRUE(Save(Path("file.json"), large).has_value());
  const int reader = ::open(Path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  std::string got;
  std::thread reading([&] {
    std::array<char, 4096> bytes;
    // Until every writer has closed; the descriptor blocks from now on.
    ::fcntl(reader, F_SETFL, 0);
    pollfd waiting = {.fd = reader, .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, -1);
    for (ssize_t n = 0; (n = ::read(reader, bytes.data(), bytes.size())) > 0;) {
      got.append(bytes.data(), static_cast<size_t>(n));
    }
  });
  const Result<> saved = Save(Path("fifo"), large);
  reading.join();
  ::close(reader);
  EXPECT_TRUE(saved.has_value()) << saved.error().message;
  EXPECT_EQ(got, Contents(Path("file.json")));
  EXPECT_EQ(NumFiles(), 2u);
}

TEST_F(ConversationFileTest, AnInterruptEndsTheWaitForAReader) {
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  const int reader = ::open(Path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  interrupt_->Request();
  const Result<> saved =
      Save(Path("fifo"), {{.role = "user", .content = std::string(1'000'000, 'x')}});
  ::close(reader);
  ASSERT_FALSE(saved.has_value());
  EXPECT_EQ(saved.error().code, ErrorCode::kCancelled);
}

TEST_F(ConversationFileTest, RefusesWhatCannotBeWritten) {
  EXPECT_THAT(Save(folder_).error().message, HasSubstr("Is a directory"));
  EXPECT_THAT(Save(Path("no/such/folder.json")).error().message,
              HasSubstr("No such file or directory"));
}

TEST_F(ConversationFileTest, RefusesWhatIsNoConversation) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{", "no JSON object"},
      {"{}", "no list \"messages\""},
      {"{\"messages\": [1]}", "message 1 needs the texts"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "message 1 needs the texts"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "message 1 needs the texts"},
      {"{\"messages\": [{\"role\": \"critic\", \"content\": \"x\"}]}", "needs the role"},
      {std::string(100'000, '['), "nests too deep"},
  };
  for (const auto& [text, words] : cases) {
    std::ofstream(Path("bad.json"), std::ios::binary) << text;
    const auto loaded = LoadConversation(Path("bad.json"));
    ASSERT_FALSE(loaded.has_value()) << text.substr(0, 40);
    EXPECT_THAT(loaded.error().message, HasSubstr(words));
  }
  EXPECT_EQ(LoadConversation(Path("none.json")).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace baton
