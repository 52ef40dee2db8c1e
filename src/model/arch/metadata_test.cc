// From metadata to a ModelSpec: RoPE and its scaling (P-07), and values that cannot be (L-07).
//
// Expected numbers are those of the format's documents and of the models' reports.
#include "model/arch/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/arch/architecture.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Edit = std::function<void(GgufWriter&)>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Result<ModelSpec> ReadTiny(TinyModel tiny, const Edit& edit) {
  tiny.edit = edit;
  const std::vector<std::byte> image = MakeTinyModel(tiny);
  const Result<GgufFile> file = GgufFile::Parse(image, "tiny.gguf");
  CHECK(file.has_value());
  return ReadModelSpec(*file);
}

Result<ModelSpec> ReadLlama(const Edit& edit) {
  return ReadTiny({}, edit);
}

Result<ModelSpec> ReadGemma(const Edit& edit) {
  return ReadTiny({.architecture = "gemma3", .layers = 7, .sliding_window = 8}, edit);
}

RopeParams LlamaRope(const Edit& edit) {
  const Result<ModelSpec> spec = ReadLlama(edit);
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  if (!spec) return {};
  EXPECT_EQ(spec->ropes.size(), 1u);
  EXPECT_TRUE(RopeTable::Make(spec->ropes.front().params).has_value());
  return spec->ropes.front().params;
}

void ExpectRefused(const Edit& edit, ErrorCode code, const std::string& key) {
  const Result<ModelSpec> spec = ReadLlama(edit);
  ASSERT_FALSE(spec.has_value()) << key;
  EXPECT_EQ(spec.error().code, code) << spec.error().message;
  EXPECT_THAT(spec.error().message, HasSubstr(key));
  EXPECT_THAT(spec.error().message, HasSubstr("tiny.gguf"));
}

// P-07: the kinds of scaling of a llama file.

TEST(RopeMetadata, NoKeysMeanTheDefaults) {
  const RopeParams rope = LlamaRope(nullptr);
  EXPECT_EQ(rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(rope.layout, RopeLayout::kInterleaved);
  EXPECT_EQ(rope.base, 10000.0);  // freq_base missing
  EXPECT_EQ(rope.rotary_dim, 16);
  EXPECT_EQ(rope.head_dim, 16);
  EXPECT_EQ(rope.attention_factor, 1.0);
}

TEST(RopeMetadata, StatedBaseAndPartialRotation) {
  const RopeParams rope = LlamaRope([](GgufWriter& writer) {
    writer.SetFloat32("llama.rope.freq_base", 500000.0f);
    writer.SetUint32("llama.rope.dimension_count", 8);
  });
  EXPECT_EQ(rope.base, 500000.0);
  EXPECT_EQ(rope.rotary_dim, 8);
  EXPECT_EQ(rope.head_dim, 16);
}

TEST(RopeMetadata, TypeNoneHoldsAgainstAFactor) {
  const RopeParams rope = LlamaRope([](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "none");
    writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
  });
  EXPECT_EQ(rope.scaling, RopeScaling::kNone);
}

TEST(RopeMetadata, LinearByTypeByFactorAloneAndByTheOldKey) {
  const Edit edits[] = {
      [](GgufWriter& writer) {
        writer.SetString("llama.rope.scaling.type", "linear");
        writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
      },
      [](GgufWriter& writer) { writer.SetFloat32("llama.rope.scaling.factor", 4.0f); },
      [](GgufWriter& writer) { writer.SetFloat32("llama.rope.scale_linear", 4.0f); },
      [](GgufWriter& writer) {  // the newer key holds
        writer.SetFloat32("llama.rope.scale_linear", 2.0f);
        writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
      },
  };
  for (const Edit& edit : edits) {
    const RopeParams rope = LlamaRope(edit);
    EXPECT_EQ(rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(rope.factor, 4.0);
  }
}

TEST(RopeMetadata, FactorOneLeavesTheFrequencies) {
  const RopeParams plain = LlamaRope(nullptr);
  const RopeParams one = LlamaRope([](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "linear");
    writer.SetFloat32("llama.rope.scaling.factor", 1.0f);
  });
  const RopeTable a = *RopeTable::Make(plain);
  const RopeTable b = *RopeTable::Make(one);
  EXPECT_TRUE(std::ranges::equal(a.frequencies(), b.frequencies()));
}

