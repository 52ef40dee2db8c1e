#include "engine/loaded_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/number_text.h"
#include "engine/available_memory.h"
#include "engine/memory_needs.h"
#include "engine/model_parts.h"
#include "engine/test_tiny_file.h"
#include "model/test_model_image.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<LoadedModel> Load(LoadOptions options) {
  return LoadModel(options, nullptr);
}

TEST(LoadModel, AWholeModel) {
  const TinyFile file(TinyModel{});
  std::vector<uint64_t> done;
  const Result<LoadedModel> loaded =
      LoadModel({.path = file.path(), .num_threads = 2},
                [&](uint64_t done_bytes, uint64_t) { done.push_back(done_bytes); });
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->context_tokens, 2048);  // as trained
  EXPECT_EQ(loaded->pool->num_threads(), 2);
  EXPECT_EQ(loaded->tokenizer->Piece(kTinyFirstWord + 3), "w3");
  EXPECT_EQ(loaded->chat_template, nullptr);
  EXPECT_THAT(loaded->warnings, IsEmpty());
  EXPECT_TRUE(!done.empty() && std::ranges::is_sorted(done));
}

TEST(LoadModel, ContextBeyondTheTrainedOneWarnsWithBothNumbers) {
  const TinyFile file(TinyModel{});
  const Result<LoadedModel> loaded = Load({.path = file.path(), .context_tokens = 4096});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->context_tokens, 4096);
  EXPECT_THAT(loaded->warnings, ElementsAre(AllOf(HasSubstr("4,096"), HasSubstr("2,048"))));
}

TEST(LoadModel, WhatIsCachedIsOfOnePolicyOfOneFile) {
  const TinyFile file(TinyModel{});
  std::vector<Hash128> keys;
  for (const Precision precision : {Precision::kFast, Precision::kExact}) {
    for (const KvType kv_type : {KvType::kF16, KvType::kQ8}) {
      const LoadOptions options = {.path = file.path(), .precision = precision, .kv_type = kv_type};
      const Result<LoadedModel> loaded = Load(options);
      ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
      EXPECT_EQ(loaded->options.kv_type, kv_type);
      EXPECT_EQ(Load(options)->kv_key, loaded->kv_key);
      EXPECT_THAT(keys, Not(Contains(loaded->kv_key))) << KvTypeName(kv_type);
      keys.push_back(loaded->kv_key);
    }
  }
}

TEST(LoadModel, ContextsThatCannotBe) {
  const TinyFile file(TinyModel{});
  for (const int64_t context : {int64_t{0}, int64_t{-1}, ModelLimits::kMaxContext + 1}) {
    const Result<LoadedModel> loaded = Load({.path = file.path(), .context_tokens = context});
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(
        loaded.error().message,
        HasSubstr(fmt::format("is {} tokens; it must be in 1..16,777,216", CountText(context))));
  }
}

TEST(LoadModel, ChunksThatCannotBe) {
  const TinyFile file(TinyModel{});
  for (const int64_t chunk : {0, -5}) {
    const Result<LoadedModel> loaded = Load({.path = file.path(), .chunk_tokens = chunk});
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(loaded.error().message, HasSubstr(std::to_string(chunk) + " tokens"));
  }
}

TEST(LoadModel, WhatDoesNotFitIsRefusedBeforeItIsAllocated) {
  // 64 layers of 4 heads of 64: 1.1 TB of cache for the largest context.
  const TinyFile file({.layers = 64, .kv_heads = 4, .head_dim = 64});
  const std::optional<uint64_t> available = AvailableMemory({});
  if (!available.has_value() || *available > uint64_t{500} << 30) {
    GTEST_SKIP() << "this machine would take the model, or does not say what it has";
  }
  const Result<LoadedModel> loaded =
      Load({.path = file.path(), .context_tokens = ModelLimits::kMaxContext});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("16,777,216 tokens"), HasSubstr("--ctx")));
}

