#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace baton {
namespace {

TEST(NumberText, CountsAreGroupedByThree) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(-999), "-999");
  EXPECT_EQ(CountText(-123456), "-123,456");
  EXPECT_EQ(CountText(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(NumberText, TenthsAreGroupedBeforeThePoint) {
  EXPECT_EQ(TenthsText(0), "0.0");
  EXPECT_EQ(TenthsText(999.94), "999.9");
  EXPECT_EQ(TenthsText(999.96), "1,000.0");
  EXPECT_EQ(TenthsText(-1234567.89), "-1,234,567.9");
  EXPECT_EQ(TenthsText(std::numeric_limits<double>::infinity()), "?");
}

TEST(NumberText, BytesInTheLargestUnitNotAboveThem) {
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(1048575), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(BytesText(uint64_t{3} << 29), "1.5 GiB");
}

TEST(NumberTextTest, OneIsNotMany) {
  EXPECT_EQ(CountOf(1, "thread"), "1 thread");
  EXPECT_EQ(CountOf(0, "row"), "0 rows");
  EXPECT_EQ(CountOf(1024, "row"), "1,024 rows");
}

TEST(ReportedSeconds, WholeNanoseconds) {
  EXPECT_EQ(DoubleJson(112'927 * 1e-9), "0.00011292700000000001");
  EXPECT_EQ(DoubleJson(ReportedSeconds(112'927 * 1e-9)), "0.000112927");
  for (int64_t ns = 1; ns < int64_t{1} << 50; ns += ns / 3 + 1) {
    EXPECT_EQ(ReportedSeconds(static_cast<double>(ns) * 1e-9), static_cast<double>(ns) / 1e9) << ns;
  }
  EXPECT_EQ(ReportedSeconds(0), 0);
  EXPECT_EQ(ReportedSeconds(1e300), 1e300);
  EXPECT_TRUE(std::isinf(ReportedSeconds(std::numeric_limits<double>::infinity())));
}

TEST(ReportedRate, WholeThousandths) {
  EXPECT_EQ(DoubleJson(ReportedRate(1000.0 / 3)), "333.333");
  EXPECT_EQ(DoubleJson(ReportedRate(2 / 3.0)), "0.667");
  EXPECT_EQ(ReportedRate(0), 0);
  EXPECT_EQ(ReportedRate(1e300), 1e300);
}

}  // namespace
}  // namespace baton
