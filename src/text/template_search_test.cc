// Searching takes linear time and makes nothing that is too large, in every function that searches.
#include "text/template_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/template_engine.h"

namespace baton::templates {
namespace {

using std::chrono::steady_clock;

TEST(TextSearch, FindsWhatTheStandardLibraryFinds) {
  std::mt19937 random(5);
  const auto text = [&random](uint64_t most) {
    std::string out;
    for (uint64_t n = random() % (most + 1); n > 0; --n) out += "ab"[random() % 2];
    return out;
  };
  const TemplateLimits limits;
  for (int round = 0; round < 3000; ++round) {
    Budget budget(limits);
    const std::string haystack = text(24);
    const std::string needle = text(6);
    const TextSearch from_left(budget, {.text = haystack, .needle = needle});
    const TextSearch from_right(budget, {.text = haystack, .needle = needle, .from_right = true});
    for (std::size_t place = 0; place <= haystack.size(); ++place) {
      ASSERT_EQ(from_left.Find(place), haystack.find(needle, place)) << haystack << ' ' << needle;
      // The last match that ends at or before the place.
      ASSERT_EQ(from_right.Find(place), haystack.substr(0, place).rfind(needle))
          << haystack << ' ' << needle << ' ' << place;
    }
  }
}

// Compared place by place, each of these takes 400,000 times 400,000 steps.
TEST(TemplateSearch, LongNeedlesThatNearlyMatchTakeLinearTime) {
  const std::string set =
      "{% set t = 'a' * 800000 %}{% set ab = 'a' * 400000 ~ 'b' %}{% set ba = 'b' ~ 'a' * 400000 "
      "%}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ ab in t }}", "False"},
      {"{{ ab not in t }}", "True"},
      {"{{ t.find(ab) }}", "-1"},
      {"{{ t.rfind(ba) }}", "-1"},
      {"{{ (t ~ 'b').index(ab) }}", "400000"},
      {"{{ ('b' ~ t).rindex(ba) }}", "0"},
      {"{{ t.count(ab) }}", "0"},
      {"{{ t.count('a' * 400) }}", "2000"},
      {"{{ t.replace(ab, '') | length }}", "800000"},
      {"{{ t | replace(ab, '') | length }}", "800000"},
      {"{{ t.split(ab) | length }}", "1"},
      {"{{ t.rsplit(ba) | length }}", "1"},
      {"{{ t.split('a' * 400) | length }}", "2001"},
      {"{{ t.partition(ab)[0] | length }}", "800000"},
      {"{{ t.rpartition(ba)[2] | length }}", "800000"},
      {"{{ t.strip('b' * 400000 ~ 'a') | length }}", "0"},
  };
  for (const auto& [source, expected] : cases) {
    const Result<Template> parsed = Template::Parse(set + source);
    ASSERT_TRUE(parsed.has_value()) << source;
    const auto start = steady_clock::now();
    const Result<std::string> out =
        parsed->Render(TemplateInputs{}, TemplateLimits{.max_steps = 500'000});
    const std::chrono::duration<double> seconds = steady_clock::now() - start;
    ASSERT_TRUE(out.has_value()) << source << ": " << out.error().message;
    EXPECT_EQ(*out, expected) << source;
    EXPECT_LT(seconds.count(), 5) << source;
  }
}

TEST(TemplateSearch, ValuesThatGetTooLargeStopBeforeTheyAreMade) {
  // Each would be 100 MB. The limit on all text made is far enough away to tell which limit stops.
  const TemplateLimits limits{.max_value_bytes = 1'000'000, .max_work_bytes = 20'000'000};
  for (const std::string source : {
           "{{ ('a' * 1000).replace('a', b) | length }}",
           "{{ ('a' * 1000).replace('', b) | length }}",
           "{{ ('a' * 1000) | replace('a', b) | length }}",
           "{{ b.join(['a'] * 1001) | length }}",
           "{{ (['a'] * 1001) | join(b) | length }}",
           "{{ ([b] * 1000) | join | length }}",
           "{{ ('a\n' * 1000) | indent(100000) | length }}",
           "{{ (('%s' * 1000) % ((b,) * 1000)) | length }}",
           "{{ ('{0}' * 1000).format(b) | length }}",
       }) {
    const Result<Template> parsed = Template::Parse("{% set b = 'b' * 100000 %}" + source);
    ASSERT_TRUE(parsed.has_value()) << source << ": " << parsed.error().message;
    const Result<std::string> out = parsed->Render(TemplateInputs{}, limits);
    ASSERT_FALSE(out.has_value()) << source;
    EXPECT_EQ(out.error().code, ErrorCode::kExhausted) << source;
    EXPECT_THAT(out.error().message, testing::HasSubstr("bytes in one value")) << source;
  }
}

}  // namespace
}  // namespace baton::templates
