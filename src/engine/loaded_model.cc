#include "engine/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.h"
#include "engine/available_memory.h"
#include "engine/memory_needs.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf.h"
#include "format/packed_file.h"
#include "model/arch/architecture.h"
#include "model/packed_model.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

constexpr char kTemplateKey[] = "tokenizer.chat_template";

// The template that was asked for, else the file's, else none.
Result<std::unique_ptr<ChatTemplate>> OpenChatTemplate(const GgufFile& file,
                                                       const LoadOptions& options) {
  const auto keep = [](Result<ChatTemplate> opened) -> Result<std::unique_ptr<ChatTemplate>> {
    if (!opened) return Forward(opened);
    return std::make_unique<ChatTemplate>(*std::move(opened));
  };
  if (options.chat_template_name) return keep(ChatTemplate::Builtin(*options.chat_template_name));
  if (options.chat_template_text) {
    return keep(ChatTemplate::FromSource(*options.chat_template_text));
  }
  if (!file.Has(kTemplateKey)) return std::unique_ptr<ChatTemplate>();
  Result<std::string_view> source = file.GetString(kTemplateKey);
  if (!source) return Forward(source);
  Result<ChatTemplate> opened = ChatTemplate::FromSource(*source);
  if (!opened) {
    return Fail(opened.error().code,
                fmt::format("{}: {}: {}; name another with --chat-template", file.name(),
                            kTemplateKey, opened.error().message));
  }
  return keep(std::move(opened));
}

// The context to compute with, and a warning where it goes beyond what the model has seen.
Result<int64_t> ChooseContext(const ModelSpec& spec, const LoadOptions& options,
                              std::vector<std::string>& warnings) {
  const int64_t context = options.context_tokens.value_or(spec.trained_context);
  if (context < 1 || context > ModelLimits::kMaxContext) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the context is {} tokens; it must be in 1..{}", CountText(context),
                            CountText(ModelLimits::kMaxContext)));
  }
  if (context > spec.trained_context) {
    warnings.push_back(
        fmt::format("the context of {} tokens is longer than the {} that the model was trained "
                    "for; answers beyond that may make no sense",
                    CountText(context), CountText(spec.trained_context)));
  }
  return context;
}

Result<> CheckFits(const GgufFile& file, const ModelSpec& spec, const LoadOptions& options,
                   int64_t context) {
  Result<MemoryNeeds> needs = EstimateMemory(file, spec, QuestionOf(options, context));
  if (!needs) return Forward(needs);
  const std::optional<uint64_t> available = AvailableMemory({});
  if (!available.has_value()) return {};
  return CheckMemory(*needs, *available, context);
}

// The packed file beside the model, if there is one and it is wanted.
Result<std::optional<PackedFile>> OpenPackedFile(const GgufFile& file,
                                                 const PackedFile::Expected& expected,
                                                 const LoadOptions& options) {
  if (!options.use_packed_file) return std::nullopt;
  Result<PackedFile> packed = PackedFile::Open(PackedPathOf(file), expected);
  if (packed) return *std::move(packed);
  if (packed.error().code == ErrorCode::kNotFound) return std::nullopt;
  return Forward(packed);
}

// `weights`: the fingerprint of the file.
Hash128 KvKeyOf(const GgufFile& file, const Hash128& weights, Precision precision) {
  return Hasher()
      .Add("KV block")
      .Add(uint64_t{kNumericsVersion})
      .Add(uint64_t{kKvRecordVersion})
      .Add(static_cast<uint64_t>(precision))
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
  Result<ModelSpec> spec = ReadModelSpec(*file);
  if (!spec) return Forward(spec);

  LoadedModel loaded;
  loaded.path = options.path;
  loaded.options = options;
  Result<int64_t> context = ChooseContext(*spec, options, loaded.warnings);
  if (!context) return Forward(context);
  loaded.context_tokens = *context;
  const PackedFile::Expected packed_as = PackedFileOf(*file);
  loaded.kv_key = KvKeyOf(*file, packed_as.source, options.precision);
  if (Result<> fits = CheckFits(*file, *spec, options, *context); !fits) return Forward(fits);

  Result<std::unique_ptr<ChatTemplate>> chat_template = OpenChatTemplate(*file, options);
  if (!chat_template) return Forward(chat_template);
  loaded.chat_template = *std::move(chat_template);
  Result<Tokenizer> tokenizer = TokenizerFromGguf(*file);
  if (!tokenizer) return Forward(tokenizer);
  loaded.tokenizer = std::make_unique<Tokenizer>(*std::move(tokenizer));

  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(options.num_threads);
  if (!pool) return Forward(pool);
  loaded.pool = *std::move(pool);
  Result<std::optional<PackedFile>> packed = OpenPackedFile(*file, packed_as, options);
  if (!packed) return Forward(packed);
  Result<Model> model = Model::LoadBySpec({.file = *file,
                                           .spec = *spec,
                                           .pool = *loaded.pool,
                                           .progress = progress,
                                           .packed = *std::move(packed)});
  if (!model) return Forward(model);
  loaded.model = std::make_unique<Model>(*std::move(model));
  WarnOfUnusedTensors(*loaded.model, loaded.warnings);
  return loaded;
}

}  // namespace baton
