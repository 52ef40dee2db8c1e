#include "base/system_files.h"

#include <gmock/gmock.h>

#include "base/test_system_files.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(SystemFilesTest, LinesOfWhatCanBeRead) {
  EXPECT_THAT(ReadSystemLines(system_.proc / "none"), IsEmpty());
  Write("proc/some", "one\n\nthree");
  EXPECT_THAT(ReadSystemLines(system_.proc / "some"), ElementsAre("one", "", "three"));
  EXPECT_THAT(ReadSystemLines(system_.proc), IsEmpty()) << "a folder";
}

TEST_F(SystemFilesTest, ReadingIsBounded) {
  Write("proc/long", "a\n" + std::string(4095, 'x') + "\n" + std::string(4096, 'y') + "\nb\n");
  EXPECT_THAT(ReadSystemLines(system_.proc / "long"), ElementsAre("a", std::string(4095, 'x')));
  Write("proc/many", std::string(100000, '\n'));
  EXPECT_EQ(ReadSystemLines(system_.proc / "many").size(), 4096u);
}

TEST_F(SystemFilesTest, Numbers) {
  EXPECT_EQ(LeadingNumber("  12 34"), 12u);
  EXPECT_EQ(LeadingNumber("0-3,8"), 0u);
  EXPECT_EQ(LeadingNumber("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", " ", "max", "-1", "+1", "18446744073709551616"}) {
    EXPECT_EQ(LeadingNumber(text), std::nullopt) << text;
  }
  EXPECT_EQ(FirstNumberIn(system_.sys / "none"), std::nullopt);
  Write("sys/number", "7\n8\n");
  EXPECT_EQ(FirstNumberIn(system_.sys / "number"), 7u);
  Write("sys/keys", "not key: 1\nkey: max\nkey: 3\nother:   4 kB\n");
  EXPECT_EQ(NumberAfter(system_.sys / "keys", "key:"), std::nullopt) << "the first line counts";
  EXPECT_EQ(NumberAfter(system_.sys / "keys", "other:"), 4u);
  EXPECT_EQ(NumberAfter(system_.sys / "keys", "none"), std::nullopt);
}

}  // namespace
}  // namespace baton
