#include "engine/model_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "engine/available_memory.h"
#include "engine/prompt_policy.h"
#include "engine/tokenizer_from_gguf.h"
#include "kernels/rope.h"
#include "model/arch/architecture.h"
#include "model/packed_model.h"
#include "model/weight_plan.h"

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

// Reads part by part; what fails is noted, and the others are read all the same.
class PartsReader {
 public:
  PartsReader(const GgufFile& file, const LoadOptions& options) : file_(file), options_(options) {}

  ModelParts Read() {
    if (file_.tensors().empty()) {
      Lacks(
          {ErrorCode::kNotFound, file_.name() + ": the file holds a vocabulary only, no weights"});
    } else if (Result<ModelSpec> spec = ReadModelSpec(file_); spec) {
      parts_.spec = *std::move(spec);
      ReadTuning();
      CheckContextAndMemory();
    } else {
      Lacks(spec.error());
      if (Result<> types = file_.CheckSupportedTypes(); !types) Lacks(types.error());
    }
    if (Result<std::unique_ptr<ChatTemplate>> opened = OpenChatTemplate(file_, options_); opened) {
      parts_.chat_template = *std::move(opened);
    } else {
      Lacks(opened.error());
    }
    if (Result<Tokenizer> tokenizer = TokenizerFromGguf(file_); tokenizer) {
      parts_.tokenizer = std::make_unique<Tokenizer>(*std::move(tokenizer));
    } else {
      Lacks(tokenizer.error());
    }
    if (parts_.spec) {
      CheckPrefillPolicy();
      OpenPackedFile();
      CheckWeights();
      CheckRopes();
    }
    return std::move(parts_);
  }

 private:
  void Lacks(Error error) { parts_.lacks.push_back(std::move(error)); }

  // Not being tuned is no fault of a model, unless the options say so. A file that they name must
  // be of use.
  void ReadTuning() {
    parts_.fingerprint = FingerprintOf(file_);
    const std::string usual = TunePathOf(file_);
    parts_.tuning =
        ReadTuneFile(options_.tune_file.value_or(usual), {.usual_path = usual,
                                                          .fingerprint = parts_.fingerprint,
                                                          .model = PolicyModelOf(*parts_.spec)});
    Result<std::optional<SparsePolicy>> policy = PolicyOpenedWith(options_, parts_.tuning);
    if (options_.tune_file && !parts_.tuning) {
      Lacks(parts_.tuning.error());
    } else if (policy) {
      options_.prefill_policy = *std::move(policy);
    } else {
      Lacks(policy.error());
    }
    parts_.prefill_policy = options_.prefill_policy;
  }

  void CheckContextAndMemory() {
    const Result<int64_t> context = ChooseContext(*parts_.spec, options_, parts_.warnings);
    if (!context) return Lacks(context.error());
    parts_.context_tokens = *context;
    const Result<MemoryNeeds> needs =
        EstimateMemory(file_, *parts_.spec, QuestionOf(options_, *context));
    if (!needs) return Lacks(needs.error());
    parts_.needs = *needs;
    const std::optional<uint64_t> available = AvailableMemory({});
    if (!available.has_value()) return;
    if (Result<> fits = CheckMemory(*needs, *available, *context); !fits) Lacks(fits.error());
  }

  void CheckPrefillPolicy() {
    if (!options_.prefill_policy) return;
    Result<> fits = CheckPolicy(*options_.prefill_policy, {.model = PolicyModelOf(*parts_.spec),
                                                           .chunk_tokens = options_.chunk_tokens});
    if (!fits) Lacks(fits.error());
  }

  // The packed file beside the model, if there is one and it is wanted.
  void OpenPackedFile() {
    const PackedFile::Expected expected = PackedFileOf(file_);
    if (!options_.use_packed_file) return;
    Result<PackedFile> packed = PackedFile::Open(PackedPathOf(file_), expected);
    if (packed) {
      parts_.packed = *std::move(packed);
    } else if (packed.error().code != ErrorCode::kNotFound) {
      Lacks(packed.error());
    }
  }

  void CheckWeights() {
    for (Obstacle& obstacle : FindObstacles(file_, PlanWeights(*parts_.spec))) {
      Lacks({obstacle.code, fmt::format("{}: {}", file_.name(), obstacle.sentence)});
    }
  }

  void CheckRopes() {
    for (const RopeSpec& rope : parts_.spec->ropes) {
      RopeParams params = rope.params;
      params.frequency_factors = rope.frequency_factors;
      if (Result<RopeTable> table = RopeTable::Make(params); !table) {
        Lacks({ErrorCode::kCorrupt,
               fmt::format("{}: RoPE: {}", file_.name(), table.error().message)});
      }
    }
  }

  const GgufFile& file_;
  LoadOptions options_;  // with the policy of the tune file, if one is used
  ModelParts parts_;
};

}  // namespace

tl::unexpected<Error> Refusal(const std::vector<Error>& lacks) {
  CHECK(!lacks.empty());
  std::string more;
  if (lacks.size() > 1) more = fmt::format(" (and {} more)", lacks.size() - 1);
  return Fail(lacks.front().code, lacks.front().message + more);
}

ModelParts ReadModelParts(const GgufFile& file, const LoadOptions& options) {
  return PartsReader(file, options).Read();
}

}  // namespace baton
