#include "cli/prompt_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace baton {
namespace {

using ::testing::HasSubstr;

class PromptTextTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + "prompt_text_" + name;
    std::ofstream(path, std::ios::binary) << text;
    paths_.push_back(path);
    return path;
  }
  ~PromptTextTest() override {
    for (const std::string& path : paths_) std::remove(path.c_str());
  }

  std::string ErrorOf(const PromptSources& sources, const std::string& typed) {
    StringInput input(typed);
    const Result<std::string> prompt = ReadPrompt(sources, input);
    EXPECT_FALSE(prompt.has_value());
    return prompt ? std::string() : prompt.error().message;
  }

  std::vector<std::string> paths_;
};

TEST_F(PromptTextTest, DocumentsComeFirstThenTheQuestion) {
  StringInput input("typed\n");
  const PromptSources sources = {.files = {File("a", "first\r\n\n"), "-"}, .question = "why?\n"};
  const Result<std::string> prompt = ReadPrompt(sources, input);
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(*prompt, "first\n\ntyped\n\nwhy?\n");
}

TEST_F(PromptTextTest, OneSourceStaysAsItIs) {
  StringInput input("  typed\n\n");
  EXPECT_EQ(ReadPrompt({.files = {}, .question = "-"}, input).value(), "  typed\n\n");
}

TEST_F(PromptTextTest, BlanksAreText) {
  StringInput input("");
  EXPECT_EQ(ReadPrompt({.files = {}, .question = " "}, input).value(), " ");
}

TEST_F(PromptTextTest, EmptyDocumentsLeaveNoTrace) {
  StringInput input("");
  EXPECT_EQ(ReadPrompt({.files = {File("b", ""), "-"}, .question = "q"}, input).value(), "q");
}

TEST_F(PromptTextTest, RefusesEmptyAndForeignText) {
  EXPECT_THAT(ErrorOf({.files = {}, .question = ""}, ""), HasSubstr("the prompt is empty"));
  EXPECT_THAT(ErrorOf({.files = {"-"}, .question = {}}, ""), HasSubstr("the prompt is empty"));
  EXPECT_THAT(ErrorOf({.files = {"-"}, .question = {}}, "caf\xE9 au lait"),
              HasSubstr("standard input is not UTF-8: byte 0xE9 at offset 3"));
  EXPECT_THAT(ErrorOf({.files = {File("c", "ok \xED\xA0\x80")}, .question = {}}, ""),
              HasSubstr("byte 0xED at offset 3"));
  EXPECT_THAT(ErrorOf({.files = {"/nonexistent/x"}, .question = {}}, ""),
              HasSubstr("cannot open '/nonexistent/x': No such file or directory"));
  EXPECT_THAT(ErrorOf({.files = {"/"}, .question = {}}, ""), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace baton
