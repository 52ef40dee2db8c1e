// A block of the cache in a file of its own: what it is, the tokens it stands for, its bytes.
//
// Layout, little-endian: a header of 128 bytes, the tokens (i32 each), zeros up to a multiple of
// 64, the block. Every byte is covered by one of three checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/block_layout.h"

namespace baton {

// What the bits of stored blocks depend on.
struct DiskBlockKind {
  Hash128 key;  // of model, policy and versions
  BlockLayout layout;
};

// Which block it is.
struct DiskBlockId {
  Hash128 name;  // PrefixIndex::NameOf
  // All tokens of the sequence up to the end of the block: they confirm the name.
  std::span<const TokenId> tokens;
};

// What came of reading a file.
enum class DiskBlockRead {
  kGood,
  kDiffers,     // whole, and of another kind, or of other tokens under the same name
  kDamaged,     // cut, changed, or under a name that is not its own
  kUnreadable,  // the system refused
};

// The size of the file of a block. Units: bytes.
uint64_t DiskBlockFileBytes(const DiskBlockKind& kind, uint64_t num_tokens);

// Writes all of the file, from its start. Requires: `descriptor` is open for writing, `bytes` is a
// block of the layout. Errors: internal (disk full, ...).
struct WriteDiskBlockArgs {
  int descriptor = -1;
  const DiskBlockKind& kind;
  const DiskBlockId& id;
  std::span<const std::byte> bytes;
};
Result<> WriteDiskBlock(const WriteDiskBlockArgs& args);

// Reads a file and compares all of it with what it should be; `bytes` is the block only if the
// result is good, and anything otherwise.
// Requires: `descriptor` is open for reading, `bytes` has room for a block of the layout.
// Memory: allocates nothing.
struct ReadDiskBlockArgs {
  int descriptor = -1;
  const DiskBlockKind& kind;
  const DiskBlockId& id;
  std::span<std::byte> bytes;
};
DiskBlockRead ReadDiskBlock(const ReadDiskBlockArgs& args);

}  // namespace baton
