// The forward pass against the formulas in binary64 (forward_ref.h): both architectures, every
// weight type, and each thing that a ModelSpec can ask for.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forward/forward_ref.h"
#include "forward/test_rig.h"
#include "model/arch/architecture.h"
#include "model/test_model_image.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

constexpr int64_t kTokens = 40;

// The error of all logits over their size, both as root mean squares.
//
// F32 weights: binary32 rounding (relative 6e-8, some hundred operations deep), and now and then a
// key or value that it pushes to the other of two binary16 neighbours (relative 2^-11, of one
// component of many). Quantized weights add the rounding of inputs, by 2^-16 of the largest of 32
// under exact: that alone is some 2e-5 by linear layer, and it pushes some 5 % of the keys and
// values to the other neighbour: sqrt(0.05) * 2^-11 = 1e-4. Under fast the rounding is 2^-8 of the
// largest: 4e-3 by linear layer. A term left out or a wrong index costs more than any of these.
constexpr double kFloatTolerance = 2e-4;
constexpr double kExactTolerance = 4e-4;
constexpr double kFastTolerance = 5e-2;
// Whatever a feature changes must be seen: far above the tolerances.
constexpr double kVisible = 1e-2;

struct Loaded {
  std::vector<std::byte> image;
  std::unique_ptr<GgufFile> file;
  ModelSpec spec;
};

using EditSpec = std::function<void(ModelSpec&)>;

Loaded LoadImage(std::vector<std::byte> image, const EditSpec& edit) {
  Loaded loaded{.image = std::move(image), .file = nullptr, .spec = {}};
  loaded.file = std::make_unique<GgufFile>(*GgufFile::Parse(loaded.image, "tiny"));
  loaded.spec = *ReadModelSpec(*loaded.file);
  if (edit) edit(loaded.spec);
  return loaded;
}

std::vector<std::vector<double>> RunBaton(const Loaded& loaded, Precision precision,
                                          const std::vector<TokenId>& tokens) {
  const std::unique_ptr<ThreadPool> threads = *ThreadPool::Make(1);
  const Result<Model> model = Model::LoadBySpec(
      {.file = *loaded.file, .spec = loaded.spec, .pool = *threads, .progress = nullptr});
  CHECK(model.has_value());
  std::vector<std::vector<double>> logits(tokens.size());
  ForwardRig rig(*model, {.precision = precision});
  const size_t sequence = rig.Add(tokens);
  const auto keep = [&](size_t, int64_t position, std::span<const float> row) {
    logits[static_cast<size_t>(position)].assign(row.begin(), row.end());
  };
  // A chunk, then one token at a time: both phases against the formulas.
  const int64_t chunk = std::ssize(tokens) - 5;
  rig.Step({{.sequence = sequence, .count = chunk}}, keep);
  for (int i = 0; i < 5; ++i) {
    rig.Step({{.sequence = sequence, .count = 1, .phase = Phase::kDecode}}, keep);
  }
  return logits;
}

double RelativeError(const std::vector<std::vector<double>>& values,
                     const std::vector<std::vector<double>>& wanted) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK_EQ(values[i].size(), wanted[i].size());
    for (size_t j = 0; j < wanted[i].size(); ++j) {
      error += (values[i][j] - wanted[i][j]) * (values[i][j] - wanted[i][j]);
      size += wanted[i][j] * wanted[i][j];
    }
  }
  return std::sqrt(error / size);
}

std::vector<TokenId> TokensFor(const Loaded& loaded) {
  return RandomTokens(kTokens, loaded.spec.vocab_size, 11);
}

TinyModel Tiny(const char* architecture) {
  return {.architecture = architecture, .layers = 3, .sliding_window = 9, .has_output = true};
}

// A model, and what of its spec is changed.
struct SpecCase {
  std::string name;
  TinyModel tiny;
  EditSpec edit;
};

