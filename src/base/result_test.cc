#include "base/result.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace baton {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(ErrorCode::kInvalid, "value must be even: 3");
  return value / 2;
}

Result<std::string> HalfAsText(int value) {
  Result<int> half = Half(value);
  if (!half) return Forward(half);
  return std::to_string(*half);
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(*HalfAsText(8), "4");
  Result<std::string> failed = HalfAsText(3);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(failed.error().message, "value must be even: 3");
}

TEST(Result, EveryCodeHasItsOwnName) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInvalid), "invalid");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kNotFound), "not-found");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInternal), "internal");
}

TEST(CheckDeathTest, PrintsBothValuesAndAborts) {
  const int rows = 3;
  EXPECT_DEATH(CHECK_EQ(rows, 4), "rows == 4: 3 against 4");
  EXPECT_DEATH(CHECK(rows > 7), "rows > 7");
  CHECK_LE(rows, 3);
}

}  // namespace
}  // namespace baton
