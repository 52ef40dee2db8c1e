#include "tensor/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace baton {
namespace {

std::vector<int> Counting(int n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(View1, SliceAndConstConversion) {
  std::vector<int> values = Counting(6);
  const View1<int> view(values.data(), 6);
  const View1<const int> slice = view.Slice(2, 3);
  EXPECT_EQ(std::vector<int>(slice.begin(), slice.end()), (std::vector<int>{2, 3, 4}));
  EXPECT_TRUE(view.Slice(6, 0).empty());
  EXPECT_EQ(view.span().size(), 6u);
}

TEST(View2, RowsColumnsAndStride) {
  std::vector<int> values = Counting(20);
  const View2<int> view(values.data(), 4, 3, 5);  // two columns of padding
  EXPECT_EQ(view(2, 1), 11);
  EXPECT_EQ(view.row(3), values.data() + 15);
  EXPECT_EQ(view.Row(1)[2], 7);
  EXPECT_FALSE(view.contiguous());
  EXPECT_EQ(view.Rows(1, 2)(1, 0), 10);
  EXPECT_EQ(view.Cols(1, 2)(3, 1), 17);
  EXPECT_TRUE(View2<int>(values.data(), 4, 5).contiguous());
  view(0, 0) = 42;
  EXPECT_EQ(values[0], 42);
}

TEST(ViewDeathTest, OutsideIsABug) {
  std::vector<int> values = Counting(12);
  const View2<int> view(values.data(), 3, 4);
  EXPECT_DEATH((void)view.Rows(2, 2), "CHECK failed");
  EXPECT_DEATH((void)view.Cols(-1, 2), "CHECK failed");
  EXPECT_DEATH((void)View1<int>(values.data(), 3).Slice(1, 3), "CHECK failed");
  EXPECT_DEATH((void)View2<int>(values.data(), 3, 4, 3), "stride >= cols");
}

}  // namespace
}  // namespace baton
