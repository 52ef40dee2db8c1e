#include "cli/model_options.h"

#include <fmt/format.h>

#include "engine/prefill_wish.h"
#include "model/model_spec.h"
#include "threads/cpu_topology.h"
#include "threads/pool.h"

namespace baton {
namespace {

constexpr int64_t kMaxChunkTokens = int64_t{1} << 20;

// What users of other programs look for.
void DeclareElsewhere(OptionSet& options) {
  for (const char* const name : {"--ctx-size", "--num-ctx", "--context", "--max-model-len"}) {
    options.Elsewhere(name, "the context is --ctx");
  }
  for (const char* const name : {"-ngl", "--n-gpu-layers", "--gpu-layers"}) {
    options.Elsewhere(name, "Baton computes on the CPU; leave it out");
  }
  for (const char* const name : {"-fa", "--flash-attn"}) {
    options.Elsewhere(name, "attention is computed in one way; leave it out");
  }
}

}  // namespace

void DeclareTuneFile(OptionSet& options, std::optional<std::string>* tune_file) {
  options.File({.names = "--tune-file",
                .value = "FILE",
                .help = "What baton tune found for the model (default: MODEL.tune.json)"},
               tune_file);
}

void DeclareNoPacked(OptionSet& options, bool* no_packed) {
  options.Flag({.names = "--no-packed",
                .value = "",
                .help = "Do not use the packed file beside the model (baton pack)"},
               no_packed);
}

void ComputeOptions::Declare(OptionSet& options) {
  options.Group(
      "Computing (none but --precision, --kv-type and --prefill changes a bit of the result)");
  DeclareMachine(options);
  DeclarePrefill(options);
  DeclareNoPacked(options, &no_packed_);
  profile_.Declare(options);
}

void ComputeOptions::DeclareWithoutPrefill(OptionSet& options, const std::string& instead) {
  options.Elsewhere("--prefill", instead);
  options.Group("Computing (none but --precision and --kv-type changes a bit of the result)");
  DeclareMachine(options);
  DeclareNoPacked(options, &no_packed_);
  profile_.Declare(options);
}

void ComputeOptions::DeclareMachine(OptionSet& options) {
  DeclareElsewhere(options);
  options.Integer({.names = "-t,--threads",
                   .value = "N",
                   .help = "Threads to compute with (default: the physical cores this process "
                           "may use)"},
                  {.min = 1, .max = ThreadPool::kMaxThreads}, &threads_);
  options.Integer({.names = "-c,--ctx",
                   .value = "N",
                   .help = "Context: tokens that prompt and answer may have together (default: "
                           "what the model was trained for)"},
                  {.min = 1, .max = ModelLimits::kMaxContext}, &context_);
  options.Integer({.names = "--chunk",
                   .value = "N",
                   .help = "Prompt tokens that are read in one step (default: 512)"},
                  {.min = 1, .max = kMaxChunkTokens}, &chunk_);
  options.Parsed({.names = "--isa",
                  .value = "NAME",
                  .help = "Instruction set: auto, portable, avx2, avx-vnni or avx512 (default: "
                          "auto, the best of this machine)"},
                 [this](const std::string& given) -> Result<> {
                   const Result<Isa> isa = ParseIsa(given);
                   if (!isa) return Fail(isa.error().code, ": " + isa.error().message);
                   isa_ = *isa;
                   return {};
                 });
  options.Choice({.names = "--precision",
                  .value = "NAME",
                  .help = "Inputs of quantized layers: fast (8 bits) or exact (16 bits) "
                          "(default: fast)"},
                 {"fast", "exact"}, &precision_name_);
  DeclareKvType(options, &kv_type_name_);
}

void DeclareKvType(OptionSet& options, std::optional<std::string>* name) {
  for (const char* const other :
       {"-ctk", "--cache-type-k", "-ctv", "--cache-type-v", "--kv-cache-dtype"}) {
    options.Elsewhere(other, "what the KV cache holds is --kv-type, f16 or q8");
  }
  options.Choice({.names = "--kv-type",
                  .value = "NAME",
                  .help = "What the KV cache holds: f16, or q8, 8 bits: about half the memory and "
                          "faster attention, for a small loss (docs/numerics.md) (default: f16)"},
                 {"f16", "q8"}, name);
}

KvType KvTypeOf(const std::optional<std::string>& name) {
  return name == "q8" ? KvType::kQ8 : KvType::kF16;
}

void ComputeOptions::DeclarePrefill(OptionSet& options) {
  options.Choice(
      {.names = "--prefill",
       .value = "NAME",
       .help = "How prompts are read: dense; sparse, which leaves out blocks of the past "
               "that hold little; or auto, sparse where baton tune found that faster "
               "(default: dense)"},
      {"dense", "sparse", "auto"}, &prefill_name_);
  options.Parsed({.names = "--sparse",
                  .value = "POLICY",
                  .help = "What --prefill sparse keeps, as words 'name=value' (docs/sparse.md); "
                          "what is not named stays as it is by default (default: what baton "
                          "tune found for the model, if it ran)"},
                 [this](const std::string& given) -> Result<> {
                   Result<SparsePolicy> policy = ParseSparseWords(given);
                   if (!policy) return Fail(policy.error().code, ": " + policy.error().message);
                   sparse_ = *std::move(policy);
                   return {};
                 });
  DeclareTuneFile(options, &tune_file_);
}

Result<> ComputeOptions::CheckForRequests() const {
  if (!sparse_ || prefill_name_ == "sparse") return {};
  return Fail(ErrorCode::kInvalid,
              "--sparse says what a sparse prefill keeps; it needs --prefill sparse");
}

Result<> ComputeOptions::Check() const {
  if (Result<> sound = CheckForRequests(); !sound) return sound;
  if (!tune_file_ || Tuned() != TunedPrefill::kNone) return {};
  return Fail(ErrorCode::kInvalid,
              "--tune-file is read by --prefill auto, and by --prefill sparse without --sparse; "
              "give one of them, too");
}

Result<> ComputeOptions::Finish(Result<> done, Console& console) {
  Result<> reported = profile_.Report(console);
  return done ? reported : done;
}

TunedPrefill ComputeOptions::Tuned() const {
  if (prefill_name_ == "auto") return TunedPrefill::kAuto;
  if (prefill_name_ == "sparse" && !sparse_) return TunedPrefill::kSparse;
  return TunedPrefill::kNone;
}

Result<LoadOptions> ComputeOptions::ToLoadOptions(const std::string& path, Clock& clock) {
  const Result<OpRecorder*> recorder = profile_.Recorder(clock);
  if (!recorder) return Forward(recorder);
  return LoadOptions{.path = path,
                     .precision = precision_name_ == "exact" ? Precision::kExact : Precision::kFast,
                     .kv_type = KvTypeOf(kv_type_name_),
                     .isa = isa_.value_or(BestIsa()),
                     .num_threads = threads_.has_value() ? static_cast<int>(*threads_)
                                                         : ReadCpuTopology().num_compute_threads(),
                     .context_tokens = context_,
                     .chunk_tokens = chunk_.value_or(LoadOptions().chunk_tokens),
                     .prefill_policy = sparse_,
                     .tuned_prefill = Tuned(),
                     .tune_file = tune_file_,
                     .recorder = *recorder,
                     .use_packed_file = !no_packed_,
                     .chat_template_name = std::nullopt,
                     .chat_template_text = std::nullopt};
}

void DeclareMaxGapSteps(OptionSet& options, std::optional<double>* max_gap_steps) {
  options.Real({.names = "--max-gap-steps",
                .value = "N",
                .help = "The longest time between two tokens of an answer while prompts are read "
                        "beside it, in steps without prompts: more is good for throughput, less "
                        "for streams (default: 5)"},
               {.min = 1, .max = 1e6}, max_gap_steps);
}

}  // namespace baton