std::vector<SpecCase> SpecCases() {
  const auto globals_too = [](ModelSpec& spec) {  // the last layer global, with its own RoPE
    spec.layers[2].sliding_window = 0;
    spec.layers[2].rope_index = 0;
  };
  std::vector<SpecCase> cases = {
      {"Llama", {.layers = 3}, nullptr},
      {"LlamaWindow", Tiny("llama"), nullptr},
      {"Gemma3", Tiny("gemma3"), nullptr},
      {"Gemma3Global", Tiny("gemma3"), globals_too},
      {"Gemma3LinearOnGlobal", Tiny("gemma3"),
       [=](ModelSpec& spec) {
         globals_too(spec);
         spec.ropes[0].params.scaling = RopeScaling::kLinear;
         spec.ropes[0].params.factor = 8.0;
       }},
      {"LlamaLinear", Tiny("llama"),
       [](ModelSpec& spec) {
         spec.ropes[0].params.scaling = RopeScaling::kLinear;
         spec.ropes[0].params.factor = 4.0;
       }},
      {"LlamaHalves", Tiny("llama"),
       [](ModelSpec& spec) { spec.ropes[0].params.layout = RopeLayout::kHalves; }},
      {"LlamaPartialRotation", Tiny("llama"),
       [](ModelSpec& spec) { spec.ropes[0].params.rotary_dim = 8; }},
      {"ResidualScale", Tiny("llama"), [](ModelSpec& spec) { spec.residual_scale = 0.25f; }},
      {"EmbeddingScale", Tiny("llama"), [](ModelSpec& spec) { spec.embedding_scale = 12.0f; }},
      {"LogitScale", Tiny("llama"), [](ModelSpec& spec) { spec.logit_scale = 0.125f; }},
      {"LogitSoftCap", Tiny("llama"), [](ModelSpec& spec) { spec.logit_soft_cap = 1.0f; }},
      {"LogitScaleAndSoftCap", Tiny("gemma3"),
       [](ModelSpec& spec) {
         spec.logit_scale = 3.0f;
         spec.logit_soft_cap = 2.0f;
       }},
      {"AttentionSoftCap", Tiny("llama"),
       [](ModelSpec& spec) {
         for (LayerSpec& layer : spec.layers) layer.attention_soft_cap = 0.5f;
       }},
      {"AttentionScale", Tiny("gemma3"),
       [](ModelSpec& spec) {
         for (LayerSpec& layer : spec.layers) layer.attention_scale = 0.05f;
       }},
      {"GeluInLlama", Tiny("llama"),
       [](ModelSpec& spec) {
         for (LayerSpec& layer : spec.layers) layer.activation = Activation::kGeluTanh;
       }},
  };
  return cases;
}

TEST(Reference, EveryFeatureOfASpec) {
  for (const SpecCase& test : SpecCases()) {
    SCOPED_TRACE(test.name);
    const Loaded loaded = LoadImage(MakeTinyModel(test.tiny), test.edit);
    const std::vector<TokenId> tokens = TokensFor(loaded);
    const auto wanted = ReferenceForward(*loaded.file, loaded.spec).Run(tokens);
    const double error = RelativeError(RunBaton(loaded, Precision::kExact, tokens), wanted);
    std::cout << test.name << ": relative error " << error << "\n";
    EXPECT_LE(error, kFloatTolerance);
    if (!test.edit) continue;
    // The edit is not lost on the way: the model without it answers otherwise.
    const Loaded plain = LoadImage(MakeTinyModel(test.tiny), nullptr);
    EXPECT_GE(RelativeError(RunBaton(plain, Precision::kExact, tokens), wanted), kVisible);
  }
}

TEST(Reference, QueryKeyAndValueBiases) {
  const std::vector<std::byte> original = MakeTinyModel(Tiny("llama"));
  ModelImage image(original);
  RandomStream random({.seed = 5, .stream = 0});
  for (int layer = 0; layer < 3; ++layer) {
    for (const auto& [part, size] : {std::pair{"q", 64}, std::pair{"k", 32}, std::pair{"v", 32}}) {
      std::vector<float> bias(static_cast<size_t>(size));
      for (float& value : bias) value = static_cast<float>(random.NextNormal());
      image.SetFloats("blk." + std::to_string(layer) + ".attn_" + part + ".bias", bias);
    }
  }
  const Loaded loaded = LoadImage(image.Bytes(), nullptr);
  EXPECT_TRUE(loaded.spec.layers[2].has_qkv_bias);
  const std::vector<TokenId> tokens = TokensFor(loaded);
  const auto wanted = ReferenceForward(*loaded.file, loaded.spec).Run(tokens);
  EXPECT_LE(RelativeError(RunBaton(loaded, Precision::kExact, tokens), wanted), kFloatTolerance);
  const Loaded plain = LoadImage(original, nullptr);
  EXPECT_GE(RelativeError(RunBaton(plain, Precision::kExact, tokens), wanted), kVisible);
}

TEST(Reference, EveryWeightTypeInBothArchitectures) {
  for (const char* architecture : {"llama", "gemma3"}) {
    for (const DTypeTraits& traits : AllDTypes()) {
      if (!IsSupported(traits.type)) continue;
      SCOPED_TRACE(testing::Message() << architecture << " " << traits.name);
      const Loaded loaded = LoadImage(MakeTinyModel({.architecture = architecture,
                                                     .type = traits.type,
                                                     .hidden = 256,
                                                     .feed_forward = 512,
                                                     .head_dim = 64,
                                                     .sliding_window = 9}),
                                      nullptr);
      const std::vector<TokenId> tokens = TokensFor(loaded);
      const auto wanted = ReferenceForward(*loaded.file, loaded.spec).Run(tokens);
      const double error = RelativeError(RunBaton(loaded, Precision::kExact, tokens), wanted);
      EXPECT_LE(error, kExactTolerance);
      const double fast = RelativeError(RunBaton(loaded, Precision::kFast, tokens), wanted);
      EXPECT_LE(fast, kFastTolerance);
      std::cout << architecture << " " << traits.name << ": relative error " << error << ", fast "
                << fast << "\n";
    }
  }
}

}  // namespace
}  // namespace baton
