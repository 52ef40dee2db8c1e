// The engine's side of the disk tier: what goes to it and what comes back.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "engine/engine_loop.h"
#include "engine/prompt_policy.h"
#include "kv/prefix_hash.h"

namespace baton {

Hash128 Engine::Loop::SaltOf(const LiveRequest& live) {
  return SaltOfPrompt(live.request().cache_salt, live.policy());
}

// Whether the request waits for the disk now. If not, everything that could be found is in memory.
bool Engine::Loop::AwaitDisk(const LiveRequest& live) {
  if (disk_ == nullptr || live.request().prompt_logprobs) return false;
  const std::vector<TokenId>& prompt = live.request().prompt;
  // The last token is computed in any case.
  const size_t num_blocks = (prompt.size() - 1) / size_t{kBlockTokens};
  const size_t found = scheduler_.index()
                           .Find({.tokens = prompt,
                                  .salt = SaltOf(live),
                                  .max_blocks = static_cast<int64_t>(num_blocks)})
                           .size();
  if (found == num_blocks) return false;
  DiskCache::Wanted wanted{
      .ticket = live.id(), .tokens = prompt, .names = {}, .first_block = found};
  Hash128 name = PrefixRoot(model_->kv_key, SaltOf(live));
  for (size_t i = 0; i < num_blocks; ++i) {
    const TokenId* first = prompt.data() + i * size_t{kBlockTokens};
    name = ChainHash(name, BlockTokens(first, size_t{kBlockTokens}));
    wanted.names.push_back(name);
  }
  disk_->Load(std::move(wanted));
  return true;
}

void Engine::Loop::ReceiveFromDisk() {
  if (disk_ == nullptr) return;
  disk_->Take(loaded_);
  for (const DiskCache::Loaded& slice : loaded_) {
    const auto found = live_.find(slice.ticket);
    if (found == live_.end()) continue;  // cancelled meanwhile
    LiveRequest& live = *found->second;
    if (!live.awaits_disk()) continue;  // it went on without the rest
    const bool all = TakeIn(live, slice);
    if (slice.is_last || !all) {
      live.SetAwaitsDisk(false);
      Queue(live);
    }
  }
}

// Puts blocks into the cache under their names, behind those of the prompt that are there. Returns
// false if there is no room, or what they belong to is gone.
bool Engine::Loop::TakeIn(const LiveRequest& live, const DiskCache::Loaded& slice) {
  if (slice.blocks.empty()) return true;
  const std::vector<TokenId>& prompt = live.request().prompt;
  const auto first_block = static_cast<int64_t>(slice.first_block);
  const std::span<const BlockId> before =
      scheduler_.index().Find({.tokens = prompt,
                               .salt = SaltOf(live),
                               .max_blocks = first_block + std::ssize(slice.blocks)});
  if (std::ssize(before) < first_block) return false;
  // Another request may have brought them in the meantime.
  const int64_t skip = std::ssize(before) - first_block;
  const int64_t joining = std::ssize(slice.blocks) - skip;
  if (joining == 0) return true;
  BlockTable table(pool_, model_->context_tokens);
  table.Adopt(before, std::ssize(before) * kBlockTokens);
  if (scheduler_.UnpromisedBlocks() < joining || !scheduler_.MakeFree(joining)) return false;
  CHECK(table.Reserve(joining * kBlockTokens).has_value());
  for (int64_t i = 0; i < joining; ++i) {
    const std::vector<std::byte>& bytes = slice.blocks[static_cast<size_t>(skip + i)];
    const BlockId block = table.blocks()[static_cast<size_t>(std::ssize(before) + i)];
    std::memcpy(pool_.Data(block), bytes.data(), bytes.size());
  }
  table.Append(joining * kBlockTokens);
  const auto end = static_cast<size_t>(table.num_tokens());
  (void)scheduler_.index().Publish({.tokens = std::span(prompt).first(end),
                                    .table = table,
                                    .salt = SaltOf(live),
                                    .first_block = table.num_tokens() / kBlockTokens - joining});
  return true;
}

void Engine::Loop::StoreOnDisk() {
  if (disk_ == nullptr) return;
  for (const Scheduler::Published& published : scheduler_.published()) {
    const Sequence& sequence = *published.sequence;
    for (int64_t i = published.first_block; i < published.end_block; ++i) {
      const BlockId block = sequence.table.blocks()[static_cast<size_t>(i)];
      const std::optional<Hash128> name = scheduler_.index().NameOf(block);
      CHECK(name.has_value());
      const auto end = static_cast<size_t>((i + 1) * kBlockTokens);
      disk_->Store(*name, std::span(sequence.ledger.known).first(end),
                   {pool_.Data(block), pool_.layout().block_bytes()});
    }
  }
}

}  // namespace baton
