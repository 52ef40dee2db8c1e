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
  std::optional<std::string> ids;
  std::vector<std::string> files;
  std::optional<std::string> load;
  std::optional<std::string> save;
  std::optional<std::string> trace;
  std::optional<std::string> keep;
  std::optional<int64_t> threads;
  std::optional<double> temperature;
  std::optional<std::string> precision;
};

class OptionSetTest : public ::testing::Test {
 protected:
  OptionSetTest() {
    set_.Group("Arguments");
    set_.Positional({.names = "MODEL",
                     .value = "",
                     .help = "Model file",
                     .companions = {{".packed"}, {".tune.json", "--save"}}},
                    1, &values_.model);
    set_.Group("Computing");
    set_.Integer({.names = "-t,--threads", .value = "N", .help = "Threads"},
                 {.min = 1, .max = 1024}, &values_.threads);
    set_.Choice({.names = "--precision", .value = "NAME", .help = "Inputs"}, {"fast", "exact"},
                &values_.precision);
    set_.Group("Sampling");
    set_.Real({.names = "--temp", .value = "X", .help = "Temperature"}, {.min = 0, .max = 100},
              &values_.temperature);
    set_.ParsedEach({.names = "--stop", .value = "TEXT", .help = "Stop string"},
                    [this](const std::string& given) -> Result<> {
                      if (given == "no") return Fail(ErrorCode::kInvalid, "takes anything but no");
                      if (given == "why") return Fail(ErrorCode::kInvalid, ": why?");
                      values_.stops.push_back(given);
                      return {};
                    });
    set_.File({.names = "--ids", .value = "FILE", .help = "Ids", .dash_is_input = true},
              &values_.ids);
    set_.Files({.names = "-f,--file", .value = "FILE", .help = "Texts", .dash_is_input = true},
               &values_.files);
    set_.File({.names = "--load", .value = "FILE", .help = "Cache"}, &values_.load);
    set_.OutputFile({.names = "--save", .value = "FILE", .help = "Cache", .may_replace = "--load"},
                    &values_.save);
    set_.OutputFile({.names = "--trace", .value = "FILE", .help = "Trace"}, &values_.trace);
    set_.OutputFile({.names = "-o,--output,--keep", .value = "FILE", .help = "Where"},
                    &values_.keep);
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

TEST_F(OptionSetTest, OneValueIsGivenOnce) {
  EXPECT_EQ(ErrorOf({"--threads", "2", "-t", "5"}),
            "--threads is given 2 times ('2', then '5'); give it once");
  EXPECT_EQ(ErrorOf({"--system", "a", "--system=b"}),
            "--system is given 2 times ('a', then 'b'); give it once");
  EXPECT_EQ(ErrorOf({"--ids", "a", "--ids", "a", "--ids", "b"}),
            "--ids is given 3 times ('a', then 'a'); give it once");
  ASSERT_TRUE(set_.Parse({"--json", "--json"}).has_value());
  EXPECT_TRUE(values_.json);
}

TEST_F(OptionSetTest, AFlagTakesNoValue) {
  for (const char* given : {"0", "1", "true", "false", "", "x"}) {
    EXPECT_EQ(ErrorOf({std::string("--json=") + given}),
              std::string("--json takes no value, not even '") + given + "'");
  }
  ASSERT_TRUE(set_.Parse({"--system", "--json=0"}).has_value());
  EXPECT_EQ(values_.system, "--json=0");
  EXPECT_FALSE(values_.json);
}

TEST_F(OptionSetTest, ValuesAreCheckedByTheirKind) {
  EXPECT_EQ(ErrorOf({"--stop", "no"}), "--stop takes anything but no");
  EXPECT_EQ(ErrorOf({"--stop", "why"}), "--stop: why?");
  EXPECT_THAT(ErrorOf({"--system", "a\xFF"}),
              HasSubstr("--system is not UTF-8: byte 0xFF at offset 1"));
  EXPECT_EQ(ErrorOf({"--ids", ""}), "--ids takes the name of a file, not ''");
  EXPECT_EQ(ErrorOf({"-f", ""}), "--file takes the name of a file, not ''");
  EXPECT_EQ(ErrorOf({""}), "MODEL takes the name of a file, not ''");
  ASSERT_TRUE(set_.Parse({"--ids", "\xFF"}).has_value());
  EXPECT_EQ(values_.ids, "\xFF");
}

TEST_F(OptionSetTest, StandardInputIsReadOnce) {
  EXPECT_EQ(ErrorOf({"--ids", "-", "-f", "-"}),
            "standard input can be read once, but '-' is given for --ids and for --file; put one "
            "of the texts into a file");
  EXPECT_THAT(ErrorOf({"-f", "-", "-f", "-"}), HasSubstr("for --file and for --file"));
  ASSERT_TRUE(set_.Parse({"--ids", "-", "-f", "a"}).has_value());
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

TEST_F(OptionSetTest, OfSeveralNamesTheGivenOneIsSpokenOf) {
  EXPECT_EQ(ErrorOf({"--keep", ""}), "--keep takes the name of a file, not ''");
  EXPECT_EQ(ErrorOf({"--keep="}), "--keep takes the name of a file, not ''");
  EXPECT_EQ(ErrorOf({"--output", ""}), "--output takes the name of a file, not ''");
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"-o", ""}, {"m.gguf", "-o="}, {"--json", "-o", ""}}) {
    EXPECT_EQ(ErrorOf(given), "--output takes the name of a file, not ''");
  }
  EXPECT_EQ(ErrorOf({"--keep"}), "--keep needs a value");
  EXPECT_EQ(ErrorOf({"m.gguf", "--output"}), "--output needs a value");
  EXPECT_EQ(ErrorOf({"-o"}), "--output needs a value");
  EXPECT_EQ(ErrorOf({"--keep", "a", "--keep", "b"}),
            "--keep is given 2 times ('a', then 'b'); give it once");
  EXPECT_EQ(ErrorOf({"-oa", "-ob"}), "--output is given 2 times ('a', then 'b'); give it once");
  EXPECT_EQ(ErrorOf({"m.gguf", "-o", "m.gguf"}),
            "--output and MODEL name the same file 'm.gguf'; choose another name");
  EXPECT_EQ(ErrorOf({"--trace", "x", "--keep", "x"}),
            "--trace and --keep name the same file 'x'; choose another name");
  // What is a value is no name.
  EXPECT_EQ(ErrorOf({"--system", "--keep", "-o", ""}), "--output takes the name of a file, not ''");
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

TEST_F(OptionSetTest, WhatIsWrittenBelongsToOneOption) {
  const std::vector<std::vector<std::string>> refused = {
      {"m.gguf", "--trace", "m.gguf"},       {"m.gguf", "--trace", "./m.gguf"},
      {"-f", "a", "-f", "b", "--save", "b"}, {"--ids", "x/../x.json", "--trace", "x.json"},
      {"--save", "x", "--trace", "x"},       {"--load", "x", "--trace", "x"},
  };
  for (const std::vector<std::string>& arguments : refused) {
    EXPECT_THAT(ErrorOf(arguments), HasSubstr("name the same file"));
  }
  EXPECT_THAT(ErrorOf({"m.gguf", "--save", "m.gguf.packed"}),
              HasSubstr("--save names 'm.gguf.packed', which belongs to MODEL"));
  EXPECT_THAT(ErrorOf({"m.gguf", "--trace", "./m.gguf.tune.json"}),
              HasSubstr("--trace names './m.gguf.tune.json', which belongs to MODEL"));
  EXPECT_TRUE(set_.Parse({"m.gguf", "--save", "m.gguf.tune.json"}).has_value());
  EXPECT_TRUE(set_.Parse({"m.gguf", "-f", "m.gguf", "--load", "x", "--save", "x"}));
  EXPECT_TRUE(set_.Parse({"m.gguf", "--save", "m.gguf.kv", "--trace", "t", "--ids", "-"}));
}

}  // namespace
}  // namespace baton
