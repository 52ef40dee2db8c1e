#include "serve/tool_call_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "serve/tool_rules.h"

namespace baton {
namespace {

const std::vector<std::string> kNames = {"weather", "add"};

// What the pieces of an answer, cut at these places, add up to.
ToolPiece Read(const ToolRules& rules, std::string_view text, const std::vector<size_t>& cuts) {
  ToolCallReader reader(rules);
  ToolPiece all;
  const auto add = [&](ToolPiece piece) {
    all.text += piece.text;
    all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
  };
  size_t begin = 0;
  for (const size_t cut : cuts) {
    add(reader.Push(text.substr(begin, cut - begin)));
    begin = cut;
  }
  add(reader.Push(text.substr(begin)));
  add(reader.Finish());
  EXPECT_EQ(reader.num_calls(), std::ssize(all.calls));
  return all;
}

ToolPiece ReadWhole(const ToolRules& rules, std::string_view text) {
  return Read(rules, text, {});
}

struct Case {
  ToolFormat format;
  const char* answer;
  const char* text;
  std::vector<ToolCall> calls;
};

const ToolCall kParis{.name = "weather", .arguments = R"({"city":"Paris"})"};
const ToolCall kSum{.name = "add", .arguments = R"({"a":1,"b":[2,{"c":"}\"]"}]})"};

std::vector<Case> TaggedCases() {
  using enum ToolFormat;
  return {
      {kTagged,
       R"(<tool_call>
{"name": "weather", "arguments": {"city": "Paris"}}
</tool_call>)",
       "",
       {kParis}},
      {kTagged,
       R"(Let me see.

<tool_call>{"name":"weather","arguments":{"city":"Paris"}}</tool_call>
<tool_call>{"name":"add","arguments":{"a":1,"b":[2,{"c":"}\"]"}]}}</tool_call>
)",
       "Let me see.",
       {kParis, kSum}},
      {kTagged,
       R"(<tool_call>{"name":"weather","arguments":{"city":"Paris"}}</tool_call> Done. )",
       "Done. ",
       {kParis}},
      // The last tag is left out; the arguments are a string; there are none.
      {kTagged,
       R"(<tool_call>{"name":"weather","arguments":"{\"city\":\"Paris\"}"})",
       "",
       {kParis}},
      {kTagged,
       R"(<tool_call>{"name":"add"}</tool_call>)",
       "",
       {{.name = "add", .arguments = "{}"}}},
      // No calls: they stay the text they are.
      {kTagged,
       R"(<tool_call>{"name":"unknown","arguments":{}}</tool_call>)",
       R"(<tool_call>{"name":"unknown","arguments":{}}</tool_call>)",
       {}},
      {kTagged,
       " \n<tool_call>{\"name\":\"add\",</tool_call> ",
       " \n<tool_call>{\"name\":\"add\",</tool_call> ",
       {}},
      {kTagged,
       R"(<tool_call>{"name":"add","arguments":[1]}</tool_call>)",
       R"(<tool_call>{"name":"add","arguments":[1]}</tool_call>)",
       {}},
      {kTagged,
       R"(<tool_call>{"name":"add"},"x":{"name":"add"}</tool_call>)",
       R"(<tool_call>{"name":"add"},"x":{"name":"add"}</tool_call>)",
       {}},
      {kTagged, "a <<tool_cal < tool_call> <tool_", "a <<tool_cal < tool_call> <tool_", {}},
      {kTagged, "\n\n 2 < 3\n", "\n\n 2 < 3\n", {}},
      {kTagged, "", "", {}},
  };
}