TEST(RopeMetadata, Llama3WithItsFourNumbers) {
  const RopeParams rope = LlamaRope([](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "llama3");
    writer.SetFloat32("llama.rope.scaling.factor", 32.0f);
    writer.SetFloat32("llama.rope.scaling.low_freq_factor", 2.0f);
    writer.SetFloat32("llama.rope.scaling.high_freq_factor", 8.0f);
    writer.SetUint32("llama.rope.scaling.original_context_length", 512);
  });
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 32.0);
  EXPECT_EQ(rope.low_frequency_factor, 2.0);
  EXPECT_EQ(rope.high_frequency_factor, 8.0);
  EXPECT_EQ(rope.original_context, 512.0);
  EXPECT_EQ(rope.attention_factor, 1.0);
}

TEST(RopeMetadata, Llama3Defaults) {
  const RopeParams rope = LlamaRope([](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "llama3");
    writer.SetFloat32("llama.rope.scaling.factor", 8.0f);
  });
  EXPECT_EQ(rope.low_frequency_factor, 1.0);
  EXPECT_EQ(rope.high_frequency_factor, 4.0);
  EXPECT_EQ(rope.original_context, 2048.0);  // the trained context
}

TEST(RopeMetadata, YarnWithAndWithoutTheOriginalLength) {
  const auto yarn = [](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "yarn");
    writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
  };
  const RopeParams without = LlamaRope(yarn);
  EXPECT_EQ(without.scaling, RopeScaling::kYarn);
  EXPECT_EQ(without.original_context, 2048.0);
  EXPECT_EQ(without.beta_fast, 32.0);
  EXPECT_EQ(without.beta_slow, 1.0);
  // arXiv 2309.00071, equation 22: 0.1 ln(s) + 1.
  EXPECT_NEAR(without.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-15);
  const RopeParams with = LlamaRope([&](GgufWriter& writer) {
    yarn(writer);
    writer.SetUint32("llama.rope.scaling.original_context_length", 512);
    writer.SetBool("llama.rope.scaling.finetuned", true);
    writer.SetFloat32("llama.rope.scaling.yarn_beta_fast", 16.0f);
    writer.SetFloat32("llama.rope.scaling.yarn_beta_slow", 2.0f);
    writer.SetFloat32("llama.rope.scaling.yarn_ext_factor", 1.0f);
    writer.SetFloat32("llama.rope.scaling.yarn_log_multiplier", 0.0f);
  });
  EXPECT_EQ(with.original_context, 512.0);
  EXPECT_EQ(with.beta_fast, 16.0);
  EXPECT_EQ(with.beta_slow, 2.0);
}

TEST(RopeMetadata, YarnAttentionFactorsMultiply) {
  const RopeParams rope = LlamaRope([](GgufWriter& writer) {
    writer.SetString("llama.rope.scaling.type", "yarn");
    writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
    writer.SetFloat32("llama.rope.scaling.attn_factor", 0.5f);
    writer.SetFloat32("llama.rope.scaling.yarn_attn_factor", 4.0f);
  });
  EXPECT_NEAR(rope.attention_factor, 2.0 * (0.1 * std::log(4.0) + 1.0), 1e-15);
}

TEST(RopeMetadata, ScalingThatCannotBeIsRefusedByKey) {
  for (const char* type : {"linear", "llama3", "yarn"}) {
    for (const float factor : {0.0f, -1.0f, kNan, kInfinity}) {
      ExpectRefused(
          [&](GgufWriter& writer) {
            writer.SetString("llama.rope.scaling.type", type);
            writer.SetFloat32("llama.rope.scaling.factor", factor);
          },
          ErrorCode::kCorrupt, "llama.rope.scaling.factor");
    }
  }
  for (const char* type : {"dynamic", "longrope", "LINEAR", " "}) {
    ExpectRefused([&](GgufWriter& writer) { writer.SetString("llama.rope.scaling.type", type); },
                  ErrorCode::kUnavailable, "llama.rope.scaling.type");
  }
  ExpectRefused([](GgufWriter& writer) { writer.SetUint32("llama.rope.scaling.type", 1); },
                ErrorCode::kCorrupt, "llama.rope.scaling.type");
  ExpectRefused([](GgufWriter& writer) { writer.SetFloat32("llama.rope.scale_linear", 0.0f); },
                ErrorCode::kCorrupt, "llama.rope.scale_linear");
}

