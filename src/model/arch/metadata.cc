#include "model/arch/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace baton {
namespace {

constexpr double kDefaultRopeBase = 10000.0;

tl::unexpected<Error> BadValue(const Metadata& metadata, std::string_view suffix,
                               std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: {} {}", metadata.file().name(), metadata.Key(suffix), what));
}

Result<int64_t> Bounded(const Metadata& metadata, std::string_view suffix, int64_t value,
                        int64_t limit) {
  if (value < 1 || value > limit) {
    return BadValue(metadata, suffix, fmt::format("is {}; it must be in 1..{}", value, limit));
  }
  return value;
}

Result<> RefuseExperts(const Metadata& metadata) {
  Result<int64_t> experts = metadata.CountOrZero("expert_count", ModelLimits::kMaxWidth);
  if (!experts) return Forward(experts);
  if (*experts > 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {} is {}; Baton does not run mixtures of experts yet",
                            metadata.file().name(), metadata.Key("expert_count"), *experts));
  }
  return {};
}

Result<> ReadHeads(const Metadata& metadata, ModelSpec& spec) {
  Result<int64_t> heads =
      metadata.UniformSize("attention.head_count", ModelLimits::kMaxHeads, std::nullopt);
  if (!heads) return Forward(heads);
  Result<int64_t> kv_heads =
      metadata.UniformSize("attention.head_count_kv", ModelLimits::kMaxHeads, *heads);
  if (!kv_heads) return Forward(kv_heads);
  if (*heads % *kv_heads != 0) {
    return BadValue(metadata, "attention.head_count_kv",
                    fmt::format("is {}, which does not divide the {} query heads of {}", *kv_heads,
                                *heads, metadata.Key("attention.head_count")));
  }
  if (!metadata.Has("attention.key_length") && spec.hidden_size % *heads != 0) {
    return BadValue(metadata, "embedding_length",
                    fmt::format("is {}, which {} heads do not divide, and {} is missing",
                                spec.hidden_size, *heads, metadata.Key("attention.key_length")));
  }
  Result<int64_t> head_dim = metadata.SizeOr("attention.key_length", ModelLimits::kMaxHeadDim,
                                             std::max<int64_t>(1, spec.hidden_size / *heads));
  if (!head_dim) return Forward(head_dim);
  Result<int64_t> value_dim =
      metadata.SizeOr("attention.value_length", ModelLimits::kMaxHeadDim, *head_dim);
  if (!value_dim) return Forward(value_dim);
  if (*value_dim != *head_dim) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: keys of {} and values of {} components; Baton needs them equal",
                            metadata.file().name(), *head_dim, *value_dim));
  }
  if (*head_dim % 16 != 0 || *head_dim > ModelLimits::kMaxHeadDim) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: head size {}; Baton needs a multiple of 16 up to {}",
                            metadata.file().name(), *head_dim, ModelLimits::kMaxHeadDim));
  }
  spec.num_heads = static_cast<int>(*heads);
  spec.num_kv_heads = static_cast<int>(*kv_heads);
  spec.head_dim = static_cast<int>(*head_dim);
  return {};
}

// The vocabulary is as large as the embedding has rows; a stated size must agree.
Result<> ReadVocabulary(const Metadata& metadata, ModelSpec& spec) {
  const GgufFile& file = metadata.file();
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return Fail(ErrorCode::kNotFound,
                file.name() + ": tensor token_embd.weight is missing" +
                    (file.tensors().empty() ? "; the file holds a vocabulary only" : ""));
  }
  const uint64_t rows = embedding->num_rows();
  if (rows > static_cast<uint64_t>(ModelLimits::kMaxVocabulary)) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: token_embd.weight has {} rows; at most {}",
                                                 file.name(), rows, ModelLimits::kMaxVocabulary));
  }
  spec.vocab_size = static_cast<int64_t>(rows);
  Result<int64_t> stated =
      metadata.SizeOr("vocab_size", ModelLimits::kMaxVocabulary, spec.vocab_size);
  if (!stated) return Forward(stated);
  if (*stated != spec.vocab_size) {
    return BadValue(metadata, "vocab_size",
                    fmt::format("is {}, but token_embd.weight has {} rows", *stated, rows));
  }
  spec.has_tied_output = file.FindTensor("output.weight") == nullptr;
  return {};
}

