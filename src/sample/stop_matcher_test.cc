#include "sample/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

constexpr const char* kForced = "one two KLMNOPQ three";

StopMatcher MakeMatcher(const Strings& stops) {
  return StopMatcher::Make(stops).value();
}

// What a reader of the stream sees, and whether a stop string was found.
struct Seen {
  std::string text;
  std::optional<int64_t> match;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// Feeds pieces of the given sizes, over and over.
Seen Stream(StopMatcher& matcher, std::string_view text, const std::vector<size_t>& sizes) {
  matcher.Reset();
  Seen seen;
  size_t begin = 0;
  for (size_t i = 0; begin < text.size() && !matcher.matched(); ++i) {
    const size_t size = std::min(sizes[i % sizes.size()], text.size() - begin);
    seen.text += matcher.Feed(text.substr(begin, size));
    begin += size;
  }
  seen.text += matcher.Finish();
  seen.match = matcher.match();
  return seen;
}

// The definition: the occurrence that ends first, of these the longest, then the first given.
Seen Reference(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<int64_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!text.substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = static_cast<int64_t>(i);
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

// cases.md S-05, each with every size of piece.
TEST(StopMatcher, NeverShowsPartOfAStopString) {
  struct Case {
    Strings stops;
    std::string expected;
    std::optional<int64_t> match;
  };
  const std::vector<Case> cases = {
      {{"KLMNOPQ"}, "one two ", 0},
      {{"NOP", "KLMX"}, "one two KLM", 0},
      {{"two K"}, "one ", 0},
      {{"three!"}, kForced, std::nullopt},
      {{"OPQ", "NOPQ"}, "one two KLM", 1},   // end at one place: the longer
      {{"KLMNOPQ", "LMN"}, "one two K", 1},  // completed first
      {{"absent"}, kForced, std::nullopt},
      {{"one two KLMNOPQ three"}, "", 0},
      {{"o"}, "", 0},
      {{"ee"}, "one two KLMNOPQ thr", 0},
      {{}, kForced, std::nullopt},
  };
  for (const Case& c : cases) {
    StopMatcher matcher = MakeMatcher(c.stops);
    for (size_t size = 1; size <= 21; ++size) {
      EXPECT_EQ(Stream(matcher, kForced, {size}), (Seen{c.expected, c.match})) << size;
    }
  }
}

TEST(StopMatcher, HoldsNoMoreThanItMust) {
  StopMatcher matcher = MakeMatcher({"abcd", "bx"});
  EXPECT_EQ(matcher.Feed("zab"), "z");
  EXPECT_EQ(matcher.Feed("c"), "");
  EXPECT_EQ(matcher.Feed("e"), "abce") << "neither can follow any more";
  EXPECT_EQ(matcher.Feed("ab"), "");
  EXPECT_EQ(matcher.Feed("x"), "a");
  EXPECT_EQ(matcher.match(), 1);
  EXPECT_EQ(matcher.Feed("more"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, HeldTextIsFlushedAtTheEnd) {
  StopMatcher matcher = MakeMatcher({"three!"});
  EXPECT_EQ(matcher.Feed("two three"), "two ");
  EXPECT_EQ(matcher.Finish(), "three");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_FALSE(matcher.matched());
}

// A stop string inside a sequence of emoji: whole characters before it come out, nothing after.
TEST(StopMatcher, StopsInsideAnEmojiSequence) {
  const std::string woman = "\xF0\x9F\x91\xA9";
  const std::string girl = "\xF0\x9F\x91\xA7";
  const std::string joiner = "\xE2\x80\x8D";
  StopMatcher matcher = MakeMatcher({girl});
  const std::string family = woman + joiner + woman + joiner + girl + " end";
  for (size_t size = 1; size <= family.size(); ++size) {
    EXPECT_EQ(Stream(matcher, family, {size}).text, woman + joiner + woman + joiner);
  }
  // Woman and girl share three bytes: they are held, too, and come out whole.
  EXPECT_EQ(Stream(matcher, woman, {1}), (Seen{woman, std::nullopt}));
}

TEST(StopMatcher, AgreesWithTheDefinitionOnRandomText) {
  RandomStream random({.seed = 1, .stream = 0});
  const auto random_string = [&](uint64_t size) {
    std::string text;
    for (uint64_t i = 0; i < size; ++i) text += static_cast<char>('a' + random.NextBelow(3));
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    Strings stops;
    for (uint64_t i = random.NextBelow(5); i > 0; --i) {
      stops.push_back(random_string(1 + random.NextBelow(7)));
    }
    const std::string text = random_string(random.NextBelow(40));
    StopMatcher matcher = MakeMatcher(stops);
    const Seen expected = Reference(stops, text);
    const std::vector<size_t> sizes = {1 + random.NextBelow(5), 1 + random.NextBelow(5)};
    ASSERT_EQ(Stream(matcher, text, {1}).text, expected.text) << text;
    ASSERT_EQ(Stream(matcher, text, sizes).text, expected.text) << text;
    ASSERT_EQ(matcher.matched(), expected.match.has_value());
    if (matcher.matched()) {
      ASSERT_EQ(stops[*matcher.match()], stops[*expected.match]);
    }
  }
}

TEST(StopMatcher, ManyStopsAndLongTextTakeOnePass) {
  Strings stops;
  for (int i = 0; i < 1000; ++i) stops.push_back(std::string(500, 'a') + std::to_string(i));
  StopMatcher matcher = MakeMatcher(stops);
  const std::string text(2'000'000, 'a');
  const Seen seen = Stream(matcher, text, {4096});
  EXPECT_EQ(seen.text.size(), text.size());
  EXPECT_FALSE(seen.match.has_value());
}

TEST(StopMatcher, RefusesEmptyBrokenAndTooMany) {
  const auto message = [](const Strings& stops) {
    const auto matcher = StopMatcher::Make(stops);
    if (matcher) return std::string("accepted");
    EXPECT_EQ(matcher.error().code, ErrorCode::kInvalid);
    return matcher.error().message;
  };
  EXPECT_THAT(message({""}), HasSubstr("must not be empty: number 1"));
  EXPECT_THAT(message({"a", ""}), HasSubstr("number 2"));
  for (const char* bad : {"\xff", "a\xC3", "\xA9", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_THAT(message({bad}), HasSubstr("UTF-8: number 1"));
  }
  EXPECT_EQ(message({"\xC3\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9"}), "accepted");
  EXPECT_THAT(message(Strings(1025, "a")), HasSubstr("at most 1024"));
  EXPECT_THAT(message(Strings(2, std::string(600'000, 'a'))), HasSubstr("bytes in all"));
  EXPECT_EQ(message(Strings(100, "same")), "accepted");
}

}  // namespace
}  // namespace baton