TEST(RopeMetadata, NumbersOfAScalingAreCheckedByKey) {
  struct BadNumber {
    const char* type;
    std::string key;
    float value;
    ErrorCode code;
  };
  const BadNumber cases[] = {
      {"llama3", "low_freq_factor", 4.0f, ErrorCode::kCorrupt},  // not below high: 4
      {"llama3", "high_freq_factor", 0.0f, ErrorCode::kCorrupt},
      {"llama3", "original_context_length", 0.5f, ErrorCode::kCorrupt},
      {"yarn", "yarn_beta_fast", 0.0f, ErrorCode::kCorrupt},
      {"yarn", "yarn_beta_slow", kNan, ErrorCode::kCorrupt},
      {"yarn", "attn_factor", 0.0f, ErrorCode::kCorrupt},
      {"yarn", "yarn_attn_factor", -1.0f, ErrorCode::kCorrupt},
      {"yarn", "yarn_ext_factor", 0.0f, ErrorCode::kUnavailable},
      {"yarn", "yarn_ext_factor", kNan, ErrorCode::kUnavailable},
      {"yarn", "yarn_log_multiplier", 0.1f, ErrorCode::kUnavailable},
  };
  for (const BadNumber& bad : cases) {
    const std::string key = "llama.rope.scaling." + bad.key;
    ExpectRefused(
        [&](GgufWriter& writer) {
          writer.SetString("llama.rope.scaling.type", bad.type);
          writer.SetFloat32("llama.rope.scaling.factor", 4.0f);
          writer.SetFloat32(key, bad.value);
        },
        bad.code, key);
  }
}

TEST(RopeMetadata, AnUnknownKeyBelowScalingIsRefusedNotIgnored) {
  for (const std::string key : {"llama.rope.scaling.alpha", "llama.rope.scaling.short_factor",
                                "llama.rope.scaling.", "llama.rope.scaling.typ"}) {
    ExpectRefused([&](GgufWriter& writer) { writer.SetFloat32(key, 1.0f); },
                  ErrorCode::kUnavailable, key);
  }
  // Another architecture's keys are nothing to this one.
  EXPECT_TRUE(ReadLlama([](GgufWriter& writer) {
                writer.SetFloat32("gemma3.rope.scaling.alpha", 1.0f);
              }).has_value());
}

TEST(RopeMetadata, BadBasesAndRotaryDims) {
  for (const float base : {0.0f, 1.0f, -10000.0f, kNan, kInfinity}) {
    ExpectRefused([&](GgufWriter& writer) { writer.SetFloat32("llama.rope.freq_base", base); },
                  ErrorCode::kCorrupt, "llama.rope.freq_base");
  }
  for (const uint32_t dim : {0u, 7u, 18u, 0xFFFFFFFFu}) {
    ExpectRefused([&](GgufWriter& writer) { writer.SetUint32("llama.rope.dimension_count", dim); },
                  ErrorCode::kCorrupt, "llama.rope.dimension_count");
  }
}

// P-07: Gemma 3 scales its global layers only, and has a base for each kind of layer.

TEST(Gemma3Metadata, LinearScalingOnTheGlobalLayersOnly) {
  const Result<ModelSpec> spec = ReadGemma([](GgufWriter& writer) {
    writer.SetString("gemma3.rope.scaling.type", "linear");
    writer.SetFloat32("gemma3.rope.scaling.factor", 8.0f);
  });
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  for (int i = 0; i < spec->num_layers(); ++i) {
    const LayerSpec& layer = spec->layers[static_cast<size_t>(i)];
    const RopeParams& rope = spec->ropes[static_cast<size_t>(layer.rope_index)].params;
    const bool is_global = i == 5;  // every sixth
    EXPECT_EQ(layer.sliding_window, is_global ? 0 : 8) << i;
    EXPECT_EQ(rope.base, is_global ? 1e6 : 1e4) << i;
    EXPECT_EQ(rope.scaling, is_global ? RopeScaling::kLinear : RopeScaling::kNone) << i;
    EXPECT_EQ(rope.factor, is_global ? 8.0 : 1.0) << i;
    EXPECT_EQ(rope.layout, RopeLayout::kHalves) << i;
    EXPECT_FLOAT_EQ(layer.attention_scale, 0.25f);  // 1 / sqrt(16)
    EXPECT_TRUE(layer.has_qk_norm && layer.has_post_attention_norm &&
                layer.has_post_feed_forward_norm);
    EXPECT_EQ(layer.activation, Activation::kGeluTanh);
  }
  EXPECT_FLOAT_EQ(spec->embedding_scale, 8.0f);  // sqrt(64)
  EXPECT_EQ(spec->logit_soft_cap, 0.0f);
}

