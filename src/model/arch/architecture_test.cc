#include "model/arch/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/test_tiny_model.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

Result<ModelSpec> ReadEdited(const TinyModel& tiny) {
  const std::vector<std::byte> image = MakeTinyModel(tiny);
  return ReadModelSpec(*GgufFile::Parse(image, "tiny.gguf"));
}

TEST(Architecture, AnUnknownOneIsRefusedWithTheList) {
  for (const std::string& name :
       {std::string("qwen3"), std::string(), std::string("LLAMA"), std::string(100000, 'x')}) {
    const Result<ModelSpec> spec = ReadEdited(
        {.edit = [&](GgufWriter& writer) { writer.SetString("general.architecture", name); }});
    ASSERT_FALSE(spec.has_value());
    EXPECT_EQ(spec.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(spec.error().message, HasSubstr(name.substr(0, 64)));
    EXPECT_THAT(spec.error().message, HasSubstr("gemma3, llama"));
    EXPECT_LT(spec.error().message.size(), 500u);
  }
}

TEST(Architecture, MissingOrNoString) {
  Result<ModelSpec> spec =
      ReadEdited({.edit = [](GgufWriter& writer) { writer.Remove("general.architecture"); }});
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(spec.error().message, HasSubstr("general.architecture"));
  spec =
      ReadEdited({.edit = [](GgufWriter& writer) { writer.SetUint32("general.architecture", 1); }});
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(spec.error().message, HasSubstr("general.architecture"));
}

TEST(Architecture, LlamaLayers) {
  const Result<ModelSpec> spec = ReadEdited({.sliding_window = 100, .has_output = true});
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_FALSE(spec->has_tied_output);
  EXPECT_EQ(spec->num_layers(), 2);
  for (const LayerSpec& layer : spec->layers) {
    EXPECT_EQ(layer.sliding_window, 100);
    EXPECT_EQ(layer.attention_scale, 0.25f);  // 1 / sqrt(16)
    EXPECT_EQ(layer.activation, Activation::kSilu);
    EXPECT_FALSE(layer.has_qk_norm || layer.has_post_attention_norm || layer.has_fused_qkv);
  }
}

// The Gemma 3 report: 27B scales by hidden size per head, the others by the head's size.
TEST(Architecture, Gemma27BScalesByItsWidthPerHead) {
  const Result<ModelSpec> spec =
      ReadEdited({.architecture = "gemma3", .layers = 62, .hidden = 256, .sliding_window = 8});
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_FLOAT_EQ(spec->layers.front().attention_scale, 0.125f);  // 1 / sqrt(256 / 4)
}

}  // namespace
}  // namespace baton
