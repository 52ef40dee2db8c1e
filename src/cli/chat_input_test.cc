#include "cli/chat_input.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using Kind = ChatEntry::Kind;

std::vector<ChatEntry> ReadAll(const std::string& typed) {
  StringInput input(typed);
  std::vector<ChatEntry> entries;
  while (true) {
    const Result<ChatEntry> entry = ReadChatEntry(input, nullptr);
    EXPECT_TRUE(entry.has_value());
    if (!entry || entry->kind == Kind::kEnd) return entries;
    entries.push_back(*entry);
  }
}

std::string OneMessage(const std::string& typed) {
  const std::vector<ChatEntry> entries = ReadAll(typed);
  EXPECT_EQ(entries.size(), 1u);
  if (entries.size() != 1) return "";
  EXPECT_EQ(entries[0].kind, Kind::kMessage);
  return entries[0].text;
}

TEST(ChatInput, ALineIsAMessage) {
  const std::vector<ChatEntry> entries = ReadAll("one\n\n   \ntwo");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].text, "one");
  EXPECT_EQ(entries[1].text, "two");
}

TEST(ChatInput, BackslashGoesOn) {
  EXPECT_EQ(OneMessage("one\\\ntwo\\\nthree\n"), "one\ntwo\nthree");
  EXPECT_EQ(OneMessage("one\\\n"), "one");
  EXPECT_EQ(OneMessage("one\\\n/reset\n"), "one\n/reset");
}

TEST(ChatInput, FencesKeepEverything) {
  EXPECT_EQ(OneMessage("\"\"\"\none\n\n/two\\\n\"\"\"\n"), "one\n\n/two\\");
  EXPECT_EQ(OneMessage("\"\"\"one\ntwo\"\"\"\n"), "one\ntwo");
  EXPECT_EQ(OneMessage("\"\"\"one\"\"\"\n"), "one");
  EXPECT_EQ(OneMessage("\"\"\"\n\none\n\"\"\"\n"), "\none");
  EXPECT_EQ(OneMessage("\"\"\"\nnever closed\n"), "never closed");
}

TEST(ChatInput, SlashIsACommandUnlessABlankComesFirst) {
  const std::vector<ChatEntry> entries = ReadAll("/save  a b.json \n/\n /save\n/exit");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].kind, Kind::kCommand);
  EXPECT_EQ(entries[0].name, "save");
  EXPECT_EQ(entries[0].argument, "a b.json");
  EXPECT_EQ(entries[1].kind, Kind::kCommand);
  EXPECT_EQ(entries[1].name, "");
  EXPECT_EQ(entries[2].kind, Kind::kMessage);
  EXPECT_EQ(entries[2].text, " /save");
  EXPECT_EQ(entries[3].name, "exit");
}

TEST(ChatInput, KeysWithoutCharactersAreNoMessage) {
  EXPECT_EQ(OneMessage("\x1b[A\n\x1b[1;5C\x1bOP\x1b[3~\n \x1b[B \none\n"), "one");
  EXPECT_EQ(OneMessage("\x1b[Aone\n"), "\x1b[Aone");
  EXPECT_EQ(OneMessage("\x1b\n"), "\x1b");
}

TEST(ChatInput, PromptsTellWhatIsExpected) {
  StringInput input("one\\\ntwo\n");
  StringOutput prompts;
  ASSERT_TRUE(ReadChatEntry(input, &prompts).has_value());
  EXPECT_EQ(prompts.text(), "> ... ");
}

}  // namespace
}  // namespace baton