TEST(Gemma3Metadata, StatedBasesPatternAndSoftCap) {
  const Result<ModelSpec> spec = ReadGemma([](GgufWriter& writer) {
    writer.SetFloat32("gemma3.rope.freq_base", 2e6f);
    writer.SetFloat32("gemma3.rope.freq_base_swa", 3e4f);
    writer.SetUint32("gemma3.attention.sliding_window_pattern", 2);
    writer.SetFloat32("gemma3.final_logit_softcapping", 30.0f);
  });
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  std::vector<double> bases;
  for (const LayerSpec& layer : spec->layers) {
    bases.push_back(spec->ropes[static_cast<size_t>(layer.rope_index)].params.base);
  }
  EXPECT_THAT(bases, testing::ElementsAre(3e4, 2e6, 3e4, 2e6, 3e4, 2e6, 3e4));
  EXPECT_EQ(spec->logit_soft_cap, 30.0f);
}

TEST(Gemma3Metadata, WhatItCannotDoWithout) {
  struct Bad {
    std::string key;
    Edit edit;
    ErrorCode code;
  };
  const Bad cases[] = {
      {"gemma3.attention.sliding_window",
       [](GgufWriter& writer) { writer.Remove("gemma3.attention.sliding_window"); },
       ErrorCode::kNotFound},
      {"gemma3.attention.sliding_window",
       [](GgufWriter& writer) { writer.SetUint32("gemma3.attention.sliding_window", 0); },
       ErrorCode::kCorrupt},
      {"gemma3.attention.sliding_window_pattern",
       [](GgufWriter& writer) { writer.SetUint32("gemma3.attention.sliding_window_pattern", 0); },
       ErrorCode::kCorrupt},
      {"gemma3.rope.freq_base_swa",
       [](GgufWriter& writer) { writer.SetFloat32("gemma3.rope.freq_base_swa", 0.0f); },
       ErrorCode::kCorrupt},
      {"gemma3.final_logit_softcapping",
       [](GgufWriter& writer) { writer.SetFloat32("gemma3.final_logit_softcapping", kNan); },
       ErrorCode::kCorrupt},
  };
  for (const Bad& bad : cases) {
    const Result<ModelSpec> spec = ReadGemma(bad.edit);
    ASSERT_FALSE(spec.has_value()) << bad.key;
    EXPECT_EQ(spec.error().code, bad.code) << spec.error().message;
    EXPECT_THAT(spec.error().message, HasSubstr(bad.key));
  }
}

// L-07: the model's part of the impossible values.

struct BadKey {
  const char* what;
  std::string key;
  Edit edit;
  ErrorCode code = ErrorCode::kCorrupt;
};

BadKey Number(const std::string& suffix, uint64_t value) {
  const std::string key = "llama." + suffix;
  return {.what = "a number", .key = key, .edit = [=](GgufWriter& writer) {
            writer.SetUint64(key, value);
          }};
}

BadKey Real(const std::string& suffix, float value) {
  const std::string key = "llama." + suffix;
  return {.what = "a real number", .key = key, .edit = [=](GgufWriter& writer) {
            writer.SetFloat32(key, value);
          }};
}

BadKey Text(const std::string& suffix) {
  const std::string key = "llama." + suffix;
  return {.what = "a string", .key = key, .edit = [=](GgufWriter& writer) {
            writer.SetString(key, "30");
          }};
}

BadKey Missing(const std::string& suffix) {
  const std::string key = "llama." + suffix;
  return {.what = "missing",
          .key = key,
          .edit = [=](GgufWriter& writer) { writer.Remove(key); },
          .code = ErrorCode::kNotFound};
}

BadKey PerLayer(const std::string& suffix, std::vector<int32_t> values, ErrorCode code) {
  const std::string key = "llama." + suffix;
  return {.what = "an array",
          .key = key,
          .edit = [=](GgufWriter& writer) { writer.SetInt32Array(key, values); },
          .code = code};
}

