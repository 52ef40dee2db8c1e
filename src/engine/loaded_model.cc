#include "engine/loaded_model.h"

#include <fmt/format.h>

#include <utility>

#include "base/number_text.h"
#include "engine/model_parts.h"
#include "format/gguf.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

// `weights`: the fingerprint of the file.
Hash128 KvKeyOf(const GgufFile& file, const Hash128& weights, const LoadOptions& options) {
  return Hasher()
      .Add("KV block")
      .Add(uint64_t{kNumericsVersion})
      .Add(uint64_t{kKvRecordVersion})
      .Add(static_cast<uint64_t>(options.precision))
      .Add(static_cast<uint64_t>(options.kv_type))
      .Add(weights.low)
      .Add(weights.high)
      .Add(file.header())
      .Finish();
}

void WarnOfUnusedTensors(const Model& model, std::vector<std::string>& warnings) {
  const std::vector<std::string>& unused = model.unused_tensors();
  if (unused.empty()) return;
  std::string more;
  if (unused.size() > 1) more = fmt::format(" and {} more", unused.size() - 1);
  warnings.push_back(fmt::format("nothing reads tensor {}{} of the file", unused.front(), more));
}

}  // namespace

Result<LoadedModel> LoadModel(const LoadOptions& options, const LoadProgress& progress) {
  if (options.chunk_tokens < 1) {
    return Fail(ErrorCode::kInvalid, fmt::format("the chunk is {} tokens; it must be at least 1",
                                                 CountText(options.chunk_tokens)));
  }
  Result<GgufFile> file = GgufFile::Open(options.path);
  if (!file) return Forward(file);
  ModelParts parts = ReadModelParts(*file, options);
  if (!parts.lacks.empty()) return Refusal(parts.lacks);

  LoadedModel loaded;
  loaded.path = options.path;
  loaded.options = options;
  loaded.options.prefill_policy = std::move(parts.prefill_policy);
  loaded.tuning = std::move(parts.tuning);
  loaded.context_tokens = parts.context_tokens;
  loaded.kv_key = KvKeyOf(*file, parts.fingerprint, options);
  loaded.chat_template = std::move(parts.chat_template);
  loaded.tokenizer = std::move(parts.tokenizer);
  loaded.warnings = std::move(parts.warnings);
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(options.num_threads);
  if (!pool) return Forward(pool);
  loaded.pool = *std::move(pool);
  Result<Model> model = Model::LoadBySpec({.file = *file,
                                           .spec = *parts.spec,
                                           .pool = *loaded.pool,
                                           .progress = progress,
                                           .packed = std::move(parts.packed)});
  if (!model) return Forward(model);
  loaded.model = std::make_unique<Model>(*std::move(model));
  WarnOfUnusedTensors(*loaded.model, loaded.warnings);
  return loaded;
}

}  // namespace baton
