// What holds for every template: places of errors, limits, times, use by several threads.
#include "text/template_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace baton {
namespace {

using templates::Value;
using testing::HasSubstr;

Result<std::string> Render(std::string_view source, const TemplateLimits& limits) {
  const Result<Template> parsed = Template::Parse(source);
  if (!parsed.has_value()) return Forward(parsed);
  TemplateInputs inputs;
  inputs.variables = {{"n", Value::Int(7)}};
  return parsed->Render(inputs, limits);
}

TEST(TemplateEngine, ErrorsNameLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"ab\ncd {% nope %}", "line 2, column 7: unknown statement 'nope'"},
      {"{{ n | nope }}", "line 1, column 8: unknown filter 'nope'"},
      {"\n\n{{ n is nope }}", "line 3, column 9: unknown test 'nope'"},
      {"{{ n + }}", "line 1, column 8: expected an expression"},
      {"é {{ n", "line 1, column 3: the expression is not closed"},
      {"x\n{% if n %}\ny", "line 2, column 4: the statement 'if' is not closed"},
      {"{{ n }}\n {{ nope() }}", "line 2, column 9: 'nope' is undefined"},
      {"{{ n.x.y }}", "line 1, column 8: 'int object' has no attribute 'x'"},
      {"{{ 'a' + n }}", "line 1, column 8: can only concatenate str (not \"int\") to str"},
  };
  for (const auto& [source, message] : cases) {
    const Result<std::string> result = Render(source, TemplateLimits{});
    ASSERT_FALSE(result.has_value()) << source;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr(message));
    EXPECT_FALSE(RefusalWords(result.error()).has_value());
  }
}

TEST(TemplateEngine, EveryLimitStopsARender) {
  const auto expect_exhausted = [](std::string_view source, const TemplateLimits& limits) {
    const Result<std::string> result = Render(source, limits);
    ASSERT_FALSE(result.has_value()) << source;
    EXPECT_EQ(result.error().code, ErrorCode::kExhausted) << result.error().message;
  };
  const std::string loop = "{% for i in range(100) %}0123456789{% endfor %}";
  EXPECT_EQ(Render(loop, TemplateLimits{}).value_or("").size(), 1000U);
  expect_exhausted(loop, TemplateLimits{.max_steps = 100});
  expect_exhausted(loop, TemplateLimits{.max_output_bytes = 999});
  expect_exhausted(loop, TemplateLimits{.max_range = 99});
  expect_exhausted(loop, TemplateLimits{.max_items = 99});
  expect_exhausted("{{ 'x' * 100 }}", TemplateLimits{.max_value_bytes = 99});
  expect_exhausted("{% for i in range(50) %}{{ 'x' * 30 }}{% endfor %}",
                   TemplateLimits{.max_work_bytes = 1000});
  const std::string recursion = "{% macro m(k) %}{{ m(k - 1) if k }}{% endmacro %}{{ m(50) }}";
  EXPECT_EQ(Render(recursion, TemplateLimits{}), "");
  expect_exhausted(recursion, TemplateLimits{.max_depth = 60});
}

TEST(TemplateEngine, TextsThatAreTooLargeOrNotUtf8AreRefused) {
  EXPECT_TRUE(Template::Parse(std::string(Template::kMaxSourceBytes, 'x')).has_value());
  const Result<Template> large = Template::Parse(std::string(Template::kMaxSourceBytes + 1, 'x'));
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kExhausted);
  for (const std::string bytes :
       {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"}) {
    const Result<Template> parsed = Template::Parse(bytes);
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
  }
}

TEST(TemplateEngine, WordsOfARefusalAreCutAtTwoThousandBytes) {
  const Result<std::string> brief = Render("{{ raise_exception('x' * 2000) }}", TemplateLimits{});
  ASSERT_FALSE(brief.has_value());
  EXPECT_EQ(RefusalWords(brief.error()), std::string(2000, 'x'));
  // 1,997 bytes are left beside the dots; a character of two bytes is kept or left out as a whole.
  const Result<std::string> cut =
      Render("{{ raise_exception('\xC3\xA9' * 5000) }}", TemplateLimits{});
  ASSERT_FALSE(cut.has_value());
  std::string expected;
  for (int i = 0; i < 998; ++i) expected += "\xC3\xA9";
  EXPECT_EQ(RefusalWords(cut.error()), expected + "...");
}

TEST(TemplateEngine, TheTimeIsAnInput) {
  EXPECT_FALSE(Render("{{ strftime_now('%Y') }}", TemplateLimits{}).has_value());
  const Result<Template> parsed = Template::Parse("{{ strftime_now('%d %b %Y %A %j') }}");
  ASSERT_TRUE(parsed.has_value());
  TemplateInputs inputs;
  inputs.now = CivilTime{.year = 2024, .month = 2, .day = 29};
  EXPECT_EQ(parsed->Render(inputs, TemplateLimits{}), "29 Feb 2024 Thursday 060");
  inputs.now = CivilTime{.year = 2024, .month = 13, .day = 1};
  EXPECT_FALSE(parsed->Render(inputs, TemplateLimits{}).has_value());
}

TEST(TemplateEngine, ReadsTimes) {
  const Result<CivilTime> time = ParseCivilTime("2024-07-26T14:03:09");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->month, 7);
  EXPECT_EQ(time->second, 9);
  EXPECT_TRUE(ParseCivilTime("2024-02-29").has_value());
  for (const std::string_view bad :
       {"", "2023-02-29", "2024-13-01", "2024-07-26T24:00:00", "26.07.2024", "2024-7-26",
        "2024-07-26T14:03", "2024-07-26T14:03:0x", "2024/07/26", "-024-07-26"})
    EXPECT_FALSE(ParseCivilTime(bad).has_value()) << bad;
}

TEST(TemplateEngine, OneTemplateServesManyThreads) {
  const Result<Template> parsed = Template::Parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace(t='') %}"
      "{% for i in range(n) %}{% set ns.t = ns.t ~ m(i) %}{% endfor %}{{ ns.t }}");
  ASSERT_TRUE(parsed.has_value());
  std::vector<std::thread> threads;
  std::vector<int> failures(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&parsed, &failures, t] {
      for (int round = 0; round < 50; ++round) {
        TemplateInputs inputs;
        inputs.variables = {{"n", Value::Int(t + 1)}};
        std::string expected;
        for (int i = 0; i <= t; ++i) expected += "<" + std::to_string(i) + ">";
        if (parsed->Render(inputs, TemplateLimits{}) != expected)
          ++failures[static_cast<std::size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace baton