TEST(LoadModel, UnusedTensorsAreTold) {
  TinyModel tiny;
  tiny.edit = [&](GgufWriter& writer) { SetTinyVocabulary(tiny.vocabulary, writer); };
  ModelImage image(MakeTinyModel(tiny));
  image.SetFloats("blk.9.attn_norm.weight", std::vector<float>(64, 1.0f));
  image.SetFloats("more", std::vector<float>(64, 1.0f));
  const TinyFile file(image.Bytes());
  const Result<LoadedModel> loaded = Load({.path = file.path()});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_THAT(loaded->warnings,
              ElementsAre(AllOf(HasSubstr("blk.9.attn_norm.weight"), HasSubstr("1 more"))));
}

TEST(LoadModel, TheChatTemplateIsTheNamedOneOrTheFiles) {
  const TinyFile file({.edit = [](GgufWriter& writer) {
    writer.SetString("tokenizer.chat_template", "{{ messages[0].content }}");
  }});
  Result<LoadedModel> loaded = Load({.path = file.path()});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_NE(loaded->chat_template, nullptr);
  loaded = Load({.path = file.path(), .chat_template_name = "chatml"});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_NE(loaded->chat_template, nullptr);
  loaded = Load({.path = file.path(), .chat_template_name = "nonsense"});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message, HasSubstr("nonsense"));
  loaded = Load({.path = file.path(), .chat_template_text = "{% if %}"});
  EXPECT_FALSE(loaded.has_value());
}

TEST(LoadModel, ABadTemplateOfTheFileNamesTheKeyAndTheWayOut) {
  const TinyFile file({.edit = [](GgufWriter& writer) {
    writer.SetString("tokenizer.chat_template", "{% if %}");
  }});
  Result<LoadedModel> loaded = Load({.path = file.path()});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("tokenizer.chat_template"), HasSubstr("--chat-template")));
  loaded = Load({.path = file.path(), .chat_template_name = "chatml"});
  EXPECT_TRUE(loaded.has_value());
}

// L-07 at the door: file and key.
TEST(LoadModel, BadMetadataNamesFileAndKey) {
  const TinyFile heads(
      {.edit = [](GgufWriter& writer) { writer.SetUint32("llama.attention.head_count", 0); }});
  Result<LoadedModel> loaded = Load({.path = heads.path()});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr(heads.path()), HasSubstr("llama.attention.head_count")));
  const TinyFile bos(
      {.edit = [](GgufWriter& writer) { writer.SetUint32("tokenizer.ggml.bos_token_id", 320); }});
  loaded = Load({.path = bos.path()});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr(bos.path()), HasSubstr("tokenizer.ggml.bos_token_id")));
}

// One list for LoadModel, which names its first entry, and for `baton inspect`, which has all.
TEST(LoadModel, RefusesByTheFirstOfAllThatIsLacking) {
  TinyModel tiny;
  tiny.edit = [&](GgufWriter& writer) {
    SetTinyVocabulary(tiny.vocabulary, writer);
    writer.SetString("tokenizer.chat_template", "{% if %}");
    writer.SetUint32("tokenizer.ggml.bos_token_id", 320);
  };
  ModelImage image(MakeTinyModel(tiny));
  image.Remove("blk.1.ffn_down.weight");
  image.SetFloats("rope_freqs.weight", std::vector<float>(8, -1.0f));
  const TinyFile file(image.Bytes());
  const Result<GgufFile> opened = GgufFile::Open(file.path());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const ModelParts parts = ReadModelParts(*opened, {.path = file.path()});
  std::vector<std::string> lacks;
  for (const Error& error : parts.lacks) lacks.push_back(error.message);
  EXPECT_THAT(lacks, ElementsAre(HasSubstr("chat_template"), HasSubstr("bos_token_id"),
                                 HasSubstr("blk.1.ffn_down.weight"), HasSubstr("RoPE")));
  for (const std::string& lack : lacks) EXPECT_TRUE(lack.starts_with(file.path() + ": ")) << lack;
  EXPECT_TRUE(parts.spec.has_value() && parts.needs.has_value());
  const Result<LoadedModel> loaded = Load({.path = file.path()});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().message, lacks.front() + " (and 3 more)");
}

TEST(LoadModel, AMissingFile) {
  const Result<LoadedModel> loaded = Load({.path = "/nonexistent/model.gguf"});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(loaded.error().message, HasSubstr("/nonexistent/model.gguf"));
}

}  // namespace
}  // namespace baton
