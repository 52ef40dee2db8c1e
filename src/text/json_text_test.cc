#include "text/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

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
