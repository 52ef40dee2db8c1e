// What `baton inspect` finds in a model file, as plain data.
//
// Everything that can be read is reported, also of files that Baton cannot run; what stands in the
// way is a list of sentences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "tensor/kv_record.h"

namespace baton {

struct TensorTypeUse {
  std::string type;
  int64_t num_tensors = 0;
  uint64_t bytes = 0;
};

struct SpecialToken {
  std::string role;  // "bos"
  int64_t id = 0;
  std::string piece;  // as in the file
};

struct TokenizerFacts {
  std::string model;  // empty: the file has no tokenizer
  std::string pre;    // empty: not stated
  int64_t num_tokens = 0;
  int64_t num_merges = 0;
  std::vector<SpecialToken> special;
  std::optional<bool> add_bos;  // nothing: not stated
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

// Sizes as the metadata state them; nothing where they do not.
struct SizeFacts {
  std::optional<int64_t> layers;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> feed_forward_size;
  std::optional<int64_t> heads;
  std::optional<int64_t> kv_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> trained_context;
};

struct RopeFacts {
  double base = 0;
  std::string layout;   // "interleaved", "halves"
  std::string scaling;  // "none", "linear", ...
  double factor = 1;
  int64_t num_layers = 0;  // that use it
};

// What a context of so many tokens takes by the defaults of loading (threads, chunk). Units: bytes.
struct MemoryFacts {
  int64_t context_tokens = 0;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t workspace_bytes = 0;

  uint64_t total_bytes() const { return weight_bytes + kv_bytes + workspace_bytes; }
};

// What is at the place of the model's packed file (`baton pack`).
struct PackedFacts {
  std::string path;
  uint64_t file_bytes = 0;
  bool is_usable = false;  // else what the model lacks says why, if it is a model at all
};

// What is at the place of the model's tune file (`baton tune`).
struct TuneFacts {
  std::string path;
  std::string policy = {};  // empty if it is of no use
  std::optional<int64_t> break_even_tokens = std::nullopt;
  std::string fault = {};  // why it is of no use, and what to do; empty if it is of use
};

struct InspectReport {
  std::string path;
  std::vector<std::string> parts;
  uint64_t file_bytes = 0;
  uint32_t version = 0;
  std::string architecture;
  std::string name;
  std::string license;
  uint64_t num_parameters = 0;
  int64_t num_tensors = 0;
  SizeFacts sizes;
  std::vector<TensorTypeUse> tensor_types;  // most bytes first
  TokenizerFacts tokenizer;
  std::optional<std::string> chat_template;
  // From here on: only of a model whose architecture Baton knows.
  bool has_spec = false;
  bool has_tied_output = false;
  std::vector<RopeFacts> ropes;
  int64_t sliding_window = 0;  // tokens; 0 for none
  int64_t num_window_layers = 0;
  KvType kv_type = KvType::kF16;  // that the memory is counted for
  std::optional<uint64_t> kv_bytes_per_token;
  std::optional<MemoryFacts> memory;
  std::optional<PackedFacts> packed;
  std::optional<TuneFacts> tuned;
  std::vector<std::string> unused_tensors;
  // Sentences; empty if Baton can run the file.
  std::vector<std::string> lacks;
};

struct InspectOptions {
  // For the memory; nothing: what the model was trained for.
  std::optional<int64_t> context_tokens;
  KvType kv_type = KvType::kF16;
  // Nothing: that beside the model, if there is one.
  std::optional<std::string> tune_file;
};

// Reads the report of an open file.
InspectReport MakeInspectReport(const GgufFile& file, const InspectOptions& options);

}  // namespace baton
