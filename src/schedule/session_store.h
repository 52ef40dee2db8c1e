// Sequences that ended and may go on: kept down to the token, as long as nobody needs their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "base/hash.h"
#include "kv/block_table.h"
#include "step/request.h"

namespace baton {

// What is kept of a sequence. The ledger's computed tokens are those of the table.
struct KeptSequence {
  Request ledger;
  BlockTable table;
  Hash128 salt = {};  // only a sequence of the same one may go on from it
};

// Session numbers are not 0. Threads: one at a time with all that use the blocks' pool.
class SessionStore {
 public:
  // Keeps a sequence under a number, instead of what was kept under it.
  void Put(uint64_t session, KeptSequence kept);
  // Gives out what is kept under a number; it is kept no longer.
  std::optional<KeptSequence> Take(uint64_t session);
  // What is kept; null if nothing is.
  KeptSequence* Find(uint64_t session);
  const KeptSequence* Find(uint64_t session) const;
  // Lets go of what was put first, but not of what is kept under the number `but` (0: of anything).
  // Returns false if there is nothing to let go.
  bool DropOldestBut(uint64_t but);
  size_t size() const { return kept_.size(); }

  // Of everything that is kept; for the books.
  template <typename Visit>
  void ForEachTable(const Visit& visit) const {
    for (const Entry& entry : kept_) visit(entry.kept.table);
  }

 private:
  struct Entry {
    uint64_t session;
    KeptSequence kept;
  };
  std::list<Entry> kept_;  // the oldest first; few
};

}  // namespace baton
