#include "schedule/session_store.h"

#include <algorithm>
#include <utility>

namespace baton {

void SessionStore::Put(uint64_t session, KeptSequence kept) {
  (void)Take(session);
  kept_.push_back({.session = session, .kept = std::move(kept)});
}

std::optional<KeptSequence> SessionStore::Take(uint64_t session) {
  const auto it = std::ranges::find(kept_, session, &Entry::session);
  if (it == kept_.end()) return std::nullopt;
  KeptSequence kept = std::move(it->kept);
  kept_.erase(it);
  return kept;
}

KeptSequence* SessionStore::Find(uint64_t session) {
  return const_cast<KeptSequence*>(std::as_const(*this).Find(session));
}

const KeptSequence* SessionStore::Find(uint64_t session) const {
  const auto it = std::ranges::find(kept_, session, &Entry::session);
  return it == kept_.end() ? nullptr : &it->kept;
}

bool SessionStore::DropOldestBut(uint64_t but) {
  const auto it =
      std::ranges::find_if(kept_, [&](const Entry& entry) { return entry.session != but; });
  if (it == kept_.end()) return false;
  kept_.erase(it);
  return true;
}

}  // namespace baton
