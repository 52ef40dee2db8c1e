#include "base/whole_number.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace baton {
namespace {

// What is left of 77 in a number that was not read.
template <typename T>
std::string Read(std::string_view text) {
  T number = 77;
  const NumberReading reading = ReadWhole(text, number);
  if (reading == NumberReading::kNumber) return std::to_string(number);
  EXPECT_EQ(number, T{77}) << text;
  return reading == NumberReading::kBeyond ? "beyond" : "none";
}

TEST(WholeNumber, IsDigitsWithAMinusOrNot) {
  EXPECT_EQ(Read<int64_t>("0"), "0");
  EXPECT_EQ(Read<int64_t>("-0"), "0");
  EXPECT_EQ(Read<int64_t>("007"), "7");
  EXPECT_EQ(Read<int64_t>("-12"), "-12");
  EXPECT_EQ(Read<int64_t>(std::string_view("123456").substr(1, 3)), "234");
  for (const std::string_view text : {"", "-", "+1", "--1", " 1", "1 ", "1.0", "1e3", "0x10",
                                      "1,000", "12a", "a", "\xD9\xA3", "-99999999999999999999x"}) {
    EXPECT_EQ(Read<int64_t>(text), "none") << text;
    EXPECT_EQ(Read<uint64_t>(text), "none") << text;
    EXPECT_FALSE(IsWhole(text)) << text;
  }
  EXPECT_EQ(Read<int64_t>(std::string_view("1\0", 2)), "none");
}

TEST(WholeNumber, BeyondTheTypeItIsStillANumber) {
  EXPECT_EQ(Read<int>("2147483647"), "2147483647");
  EXPECT_EQ(Read<int>("2147483648"), "beyond");
  EXPECT_EQ(Read<int>("-2147483648"), "-2147483648");
  EXPECT_EQ(Read<int>("-2147483649"), "beyond");
  EXPECT_EQ(Read<int64_t>("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(Read<int64_t>("9223372036854775808"), "beyond");
  EXPECT_EQ(Read<uint64_t>("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Read<uint64_t>("18446744073709551616"), "beyond");
  EXPECT_EQ(Read<uint64_t>("-1"), "beyond");
  EXPECT_EQ(Read<int64_t>(std::string(1000, '9')), "beyond");
}

TEST(WholeNumber, IsInARangeWithBothEnds) {
  const IntegerRange range = {.min = -2, .max = 10};
  EXPECT_EQ(WholeIn("-2", range), -2);
  EXPECT_EQ(WholeIn("10", range), 10);
  for (const std::string_view text : {"-3", "11", "99999999999999999999", "", "1.0", "x"}) {
    EXPECT_EQ(WholeIn(text, range), std::nullopt) << text;
  }
  constexpr IntegerRange kAll = {.min = std::numeric_limits<int64_t>::min(),
                                 .max = std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(WholeIn("-9223372036854775808", kAll), kAll.min);
  EXPECT_EQ(WholeIn("9223372036854775807", kAll), kAll.max);
  EXPECT_EQ(WholeIn("9223372036854775808", kAll), std::nullopt);
}

}  // namespace
}  // namespace baton
