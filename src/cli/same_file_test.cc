#include "cli/same_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace baton {
namespace {

namespace fs = std::filesystem;

TEST(SameFileTest, FollowsEveryKindOfLink) {
  const fs::path folder = fs::path(testing::TempDir()) / "same_file_test";
  fs::remove_all(folder);
  fs::create_directories(folder / "inner");
  const auto in = [&](const char* name) { return (folder / name).string(); };
  std::ofstream(in("a")) << "a";
  std::ofstream(in("b")) << "a";
  fs::create_symlink("a", in("link"));
  fs::create_hard_link(in("a"), in("hard"));
  fs::create_symlink("inner", in("other"));
  for (const char* name : {"a", "link", "hard", "inner/../a", "./a", "other/../a"}) {
    EXPECT_TRUE(IsSameFile(in("a"), in(name))) << name;
    EXPECT_FALSE(IsSameFile(in("b"), in(name))) << name;
  }
  // Of files that are not there yet the place is compared.
  EXPECT_TRUE(IsSameFile(in("inner/new"), in("other/new")));
  EXPECT_FALSE(IsSameFile(in("inner/new"), in("new")));
  EXPECT_TRUE(IsSameFile("new", "./new"));
  EXPECT_TRUE(IsSameFile("no/such/../new", "no/new"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace baton
