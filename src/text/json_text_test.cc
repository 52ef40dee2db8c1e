#include "text/json_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonText, OnlyListsOfNumbersStandOnOneLine) {
  const Json json = {{"text", "a\"b\n"},
                     {"ids", {1, -2, 3000000000u}},
                     {"shares", {0.1, 1e-300, 2.0}},
                     {"names", {"x", "y"}},
                     {"mixed", {1, "x"}},
                     {"gaps", {nullptr, 1}},
                     {"rows", {{1, 2}, {3}}},
                     {"nothing", Json()},
                     {"empty", {{"list", Json::array()}, {"object", Json::object()}}}};
  EXPECT_EQ(JsonText(json), R"({
  "text": "a\"b\n",
  "ids": [1, -2, 3000000000],
  "shares": [0.1, 1e-300, 2.0],
  "names": [
    "x",
    "y"
  ],
  "mixed": [
    1,
    "x"
  ],
  "gaps": [
    null,
    1
  ],
  "rows": [
    [1, 2],
    [3]
  ],
  "nothing": null,
  "empty": {
    "list": [],
    "object": {}
  }
}
)");
  EXPECT_EQ(Json::parse(JsonText(json)), json);
}

TEST(JsonLine, OneLineWithoutBlanks) {
  const Json json = {{"a\"", {1, -2, 3000000000u, nullptr}},
                     {"b", Json::object()},
                     {"c", true},
                     {"d\xff", "\xff"},
                     {"list", Json::array()},
                     {"in", {{"x", "y"}}}};
  EXPECT_EQ(JsonLine(json),
            "{\"a\\\"\":[1,-2,3000000000,null],\"b\":{},\"c\":true,\"d\xef\xbf\xbd\":"
            "\"\xef\xbf\xbd\",\"list\":[],\"in\":{\"x\":\"y\"}}");
}

TEST(JsonLine, RealNumbersAreTheShortestThatReadBack) {
  // The first and the third are where nlohmann's own way takes 16 digits and more.
  EXPECT_EQ(JsonLine(Json(649 / 1e6)), "0.000649");
  EXPECT_EQ(JsonLine(Json(112'927 / 1e9)), "0.000112927");
  EXPECT_EQ(JsonLine(Json(22'299'859 / 1e9)), "0.022299859");
  EXPECT_EQ(JsonText(Json(649 / 1e6)), "0.000649\n");
  EXPECT_EQ(JsonLine(Json({2.0, -0.0, 1e300, 5e-324, 1e16})), "[2.0,-0.0,1e+300,5e-324,1e+16]");
  EXPECT_EQ(JsonLine(Json({std::nan(""), std::numeric_limits<double>::infinity()})), "[null,null]");
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = JsonLine(Json(value));
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    // Nanoseconds have nine digits behind the point at most.
    const auto ns = static_cast<int64_t>(random() >> (18 + random() % 46));
    const std::string seconds = JsonLine(Json(static_cast<double>(ns) / 1e9));
    EXPECT_LE(seconds.size(), std::string_view("1e-09").size() + 14) << ns;
    if (seconds.find('e') == std::string::npos) {
      EXPECT_LE(seconds.size() - seconds.find('.'), 10) << ns;
    }
  }
}

TEST(JsonText, WhatStandsAlone) {
  EXPECT_EQ(JsonText(Json(true)), "true\n");
  EXPECT_EQ(JsonText(Json::array()), "[]\n");
  EXPECT_EQ(JsonText(Json({1, 2})), "[1, 2]\n");
}

TEST(JsonText, WhatJsonHasNoWordFor) {
  EXPECT_EQ(JsonText(Json("a\xff")), "\"a\xef\xbf\xbd\"\n");
  const Json json = {{"k\xff", {1, std::numeric_limits<double>::infinity()}}};
  EXPECT_EQ(JsonText(json), "{\n  \"k\xef\xbf\xbd\": [1, null]\n}\n");
}

}  // namespace
}  // namespace baton