Result<RopeScaling> ScalingKind(const Metadata& metadata) {
  Result<std::string_view> type =
      metadata.file().GetStringOr(metadata.Key("rope.scaling.type"), "");
  if (!type) return Forward(type);
  if (type->empty()) {
    const bool has_factor =
        metadata.Has("rope.scaling.factor") || metadata.Has("rope.scale_linear");
    return has_factor ? RopeScaling::kLinear : RopeScaling::kNone;
  }
  if (*type == "none") return RopeScaling::kNone;
  if (*type == "linear") return RopeScaling::kLinear;
  if (*type == "llama3") return RopeScaling::kLlama3;
  if (*type == "yarn") return RopeScaling::kYarn;
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("{}: {} is \"{}\"; Baton knows none, linear, llama3 and yarn",
                  metadata.file().name(), metadata.Key("rope.scaling.type"), type->substr(0, 64)));
}

// What files say below rope.scaling. A key that is not here would be ignored, and the model answer
// wrongly: it is refused by name.
constexpr std::string_view kScalingKeys[] = {
    "type",           "factor",          "original_context_length",
    "finetuned",  // whether the model was trained with the scaling; changes nothing
    "attn_factor",    "low_freq_factor", "high_freq_factor",        "yarn_attn_factor",
    "yarn_beta_fast", "yarn_beta_slow",  "yarn_ext_factor",         "yarn_log_multiplier",
};

Result<> RefuseUnknownScaling(const Metadata& metadata) {
  const std::string prefix = metadata.Key("rope.scaling.");
  for (const GgufKeyValue& entry : metadata.file().metadata()) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string_view rest = entry.key.substr(prefix.size());
    if (std::ranges::find(kScalingKeys, rest) != std::end(kScalingKeys)) continue;
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: Baton does not know {}; without it the answers would be wrong",
                            metadata.file().name(), entry.key.substr(0, 128)));
  }
  return {};
}

// A key that Baton takes at one value only.
Result<> RequireFixed(const Metadata& metadata, std::string_view suffix, float value) {
  Result<float> stated = metadata.file().GetFloat32Or(metadata.Key(suffix), value);
  if (!stated) return Forward(stated);
  if (*stated == value) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: {} is {}; Baton computes with {} only", metadata.file().name(),
                          metadata.Key(suffix), *stated, value));
}

struct ScalingNumber {
  std::string_view suffix;
  float otherwise;
  double* target;
};

Result<> ReadNumbers(const Metadata& metadata, std::span<const ScalingNumber> numbers) {
  for (const ScalingNumber& number : numbers) {
    Result<float> value = metadata.Positive(number.suffix, number.otherwise);
    if (!value) return Forward(value);
    *number.target = *value;
  }
  return {};
}

Result<> ReadYarn(const Metadata& metadata, RopeParams& rope) {
  double attention_factor = 1.0;
  double yarn_attention_factor = 1.0;
  const ScalingNumber numbers[] = {
      {"rope.scaling.yarn_beta_fast", 32.0f, &rope.beta_fast},
      {"rope.scaling.yarn_beta_slow", 1.0f, &rope.beta_slow},
      {"rope.scaling.attn_factor", 1.0f, &attention_factor},
      {"rope.scaling.yarn_attn_factor", 1.0f, &yarn_attention_factor},
  };
  if (Result<> read = ReadNumbers(metadata, numbers); !read) return read;
  if (Result<> fixed = RequireFixed(metadata, "rope.scaling.yarn_ext_factor", 1.0f); !fixed) {
    return fixed;
  }
  if (Result<> fixed = RequireFixed(metadata, "rope.scaling.yarn_log_multiplier", 0.0f); !fixed) {
    return fixed;
  }
  rope.attention_factor =
      attention_factor * yarn_attention_factor * YarnAttentionFactor(rope.factor);
  return {};
}

