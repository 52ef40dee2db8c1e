#include "cli/option_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// One of each kind.
struct Values {
  std::vector<std::string> model;
  bool json = false;
  std::optional<std::string> system;
  std::vector<std::string> stops;
  std::optional<int64_t> threads;
  std::optional<double> temperature;
  std::optional<std::string> precision;
};

class OptionSetTest : public ::testing::Test {
 protected:
  OptionSetTest() {
    set_.Group("Arguments");
    set_.Positional({.names = "MODEL", .value = "", .help = "Model file"}, 1, &values_.model);
    set_.Group("Computing");
    set_.Integer({.names = "-t,--threads", .value = "N", .help = "Threads"},
                 {.min = 1, .max = 1024}, &values_.threads);
    set_.Choice({.names = "--precision", .value = "NAME", .help = "Inputs"}, {"fast", "exact"},
                &values_.precision);
    set_.Group("Sampling");
    set_.Real({.names = "--temp", .value = "X", .help = "Temperature"}, {.min = 0, .max = 100},
              &values_.temperature);
    set_.Texts({.names = "--stop", .value = "TEXT", .help = "Stop string"}, &values_.stops);
    set_.Text({.names = "--system", .value = "TEXT", .help = "System message"}, &values_.system);
    set_.Flag({.names = "--json", .value = "", .help = "One object"}, &values_.json);
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const Result<> parsed = set_.Parse(arguments);
    EXPECT_FALSE(parsed.has_value());
    return parsed ? std::string() : parsed.error().message;
  }

  Values values_;
  OptionSet set_;
};

TEST_F(OptionSetTest, ReadsEveryKindInAnyOrder) {
  ASSERT_TRUE(set_.Parse({"--json", "--temp=0.25", "m.gguf", "--stop", "a", "-t", "3", "--stop",
                          "--b", "--precision", "exact", "--system", ""})
                  .has_value());
  EXPECT_THAT(values_.model, ElementsAre("m.gguf"));
  EXPECT_TRUE(values_.json);
  EXPECT_EQ(values_.temperature, 0.25);
  EXPECT_THAT(values_.stops, ElementsAre("a", "--b"));
  EXPECT_EQ(values_.threads, 3);
  EXPECT_EQ(values_.precision, "exact");
  EXPECT_EQ(values_.system, "");
}

TEST_F(OptionSetTest, NothingGivenLeavesEverythingUnset) {
  ASSERT_TRUE(set_.Parse({}).has_value());
  EXPECT_TRUE(values_.model.empty());
  EXPECT_FALSE(values_.json);
  EXPECT_FALSE(values_.threads.has_value());
}

TEST_F(OptionSetTest, LastOfTwoCounts) {
  ASSERT_TRUE(set_.Parse({"--threads", "2", "--threads", "5"}).has_value());
  EXPECT_EQ(values_.threads, 5);
}

TEST_F(OptionSetTest, DashIsAnArgumentAndMinusOneAValue) {
  ASSERT_TRUE(set_.Parse({"-"}).has_value());
  EXPECT_THAT(values_.model, ElementsAre("-"));
  EXPECT_EQ(ErrorOf({"--temp", "-1"}), "--temp takes a number from 0 to 100, not '-1'");
}

TEST_F(OptionSetTest, EmptyValueAfterEqualsIsAValue) {
  ASSERT_TRUE(set_.Parse({"--system=", "m.gguf"}).has_value());
  EXPECT_EQ(values_.system, "");
  EXPECT_THAT(values_.model, ElementsAre("m.gguf"));
}

TEST_F(OptionSetTest, TextWithBracketsAndSpacesStaysWhole) {
  ASSERT_TRUE(set_.Parse({"--system", "[a, b]", "--stop", "[x,y]", "--stop", "%%"}).has_value());
  EXPECT_EQ(values_.system, "[a, b]");
  EXPECT_THAT(values_.stops, ElementsAre("[x,y]", "%%"));
}

TEST_F(OptionSetTest, RefusalsNameOptionValueAndRange) {
  EXPECT_EQ(ErrorOf({"--threads", "0"}), "--threads takes a whole number from 1 to 1024, not '0'");
  EXPECT_EQ(ErrorOf({"-t", "two"}), "--threads takes a whole number from 1 to 1024, not 'two'");
  EXPECT_EQ(ErrorOf({"--threads", "1.5"}),
            "--threads takes a whole number from 1 to 1024, not '1.5'");
  EXPECT_EQ(ErrorOf({"--threads", "99999999999999999999"}),
            "--threads takes a whole number from 1 to 1024, not '99999999999999999999'");
  EXPECT_EQ(ErrorOf({"--temp", "nan"}), "--temp takes a number from 0 to 100, not 'nan'");
  EXPECT_EQ(ErrorOf({"--temp", "inf"}), "--temp takes a number from 0 to 100, not 'inf'");
  EXPECT_EQ(ErrorOf({"--temp", "0.5x"}), "--temp takes a number from 0 to 100, not '0.5x'");
  EXPECT_EQ(ErrorOf({"--precision", "exat"}),
            "--precision takes fast, exact, not 'exat'; did you mean 'exact'?");
}

TEST_F(OptionSetTest, UnknownOptionsAreNamedWithANearMatch) {
  EXPECT_EQ(ErrorOf({"m.gguf", "--tempp", "1"}),
            "unknown option '--tempp'; did you mean '--temp'?");
  EXPECT_EQ(ErrorOf({"--thread=4"}), "unknown option '--thread'; did you mean '--threads'?");
  EXPECT_EQ(ErrorOf({"--qwertyuiop"}), "unknown option '--qwertyuiop'");
  EXPECT_EQ(ErrorOf({"-x"}), "unknown option '-x'");
}

TEST_F(OptionSetTest, MissingValueAndSurplusArgument) {
  EXPECT_EQ(ErrorOf({"--temp"}), "--temp needs a value");
  EXPECT_EQ(ErrorOf({"a.gguf", "b.gguf"}), "unexpected argument 'b.gguf'");
}

TEST_F(OptionSetTest, DescriptionHasGroupsAndStaysWithinTheColumns) {
  const std::string described = set_.Describe(80);
  EXPECT_THAT(described, HasSubstr("\nArguments:\n  MODEL  "));
  EXPECT_THAT(described, HasSubstr("\nSampling:\n      --temp X  "));
  EXPECT_THAT(described, HasSubstr("\n  -t, --threads N  "));
  size_t begin = 0;
  while (begin < described.size()) {
    const size_t end = described.find('\n', begin);
    EXPECT_LE(end - begin, 80u);
    begin = end + 1;
  }
}

TEST(WrapText, BreaksAtSpacesOnly) {
  EXPECT_EQ(WrapText("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(WrapText("extraordinary", 5, 2), "extraordinary");
  EXPECT_EQ(WrapText("", 5, 2), "");
}

}  // namespace
}  // namespace baton