std::vector<Case> Cases() {
  using enum ToolFormat;
  std::vector<Case> cases = TaggedCases();
  const std::vector<Case> others = {
      {kBare, R"({"name": "weather", "parameters": {"city": "Paris"}})", "", {kParis}},
      {kBare,
       R"(
<|python_tag|>{"name":"weather","parameters":{"city":"Paris"}}; {"name":"add","parameters":)"
       R"({"a":1,"b":[2,{"c":"}\"]"}]}})",
       "",
       {kParis, kSum}},
      {kBare,
       R"({"name":"weather","parameters":{"city":"Paris"}} and so on)",
       "and so on",
       {kParis}},
      {kBare, R"({"answer": 42} {"name":"add"})", R"({"answer": 42} {"name":"add"})", {}},
      {kBare, R"(Use {"name":"add"})", R"(Use {"name":"add"})", {}},
      {kBare, R"({"name":"add","parameters":{"a":1)", R"({"name":"add","parameters":{"a":1)", {}},
      {kBare, "<|python", "<|python", {}},
      {kBare, "<|python_tag|>print(1)", "<|python_tag|>print(1)", {}},
      {kBracket,
       R"([TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}}, )"
       R"({"name":"add","arguments":{"a":1,"b":[2,{"c":"}\"]"}]}}])",
       "",
       {kParis, kSum}},
      {kBracket,
       R"(Well. [TOOL_CALLS][{"name":"add"}] Then.)",
       "Well.Then.",
       {{.name = "add", .arguments = "{}"}}},
      {kBracket, R"([TOOL_CALLS]weather{"city":1})", R"([TOOL_CALLS]weather{"city":1})", {}},
      {kBracket, "[TOOL_CALLS][]", "[TOOL_CALLS][]", {}},
      {kBracket,
       R"([TOOL_CALLS][{"name":"add"},{"name":"no"}])",
       R"([TOOL_CALLS][{"name":"add"},{"name":"no"}])",
       {}},
      {kBracket, R"([TOOL_CALLS][{"name":"add"}, )", R"([TOOL_CALLS][{"name":"add"}, )", {}},
      {kBracket, "[1, 2] [TOOL", "[1, 2] [TOOL", {}},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

TEST(ToolCallReader, TellsCallsFromText) {
  for (const Case& one : Cases()) {
    const ToolPiece read = ReadWhole({.format = one.format, .names = kNames}, one.answer);
    EXPECT_EQ(read.text, one.text) << one.answer;
    EXPECT_EQ(read.calls, one.calls) << one.answer;
  }
}

TEST(ToolCallReader, EveryCutGivesTheSame) {
  for (const Case& one : Cases()) {
    const ToolRules rules{.format = one.format, .names = kNames};
    const std::string_view answer = one.answer;
    std::vector<size_t> everywhere;
    for (size_t cut = 0; cut <= answer.size(); ++cut) {
      const ToolPiece read = Read(rules, answer, {cut});
      EXPECT_EQ(read.text, one.text) << answer << " at " << cut;
      EXPECT_EQ(read.calls, one.calls) << answer << " at " << cut;
      everywhere.push_back(cut);
    }
    EXPECT_EQ(Read(rules, answer, everywhere).calls, one.calls) << answer;
  }
}

// Answers of random parts: cut anywhere they are the same, and without a call nothing is lost.
TEST(ToolCallReader, RandomAnswersInRandomPieces) {
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "[TOOL_CALLS]",
                                          "<|python_tag|>",
                                          "{\"name\":\"add\"}",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "\"",
                                          "\\",
                                          ";",
                                          ",",
                                          " ",
                                          "\n",
                                          "text",
                                          "<",
                                          "{\"name\":\"add\",\"arguments\":{}}",
                                          std::string(300, ' ')};
  std::mt19937_64 random(11);
  int num_calls = 0;
  for (int i = 0; i < 6000; ++i) {
    const ToolRules rules{.format = static_cast<ToolFormat>(i % 3), .names = kNames};
    std::string answer;
    for (uint64_t part = random() % 9; part > 0; --part) answer += parts[random() % parts.size()];
    const ToolPiece whole = ReadWhole(rules, answer);
    std::vector<size_t> cuts;
    for (size_t at = 0; at < answer.size(); at += 1 + random() % 20) cuts.push_back(at);
    const ToolPiece cut = Read(rules, answer, cuts);
    ASSERT_EQ(cut.text, whole.text) << answer;
    ASSERT_EQ(cut.calls, whole.calls) << answer;
    if (whole.calls.empty()) {
      ASSERT_EQ(whole.text, answer);
    }
    num_calls += static_cast<int>(whole.calls.size());
  }
  EXPECT_GT(num_calls, 100);
}

TEST(ToolFormat, IsChosenByTheTemplate) {
  EXPECT_EQ(ToolFormatOf("... <tool_call> ..."), ToolFormat::kTagged);
  EXPECT_EQ(ToolFormatOf("{{ '[TOOL_CALLS]' }}"), ToolFormat::kBracket);
  EXPECT_EQ(ToolFormatOf("Environment: ipython {\"name\": n, \"parameters\": p}"),
            ToolFormat::kBare);
  EXPECT_EQ(ToolFormatOf("<tool_call><function=name>"), std::nullopt);
  EXPECT_EQ(ToolFormatOf("[TOOL_CALLS]name[ARGS]{}"), std::nullopt);
  EXPECT_EQ(ToolFormatOf("{{ messages }}"), std::nullopt);
}

}  // namespace
}  // namespace baton
