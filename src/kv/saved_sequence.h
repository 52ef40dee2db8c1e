// The cache of one sequence in a file: its tokens and their blocks.
//
// Blocks are self-contained, so a file can be read by any process, on any machine and instruction
// set, that computes the same bits; what these depend on is in the key. A file appears whole or not
// at all, and is refused when anything differs or is damaged.
//
// Layout, little-endian: a header of 64 bytes, the tokens (i32 each), the blocks' checksums (u64
// each, at a multiple of 8 bytes), then the blocks, each at a multiple of 64 bytes. Gaps are zeros.
//
// A new file is for its owner only, for the tokens are the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"

namespace baton {

// What saved blocks must agree with.
struct SavedSequenceKind {
  Hash128 key;               // of all that the bits of a block depend on: model, policy, versions
  uint64_t block_bytes = 0;  // BlockLayout::block_bytes()
};

// Hears how far saving or loading is. Units: blocks.
using SavedSequenceProgress = std::function<void(int64_t done, int64_t total)>;

// Whether a saved sequence can be put at `path`: nothing is there yet, or another saved sequence,
// and its folder can be written. Errors: as ReplacingFile::Create.
Result<> CheckSavePath(const std::string& path);

// Whether there is something at `path` that begins as a saved sequence: what can be told before
// the model is there. Errors: as SavedSequence::Open.
Result<> CheckLoadPath(const std::string& path);

// Writes the tokens and their blocks. Requires: blocks are those of the tokens, 64 each, in order.
// Errors: as CheckSavePath; internal (the file cannot be written; then none is there, or the old
// one).
struct SaveSequenceArgs {
  const std::string& path;
  SavedSequenceKind kind;
  std::span<const TokenId> tokens;
  std::span<const std::byte* const> blocks;
  const SavedSequenceProgress& progress;
};
Result<> SaveSequence(const SaveSequenceArgs& args);

// A saved sequence that is open for reading. Move-only.
class SavedSequence {
 public:
  // Opens a file and reads its tokens.
  // Errors: not-found, invalid (not such a file; of another model, policy or version; more than
  // max_tokens tokens, with both numbers), corrupt (cut short, checksum), internal.
  // Memory: the tokens, no more than the file has.
  static Result<SavedSequence> Open(const std::string& path, const SavedSequenceKind& kind,
                                    int64_t max_tokens);

  SavedSequence(SavedSequence&& other) noexcept;
  SavedSequence& operator=(SavedSequence&&) = delete;
  ~SavedSequence();

  const std::vector<TokenId>& tokens() const { return tokens_; }
  int64_t num_blocks() const { return static_cast<int64_t>(checksums_.size()); }

  // Reads a block and compares it with its checksum. Requires: `block` is a block of the kind's
  // size, i < num_blocks(). Errors: corrupt, internal.
  Result<> ReadBlock(int64_t i, std::span<std::byte> block) const;

 private:
  SavedSequence() = default;

  std::string path_;
  int descriptor_ = -1;
  std::vector<TokenId> tokens_;
  std::vector<uint64_t> checksums_;
  uint64_t first_block_ = 0;  // its place in the file
};

}  // namespace baton
