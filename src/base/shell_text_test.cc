#include "base/shell_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace baton {
namespace {

// What the shell makes of a word.
std::string Echoed(const std::string& word) {
  FILE* shell = ::popen(("printf %s " + word).c_str(), "r");
  std::string text;
  for (int c = 0; shell != nullptr && (c = std::fgetc(shell)) != EOF;) {
    text += static_cast<char>(c);
  }
  if (shell != nullptr) ::pclose(shell);
  return text;
}

TEST(ShellTextTest, TheShellReadsItBack) {
  for (const std::string text :
       {"model.gguf", "/a/b-c_d.Q4_0", "my model.gguf", "it's", "''", "$HOME`x`\\n\"", "~/x",
        "*?;&|", "a\nb", "\xc3\xa4\xff", "#x", "=x", "!x"}) {
    EXPECT_EQ(Echoed(ShellWord(text)), text);
  }
  EXPECT_EQ(ShellWord(""), "''");
}

TEST(ShellTextTest, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(ShellWord("/models/llama-3.2.Q4_K_M.gguf"), "/models/llama-3.2.Q4_K_M.gguf");
  EXPECT_EQ(ShellWord("my model.gguf"), "'my model.gguf'");
  EXPECT_EQ(ShellPath("-x.gguf"), "./-x.gguf");
  EXPECT_EQ(ShellPath("x-y.gguf"), "x-y.gguf");
}

}  // namespace
}  // namespace baton
