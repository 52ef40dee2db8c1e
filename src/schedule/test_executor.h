// Tests only: an executor whose "keys and values" say which tokens they stand for.
//
// Instead of K and V a block holds, for each of its positions, a hash of the salt and of all tokens
// up to it. Each step reads the whole past of its sequences and compares it with what these tokens
// must have left there, then writes its own rows: so a single block that is foreign, stale or
// overwritten is caught in the step that reads it.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string>

#include "kv/block_pool.h"
#include "schedule/scheduler.h"
#include "step/step_plan.h"

namespace baton {

class TestExecutor {
 public:
  // The smallest record there is; it has room for a number per token.
  static KvShape Shape() { return {.num_layers = 1, .num_kv_heads = 1, .head_dim = 16}; }
  static BlockPool MakePool(int32_t num_blocks) {
    const Result<BlockLayout> layout = BlockLayout::Make(Shape());
    CHECK(layout.has_value());
    Result<BlockPool> pool = BlockPool::Make(*layout, num_blocks);
    CHECK(pool.has_value());
    return *std::move(pool);
  }

  // What position p holds, from what p − 1 holds (or the salt) and the token.
  static uint64_t Next(uint64_t before, TokenId token) {
    uint64_t x = (before ^ static_cast<uint64_t>(token)) + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  static uint64_t First(const Hash128& salt) { return salt.low * 3 + salt.high + 1; }

  explicit TestExecutor(BlockPool& pool) : pool_(&pool) {}

  // Runs the plan. Returns what was wrong with it or with the cache; empty if nothing was.
  std::string Run(const StepPlan& plan, std::span<Sequence* const> planned) {
    if (plan.sequences.size() != planned.size()) return "the plan and its sequences differ";
    for (size_t i = 0; i < planned.size(); ++i) {
      std::string wrong = RunOne(plan.sequences[i], *planned[i]);
      if (!wrong.empty()) return fmt::format("sequence {}: {}", planned[i]->spec.id, wrong);
    }
    return {};
  }

 private:
  std::string RunOne(const SequenceStep& step, const Sequence& sequence) {
    const std::vector<TokenId>& known = sequence.ledger.known;
    uint64_t content = First(sequence.spec.salt);
    for (int64_t p = 0; p < step.end_position(); ++p) {
      const TokenId token = known[static_cast<size_t>(p)];
      content = Next(content, token);
      std::byte* place = PlaceOf(step, p);
      if (p < step.first_position) {
        uint64_t found = 0;
        std::memcpy(&found, place, sizeof(found));
        if (found != content) return fmt::format("position {} of the cache is not its own", p);
      } else {
        if (step.tokens[static_cast<size_t>(p - step.first_position)] != token) {
          return fmt::format("position {} of the plan is another token", p);
        }
        std::memcpy(place, &content, sizeof(content));
      }
    }
    return {};
  }
  std::byte* PlaceOf(const SequenceStep& step, int64_t position) const {
    const BlockId block = step.blocks[static_cast<size_t>(position / kBlockTokens)];
    return pool_->Data(block) + static_cast<size_t>(position % kBlockTokens) * sizeof(uint64_t);
  }

  BlockPool* pool_;
};

}  // namespace baton
