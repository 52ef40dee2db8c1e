#include "serve/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

TEST(StatusJson, NamesWhatTheCacheHolds) {
  for (const std::string_view type : {"f16", "q8"}) {
    EngineStatus status;
    status.kv_type = type;
    EXPECT_THAT(StatusJson({.state = "ok"}, &status),
                HasSubstr(R"("kv":{"type":")" + std::string(type) + R"(",)"));
  }
}

TEST(StatusJson, NumbersHaveNoMoreDigitsThanTheyMean) {
  EngineStatus status;
  status.running.push_back({.id = 1, .label = "a", .age_seconds = 112'927 * 1e-9});
  status.waiting.push_back({.id = 2, .label = "b", .age_seconds = 649'000 * 1e-9});
  status.rates = {.seconds = 0.1 + 0.2, .prompt = 1000.0 / 3, .generated = 0};
  const std::string text = StatusJson({.state = "ok"}, &status);
  EXPECT_THAT(text, HasSubstr(R"("age_seconds":0.000112927,)"));
  EXPECT_THAT(text, HasSubstr(R"("age_seconds":0.000649,)"));
  EXPECT_THAT(text, HasSubstr(R"({"seconds":0.3,"prefill_tokens_per_second":333.333,)"
                              R"("decode_tokens_per_second":0.0})"));
}

}  // namespace
}  // namespace baton