TEST(SizeMetadata, ImpossibleValuesAreRefusedByKey) {
  constexpr uint64_t kHuge = ~uint64_t{0};
  std::vector<BadKey> cases = {
      Number("block_count", 0),
      Number("block_count", 1000000),
      Number("block_count", kHuge),
      Text("block_count"),
      Real("block_count", 2.5f),
      Missing("block_count"),
      Number("attention.head_count", 0),
      Number("attention.head_count", kHuge),
      Missing("attention.head_count"),
      Number("attention.head_count_kv", 0),
      Number("attention.head_count_kv", 7),
      Number("attention.head_count_kv", 8),  // more than the query heads
      Number("context_length", 0),
      Number("context_length", uint64_t{1} << 40),
      Missing("context_length"),
      Number("embedding_length", 0),
      Missing("embedding_length"),
      Number("feed_forward_length", 0),
      Text("feed_forward_length"),
      Real("attention.layer_norm_rms_epsilon", 0.0f),
      Real("attention.layer_norm_rms_epsilon", -1e-5f),
      Real("attention.layer_norm_rms_epsilon", kNan),
      Real("attention.layer_norm_rms_epsilon", kInfinity),
      Missing("attention.layer_norm_rms_epsilon"),
      Number("vocab_size", 321),
      Number("vocab_size", 0),
      Text("vocab_size"),
      Number("attention.key_length", 0),
      Number("attention.key_length", 1024),
      PerLayer("attention.head_count_kv", {2, 1}, ErrorCode::kUnavailable),
      PerLayer("attention.head_count", {4, 2}, ErrorCode::kUnavailable),
      PerLayer("feed_forward_length", {128, 64}, ErrorCode::kUnavailable),
      PerLayer("feed_forward_length", {}, ErrorCode::kCorrupt),
      PerLayer("feed_forward_length", {128}, ErrorCode::kCorrupt),
      PerLayer("feed_forward_length", {128, 128, 128}, ErrorCode::kCorrupt),
      PerLayer("attention.head_count_kv", {0, 0}, ErrorCode::kCorrupt),
      PerLayer("attention.head_count_kv", {-2, -2}, ErrorCode::kCorrupt),
      PerLayer("block_count", {2, 2}, ErrorCode::kCorrupt),
  };
  BadKey experts = Number("expert_count", 8);
  experts.code = ErrorCode::kUnavailable;
  cases.push_back(experts);
  for (const BadKey& bad : cases) {
    SCOPED_TRACE(std::string(bad.what) + " for " + bad.key);
    ExpectRefused(bad.edit, bad.code, bad.key);
  }
}

TEST(SizeMetadata, HeadsThatDoNotDivideTheWidth) {
  ExpectRefused(
      [](GgufWriter& writer) {
        writer.Remove("llama.attention.key_length");
        writer.Remove("llama.attention.value_length");
        writer.SetUint32("llama.attention.head_count", 6);
      },
      ErrorCode::kCorrupt, "llama.embedding_length");
}

TEST(SizeMetadata, HeadSizesThatBatonLacks) {
  const auto with = [](uint32_t key_length, uint32_t value_length) {
    return ReadLlama([=](GgufWriter& writer) {
      writer.SetUint32("llama.attention.key_length", key_length);
      writer.SetUint32("llama.attention.value_length", value_length);
    });
  };
  for (const auto& [key, value] : {std::pair{16u, 32u}, std::pair{24u, 24u}, std::pair{8u, 8u}}) {
    const Result<ModelSpec> spec = with(key, value);
    ASSERT_FALSE(spec.has_value()) << key;
    EXPECT_EQ(spec.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(spec.error().message, HasSubstr(std::to_string(key)));
  }
}

TEST(SizeMetadata, DefaultsOfWhatMayBeMissing) {
  const Result<ModelSpec> spec = ReadLlama([](GgufWriter& writer) {
    for (const char* key :
         {"attention.key_length", "attention.value_length", "attention.head_count_kv"}) {
      writer.Remove(std::string("llama.") + key);
    }
    writer.Remove("general.name");
  });
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->head_dim, 16);     // 64 / 4
  EXPECT_EQ(spec->num_kv_heads, 4);  // as many as query heads
  EXPECT_EQ(spec->name, "");
  EXPECT_EQ(spec->vocab_size, 320);  // the embedding's rows
  EXPECT_EQ(spec->trained_context, 2048);
  EXPECT_EQ(spec->norm_epsilon, 1e-5f);
  EXPECT_TRUE(spec->has_tied_output);
  EXPECT_FALSE(spec->layers.front().has_qkv_bias);
}

TEST(SizeMetadata, ArraysOfEqualNumbersAreNumbers) {
  const Result<ModelSpec> spec = ReadLlama([](GgufWriter& writer) {
    writer.SetInt32Array("llama.attention.head_count_kv", std::vector<int32_t>{2, 2});
    writer.SetInt32Array("llama.feed_forward_length", std::vector<int32_t>{128, 128});
    writer.SetUint32("llama.expert_count", 0);
    writer.SetUint32("llama.vocab_size", 320);
  });
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->num_kv_heads, 2);
  EXPECT_EQ(spec->feed_forward_size, 128);
}

}  // namespace
}  // namespace baton
