// Everything that belongs to one opened model: weights, tokenizer, chat template, threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "engine/tune_file.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/sparse_policy.h"
#include "model/model.h"
#include "model/op_recorder.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "threads/pool.h"

namespace baton {

// Whether the file of `baton tune` says how prompts are read (engine/tune_file.h).
enum class TunedPrefill {
  kNone,    // prefill_policy does
  kSparse,  // if there is one; else DefaultSparsePolicy()
  kAuto,    // there must be one; prompts up to its break-even are dense
};

// How to open a model and compute with it.
struct LoadOptions {
  std::string path;
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
  Isa isa = Isa::kPortable;
  int num_threads = 1;
  // Context in tokens; nothing means: what the model was trained for.
  std::optional<int64_t> context_tokens = std::nullopt;
  // Prompt tokens of one step, at least 1: the size of the workspace.
  int64_t chunk_tokens = 512;
  // How prompts are read unless a request says otherwise; nothing: densely. A policy is part of the
  // answer's name.
  std::optional<SparsePolicy> prefill_policy = std::nullopt;
  // Or whether to ask the tune file.
  TunedPrefill tuned_prefill = TunedPrefill::kNone;
  // Where that is; nothing: beside the model, where it may be missing.
  std::optional<std::string> tune_file = std::nullopt;
  // Sequences computed at the same time, at least 1; and the tokens that their cache has room for.
  // Nothing: as many as that many contexts.
  int32_t max_running = 1;
  double max_gap_steps = 5.0;  // EngineConfig::max_gap_steps
  std::optional<int64_t> kv_tokens = std::nullopt;
  // Hears of every operation of every step; null for none. Outlives what is made of the model.
  OpRecorder* recorder = nullptr;
  // Whether to use the packed file beside the model if there is one (`baton pack`).
  bool use_packed_file = true;
  // Name of a built-in chat template, or the text of one, instead of the file's.
  std::optional<std::string> chat_template_name = std::nullopt;
  std::optional<std::string> chat_template_text = std::nullopt;
};

// Called while loading with what is done so far. Units: bytes of the source tensors.
using LoadProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// A model that is ready to compute. Immutable but for the thread pool, which one step uses at a
// time.
struct LoadedModel {
  std::string path;
  LoadOptions options;  // prefill_policy: as the tune file says, if it was asked
  int64_t context_tokens = 0;
  // Of all that the bits of a KV block depend on but the prefill policy (engine/prompt_policy.h):
  // model file, precision, cache type, versions. What is cached under one key serves whoever has
  // the same.
  Hash128 kv_key;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  // Nothing if the file has no template and none was named; chat then needs --chat-template.
  std::unique_ptr<ChatTemplate> chat_template;
  // What the user should know: a context beyond the trained one, tensors that nothing reads, ...
  std::vector<std::string> warnings;
  // What the tune file says, or why it says nothing.
  Result<Tuning> tuning = Fail(ErrorCode::kNotFound, "the model is not tuned");
};

// Opens, checks and repacks a model. Before anything large is allocated it compares the memory that
// weights, cache and workspace need with what the machine has.
// Errors: not-found, corrupt, invalid (context, chunk, unknown template, policy, tune file),
// unavailable (architecture or tensor type that Baton lacks), exhausted (memory; with the numbers
// and the --ctx that would fit).
Result<LoadedModel> LoadModel(const LoadOptions& options, const LoadProgress& progress);

}  // namespace baton