Result<> ReadLlama3(const Metadata& metadata, RopeParams& rope) {
  const ScalingNumber numbers[] = {
      {"rope.scaling.low_freq_factor", 1.0f, &rope.low_frequency_factor},
      {"rope.scaling.high_freq_factor", 4.0f, &rope.high_frequency_factor},
  };
  if (Result<> read = ReadNumbers(metadata, numbers); !read) return read;
  if (rope.low_frequency_factor >= rope.high_frequency_factor) {
    return BadValue(
        metadata, "rope.scaling.low_freq_factor",
        fmt::format("is {}; it must be below {}, which is {}", rope.low_frequency_factor,
                    metadata.Key("rope.scaling.high_freq_factor"), rope.high_frequency_factor));
  }
  return {};
}

Result<> ReadScaling(const Metadata& metadata, const ModelSpec& spec, RopeParams& rope) {
  if (Result<> known = RefuseUnknownScaling(metadata); !known) return known;
  Result<RopeScaling> kind = ScalingKind(metadata);
  if (!kind) return Forward(kind);
  rope.scaling = *kind;
  if (*kind == RopeScaling::kNone) return {};

  Result<float> old_factor = metadata.Positive("rope.scale_linear", 1.0f);
  if (!old_factor) return Forward(old_factor);
  Result<float> factor = metadata.Positive("rope.scaling.factor", *old_factor);
  if (!factor) return Forward(factor);
  rope.factor = *factor;
  Result<int64_t> original =
      metadata.SizeOr("rope.scaling.original_context_length", ModelLimits::kMaxContext,
                      std::max<int64_t>(1, spec.trained_context));
  if (!original) return Forward(original);
  rope.original_context = static_cast<double>(*original);
  if (*kind == RopeScaling::kLlama3) return ReadLlama3(metadata, rope);
  if (*kind == RopeScaling::kYarn) return ReadYarn(metadata, rope);
  return {};
}

}  // namespace

Result<int64_t> Metadata::Size(std::string_view suffix, int64_t limit) const {
  Result<int64_t> value = file_.GetInt64(Key(suffix));
  if (!value) return Forward(value);
  return Bounded(*this, suffix, *value, limit);
}

Result<int64_t> Metadata::SizeOr(std::string_view suffix, int64_t limit, int64_t otherwise) const {
  if (!Has(suffix)) return otherwise;
  return Size(suffix, limit);
}

Result<int64_t> Metadata::CountOrZero(std::string_view suffix, int64_t limit) const {
  Result<int64_t> value = file_.GetInt64Or(Key(suffix), 0);
  if (!value) return Forward(value);
  if (*value < 0 || *value > limit) {
    return BadValue(*this, suffix, fmt::format("is {}; it must be in 0..{}", *value, limit));
  }
  return *value;
}

Result<float> Metadata::Positive(std::string_view suffix, std::optional<float> otherwise) const {
  if (otherwise.has_value() && !Has(suffix)) return *otherwise;
  Result<float> value = file_.GetFloat32(Key(suffix));
  if (!value) return Forward(value);
  if (!std::isfinite(*value) || *value <= 0) {
    return BadValue(*this, suffix, fmt::format("is {}; it must be finite and above 0", *value));
  }
  return *value;
}

Result<int64_t> Metadata::UniformSize(std::string_view suffix, int64_t limit,
                                      std::optional<int64_t> otherwise) const {
  if (otherwise.has_value() && !Has(suffix)) return *otherwise;
  Result<std::vector<int32_t>> values = file_.GetInt32Array(Key(suffix));
  if (!values) return Size(suffix, limit);
  Result<int64_t> layers = Size("block_count", ModelLimits::kMaxLayers);
  if (!layers) return Forward(layers);
  if (std::ssize(*values) != *layers) {
    return BadValue(*this, suffix,
                    fmt::format("holds {} numbers for {} layers", values->size(), *layers));
  }
  for (int32_t value : *values) {
    if (value == values->front()) continue;
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {} differs between layers ({} and {}); Baton needs it uniform",
                            file_.name(), Key(suffix), values->front(), value));
  }
  return Bounded(*this, suffix, values->front(), limit);
}

