#include "schedule/prefix_reuse.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(PrefixReuse, OnlyWholeTilesBeforeTheTailAreClean) {
  // 1,000 tokens are 31 whole tiles of 32 and one of 8; eight of these 32 are the tail.
  PrefixReuse reuse = ReuseOfSparse({.num_tokens = 1000, .tile_positions = 32, .last_tiles = 8});
  EXPECT_EQ(reuse.unit, 64);
  EXPECT_EQ(reuse.clean_tokens, 768);  // 24 tiles
  reuse = ReuseOfSparse({.num_tokens = 1000, .tile_positions = 32, .last_tiles = 7});
  EXPECT_EQ(reuse.clean_tokens, 768);  // 25 tiles are 800 tokens, 12 whole blocks
  // Without a tail the cut tile is left out all the same.
  reuse = ReuseOfSparse({.num_tokens = 1000, .tile_positions = 32, .last_tiles = 0});
  EXPECT_EQ(reuse.clean_tokens, 960);
  reuse = ReuseOfSparse({.num_tokens = 1024, .tile_positions = 32, .last_tiles = 0});
  EXPECT_EQ(reuse.clean_tokens, 1024);
  // A tile larger than a block is the unit.
  reuse = ReuseOfSparse({.num_tokens = 1000, .tile_positions = 128, .last_tiles = 1});
  EXPECT_EQ(reuse.unit, 128);
  EXPECT_EQ(reuse.clean_tokens, 896);
  EXPECT_EQ(ReuseOfSparse({.num_tokens = 100, .tile_positions = 32, .last_tiles = 8}).clean_tokens,
            0);
}

}  // namespace
}  // namespace baton
