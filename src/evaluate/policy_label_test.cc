// Labels are read back, and yardsticks keep as many blocks.
#include "evaluate/policy_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(PolicyLabel, SaysWhatIsUnusual) {
  EXPECT_EQ(PolicyLabel(DefaultSparsePolicy()), "default");
  EXPECT_EQ(PolicyLabel(SparsePolicy()), "published");
  SparsePolicy policy = DefaultSparsePolicy();
  policy.share = 0.15;
  policy.dense_layers = {6, 7};
  EXPECT_EQ(PolicyLabel(policy), "rule=share:0.15,1 dense-layers=6,7");
  EXPECT_EQ(ParsePolicy(PolicyLabel(policy), DefaultSparsePolicy()), policy);
  policy = SparsePolicy();
  policy.has_correction = false;
  EXPECT_EQ(PolicyLabel(policy), "published correction=off");
  EXPECT_EQ(ParsePolicy(PolicyLabel(policy), DefaultSparsePolicy()), policy);
}

TEST(PolicyLabel, YardsticksDifferFromThePolicyInOneThing) {
  SparsePolicy policy = DefaultSparsePolicy();
  policy.dense_layers = {3};
  const Result<std::vector<SparsePolicy>> all = BaselinesOf(policy);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ((*all)[0], SparsePolicy());
  EXPECT_EQ((*all)[1].has_correction, false);
  std::vector<std::string> labels;
  for (size_t i = 2; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].share, policy.share);
    EXPECT_EQ((*all)[i].dense_layers, policy.dense_layers);
    EXPECT_EQ((*all)[i].sink_tokens, policy.sink_tokens);
    labels.push_back(PolicyLabel((*all)[i]));
  }
  EXPECT_THAT(labels,
              testing::ElementsAre("correction=off dense-layers=3", "estimate=mean dense-layers=3",
                                   "rule=none dense-layers=3", "energy=random:1 dense-layers=3",
                                   "energy=true dense-layers=3"));
  policy.rule = SelectionRule::kThreshold;
  const Result<std::vector<SparsePolicy>> none = BaselinesOf(policy);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("rule must be a share"));
}

}  // namespace
}  // namespace baton
