// What the scheduler knows of a request.
//
// Life of a sequence:
//  1. waiting: in the queue; known tokens, no blocks, computed = 0.
//  2. prefill: admitted to a slot, with the blocks of a prefix hit; computed catches up with known.
//  3. decode: one token is pending. Back to 1 if preempted: known stays, the blocks are gone.
//  4. ended: out of the scheduler; its complete blocks stay cached.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/block_table.h"
#include "schedule/prefix_reuse.h"
#include "step/request.h"

namespace baton {

// What is asked of the scheduler. Units: seconds by the caller's clock.
struct SequenceSpec {
  uint64_t id = 0;  // of no other sequence
  std::vector<TokenId> prompt;
  int64_t max_known = 0;  // prompt and answer end there, at most
  int32_t priority = 0;   // higher ones first
  double arrival = 0.0;
  double deadline = std::numeric_limits<double>::infinity();
  Hash128 salt;
  // All rows of the prompt yield logits, each once, so none is taken from the cache before it has.
  bool prompt_logits = false;
  uint64_t session = 0;  // 0: none
  PrefixReuse reuse;
};

struct Sequence {
  Request ledger;
  SequenceSpec spec;  // without the prompt, which is in the ledger
  BlockTable table;

  uint64_t order = 0;              // of submission; the oldest has the least
  int32_t slot = -1;               // while running
  int64_t promised_blocks = 0;     // of its own table, that nobody else may take
  int64_t published_blocks = 0;    // named in the prefix index
  int64_t logits_told = 0;         // leading rows of the prompt that have yielded logits
  int64_t hit_tokens = 0;          // of the prompt, found when it was first admitted
  int64_t known_at_admission = 0;  // or, while it waits, when it will be
  int32_t waited = 0;              // steps since its prefill advanced
  int32_t passes = 0;              // younger ones that were admitted before it
  int32_t preemptions = 0;
  bool was_admitted = false;

  // More is pending than the one token of a decode step.
  bool is_prefill() const { return ledger.num_pending() > 1 || HasSparseRow(); }
  // The next token belongs to a sparse prompt, so it is read with its tile, not decoded.
  bool HasSparseRow() const { return spec.reuse.is_sparse && ledger.computed < ledger.num_prompt; }
  // Leading tokens that may come from the cache: not the last, whose logits are wanted.
  int64_t reusable_tokens() const {
    const int64_t most = ledger.num_known() - 1;
    return wants_prompt_logits() && logits_told < most ? logits_told : most;
  }
  // Rows of the prompt before its last are still to yield logits.
  bool wants_prompt_logits() const {
    return spec.prompt_logits && logits_told < ledger.num_prompt - 1;
  }
  // Tokens gained since the last admission.
  int64_t progress() const { return ledger.num_known() - known_at_admission; }
  // Blocks that were promised and not yet taken.
  int64_t outstanding_blocks() const {
    const int64_t held = static_cast<int64_t>(table.blocks().size());
    return promised_blocks > held ? promised_blocks - held : 0;
  }
};

}  // namespace baton
