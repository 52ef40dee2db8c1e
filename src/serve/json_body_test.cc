#include "serve/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

TEST(JsonBodyTest, ReadsObjects) {
  const auto json = ParseJsonBody(R"({"b": 1, "a": [true, null, "\u00e9"], "c": {"b": 2}})");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->dump(), "{\"b\":1,\"a\":[true,null,\"\xc3\xa9\"],\"c\":{\"b\":2}}");
}

TEST(JsonBodyTest, RefusesWhatIsNoJsonObject) {
  const std::string depth_64(64, '[');
  const std::vector<std::string> bodies = {
      "",
      " ",
      "{",
      "null",
      "[]",
      "1",
      "\"x\"",
      "{\"a\":1}x",
      "{\"a\":1,}",
      "{'a':1}",
      "{\"a\":NaN}",
      "{\"a\":Infinity}",
      "{\"a\":-Infinity}",
      "{\"a\":1e400}",
      "{\"a\":01}",
      "{\"a\":1} // why",
      "{\"a\":\"\xff\"}",
      "{\"a\":\"\xc3\"}",
      "{\"a\":\"\xed\xa0\x80\"}",
      R"({"a":"\ud800"})",
      R"({"a":"\udc00x"})",
      R"({"a":"\q"})",
      "{\"a\":\"line\nend\"}",
      "{\"a\":1,\"a\":2}",
      R"({"x":{"a":1,"b":2,"a":3}})",
      std::string("{\"a\":\"\0\"}", 9),
      "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
      std::string(1'000'000, '['),
      std::string(1'000'000, '{'),
  };
  for (const std::string& body : bodies) {
    const auto json = ParseJsonBody(body);
    ASSERT_FALSE(json) << body.substr(0, 80);
    EXPECT_EQ(json.error().status, 400);
    EXPECT_EQ(json.error().code, "invalid_json");
    EXPECT_LT(json.error().message.size(), 500u);
  }
}

TEST(JsonBodyTest, DepthIsCountedOutsideOfStrings) {
  const int inner = kMaxJsonDepth - 1;
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']') + "}";
  };
  EXPECT_TRUE(ParseJsonBody(nested(inner)));
  EXPECT_FALSE(ParseJsonBody(nested(inner + 1)));
  EXPECT_TRUE(ParseJsonBody("{\"a\":\"" + std::string(1000, '[') + "\\\"[[\"}"));
  // A key that stands in two objects does not stand twice in one.
  EXPECT_TRUE(ParseJsonBody(R"({"a":{"b":1},"c":[{"b":1},{"b":2}],"b":3})"));
}

TEST(JsonFieldsTest, NullIsNotThere) {
  const Json json = {{"a", nullptr}};
  const JsonFields fields(json);
  EXPECT_EQ(*fields.Bool("a"), std::nullopt);
  EXPECT_EQ(*fields.Integer("a", {0, 1}), std::nullopt);
  EXPECT_EQ(*fields.Real("b", {0, 1}), std::nullopt);
  EXPECT_EQ(*fields.Text("b"), std::nullopt);
  EXPECT_EQ(*fields.Object("a"), nullptr);
}

TEST(JsonFieldsTest, IntegersKeepToTypeAndRange) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const auto json = ParseJsonBody(
      R"({"one":1,"minus":-1,"real":1.0,"exp":1e3,"text":"1","bool":true,"list":[1],
          "max":9223372036854775807,"over":9223372036854775808,"huge":18446744073709551616,
          "min":-9223372036854775808,"under":-9223372036854775809})");
  ASSERT_TRUE(json);
  const JsonFields fields(*json, "outer");
  const auto read = [&](const char* name, IntegerLimits limits) {
    return fields.Integer(name, limits);
  };
  EXPECT_EQ(*read("one", {1, 1}), 1);
  EXPECT_EQ(*read("minus", {-1, 0}), -1);
  EXPECT_EQ(*read("max", {kMin, kMax}), kMax);
  EXPECT_EQ(*read("min", {kMin, kMax}), kMin);
  EXPECT_FALSE(read("one", {2, 3}));
  EXPECT_FALSE(read("one", {-3, -2}));
  EXPECT_FALSE(read("minus", {0, kMax}));
  EXPECT_FALSE(read("over", {kMin, kMax}));
  for (const char* name : {"real", "exp", "text", "bool", "list"}) {
    const auto value = read(name, {kMin, kMax});
    ASSERT_FALSE(value) << name;
    EXPECT_EQ(value.error().param, std::string("outer.") + name);
    EXPECT_EQ(value.error().code, "invalid_type");
  }
  // Whole numbers that 64 bits do not hold are whole numbers, and out of range.
  for (const char* name : {"over", "huge", "under"}) {
    EXPECT_EQ(read(name, {kMin, kMax}).error().code, "invalid_value") << name;
    EXPECT_THAT(read(name, {0, 7}).error().message, HasSubstr("must be from 0 to 7, got"));
  }
  EXPECT_THAT(read("real", {0, 7}).error().message,
              HasSubstr("whole number without decimal point or exponent, not 1.0"));
}

TEST(JsonFieldsTest, SeedsAreAny64Bits) {
  const auto json = ParseJsonBody(
      R"({"most":18446744073709551615,"minus":-1,"least":-9223372036854775808,"none":null,
          "huge":18446744073709551616,"under":-9223372036854775809,"real":0.5,"text":"1"})");
  ASSERT_TRUE(json);
  const JsonFields fields(*json);
  EXPECT_EQ(*fields.Bits64("most"), ~uint64_t{0});
  EXPECT_EQ(*fields.Bits64("minus"), ~uint64_t{0});
  EXPECT_EQ(*fields.Bits64("least"), uint64_t{1} << 63);
  EXPECT_EQ(*fields.Bits64("none"), std::nullopt);
  for (const char* name : {"huge", "under"}) {
    const auto value = fields.Bits64(name);
    ASSERT_FALSE(value) << name;
    EXPECT_EQ(value.error().param, name);
    EXPECT_THAT(value.error().message,
                HasSubstr("from -9223372036854775808 to 18446744073709551615"));
  }
  EXPECT_EQ(fields.Bits64("real").error().code, "invalid_type");
  EXPECT_EQ(fields.Bits64("text").error().code, "invalid_type");
}

TEST(JsonFieldsTest, RealsAreFinite) {
  const auto json = ParseJsonBody(R"({"a":0.5,"b":1,"c":1e308,"d":"0.5","e":-0.0,"f":true})");
  ASSERT_TRUE(json);
  const JsonFields fields(*json);
  EXPECT_EQ(*fields.Real("a", {0, 1}), 0.5);
  EXPECT_EQ(*fields.Real("b", {0, 1}), 1.0);
  EXPECT_EQ(*fields.Real("e", {0, 1}), 0.0);
  EXPECT_FALSE(fields.Real("c", {0, 1}));
  EXPECT_FALSE(fields.Real("d", {0, 1}));
  EXPECT_FALSE(fields.Real("f", {0, 1}));
  EXPECT_THAT(fields.Real("c", {0, 1}).error().message, HasSubstr("'c' must be from 0 to 1"));
}

}  // namespace
}  // namespace baton
