#include "cli/conversation_file.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace baton {
namespace {

using ::testing::HasSubstr;

class ConversationFileTest : public ::testing::Test {
 protected:
  ConversationFileTest() {
    std::string name = ::testing::TempDir() + "conversation_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ConversationFileTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
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
};

const std::vector<ConversationMessage> kMessages = {
    {.role = "system", .content = "Be brief."},
    {.role = "user", .content = "Naïve \"question\"\n\twith lines"},
    {.role = "assistant", .content = "🦉"},
};

TEST_F(ConversationFileTest, ComesBackAsItWent) {
  ASSERT_TRUE(SaveConversation(Path("a.json"), kMessages).has_value());
  EXPECT_EQ(LoadConversation(Path("a.json")).value(), kMessages);
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ConversationFileTest, AFullDiskKeepsTheOldFile) {
  ASSERT_TRUE(SaveConversation(Path("a.json"), kMessages).has_value());
  const std::string before = Contents(Path("a.json"));
  // A limit on file sizes fails a write in the same way as a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small = {.rlim_cur = 1024, .rlim_max = old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<> saved =
      SaveConversation(Path("a.json"), {{.role = "user", .content = std::string(100'000, 'x')}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, HasSubstr("cannot write '" + Path("a.json") + "': File too"));
  EXPECT_EQ(Contents(Path("a.json")), before);
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ConversationFileTest, DevicesAreWrittenToNotReplaced) {
  const Result<> saved = SaveConversation("/dev/full", kMessages);
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, HasSubstr("No space left on device"));
  EXPECT_TRUE(SaveConversation("/dev/null", kMessages).has_value());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(ConversationFileTest, RefusesWhatCannotBeWritten) {
  EXPECT_THAT(SaveConversation(folder_, kMessages).error().message, HasSubstr("Is a directory"));
  EXPECT_THAT(SaveConversation(Path("no/such/folder.json"), kMessages).error().message,
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