Result<> ReadCommonSizes(const Metadata& metadata, ModelSpec& spec) {
  const GgufFile& file = metadata.file();
  Result<std::string_view> architecture = file.GetString("general.architecture");
  if (!architecture) return Forward(architecture);
  spec.architecture = std::string(*architecture);
  Result<std::string_view> name = file.GetStringOr("general.name", "");
  if (!name) return Forward(name);
  spec.name = std::string(*name);

  if (Result<> experts = RefuseExperts(metadata); !experts) return experts;
  Result<int64_t> layers = metadata.Size("block_count", ModelLimits::kMaxLayers);
  if (!layers) return Forward(layers);
  spec.layers.resize(static_cast<size_t>(*layers));
  struct Count {
    std::string_view suffix;
    int64_t limit;
    int64_t* target;
  };
  const Count counts[] = {
      {"embedding_length", ModelLimits::kMaxWidth, &spec.hidden_size},
      {"context_length", ModelLimits::kMaxContext, &spec.trained_context},
  };
  for (const Count& count : counts) {
    Result<int64_t> value = metadata.Size(count.suffix, count.limit);
    if (!value) return Forward(value);
    *count.target = *value;
  }
  Result<int64_t> feed_forward =
      metadata.UniformSize("feed_forward_length", ModelLimits::kMaxWidth, std::nullopt);
  if (!feed_forward) return Forward(feed_forward);
  spec.feed_forward_size = *feed_forward;
  Result<float> epsilon = metadata.Positive("attention.layer_norm_rms_epsilon", std::nullopt);
  if (!epsilon) return Forward(epsilon);
  spec.norm_epsilon = *epsilon;
  if (Result<> heads = ReadHeads(metadata, spec); !heads) return heads;
  return ReadVocabulary(metadata, spec);
}

Result<RopeSpec> ReadRope(const Metadata& metadata, const ModelSpec& spec, RopeLayout layout) {
  RopeSpec rope;
  rope.params.head_dim = spec.head_dim;
  rope.params.layout = layout;
  Result<int64_t> rotary_dim =
      metadata.SizeOr("rope.dimension_count", spec.head_dim, spec.head_dim);
  if (!rotary_dim) return Forward(rotary_dim);
  rope.params.rotary_dim = static_cast<int>(*rotary_dim);
  if (*rotary_dim % 2 != 0) {
    return BadValue(metadata, "rope.dimension_count",
                    fmt::format("is {}; it must be even", *rotary_dim));
  }
  Result<float> base = metadata.Positive("rope.freq_base", static_cast<float>(kDefaultRopeBase));
  if (!base) return Forward(base);
  if (*base <= 1.0f) {
    return BadValue(metadata, "rope.freq_base", fmt::format("is {}; it must be above 1", *base));
  }
  rope.params.base = *base;
  if (Result<> scaling = ReadScaling(metadata, spec, rope.params); !scaling) {
    return Forward(scaling);
  }
  const GgufTensor* factors = metadata.file().FindTensor("rope_freqs.weight");
  if (factors == nullptr) return rope;
  if (factors->type != DType::kF32 ||
      factors->num_elements() != static_cast<uint64_t>(*rotary_dim / 2)) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: rope_freqs.weight must hold {} numbers of type F32, not {} of {}",
                            metadata.file().name(), *rotary_dim / 2, factors->num_elements(),
                            DTypeName(factors->type)));
  }
  const auto* first = reinterpret_cast<const float*>(factors->data);
  rope.frequency_factors.assign(first, first + *rotary_dim / 2);
  return rope;
}

}  // namespace baton
