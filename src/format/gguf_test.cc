// The values that another program wrote (tools/gguf_corpus.py) come back; getters convert as said.
#include "format/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "format/test_image.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufFile OpenSeed(const std::string& name) {
  Result<GgufFile> file = GgufFile::Open(std::string(BATON_TEST_DATA) + "/gguf/corpus/" + name);
  if (!file) ADD_FAILURE() << file.error().message;
  return *std::move(file);
}

TEST(Gguf, EveryKindOfValue) {
  const GgufFile file = OpenSeed("kinds.gguf");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().front().key, "general.architecture");
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint32("kind.uint8"), 200u);
  EXPECT_EQ(*file.GetInt64("kind.int8"), -100);
  EXPECT_EQ(*file.GetUint32("kind.uint16"), 60000u);
  EXPECT_EQ(*file.GetInt64("kind.int16"), -30000);
  EXPECT_EQ(*file.GetUint32("kind.uint32"), 4000000000u);
  EXPECT_EQ(*file.GetInt64("kind.int32"), -2000000000);
  EXPECT_EQ(*file.GetFloat32("kind.float32"), 0.15625f);
  EXPECT_EQ(*file.GetBool("kind.bool"), true);
  EXPECT_EQ(*file.GetString("kind.string"), "gr\u00fc\u00df dich, \u4e16\u754c");
  EXPECT_EQ(*file.GetUint64("kind.uint64"), (uint64_t{1} << 63) + 5);
  EXPECT_EQ(*file.GetInt64("kind.int64"), -(int64_t{1} << 62));
  EXPECT_EQ(file.Find("kind.float64")->AsFloat64(), 1e-300);
  EXPECT_EQ(file.Find("kind.float64")->type(), GgufType::kFloat64);
  EXPECT_THAT(*file.GetInt32Array("array.int32"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*file.GetFloat32Array("array.float32"), ElementsAre(0.5f, -1.5f));
  EXPECT_THAT(*file.GetBoolArray("array.bool"), ElementsAre(true, false, true));
  EXPECT_THAT(*file.GetStringArray("array.string"), ElementsAre("", "a", "bc", "\u00e9"));
}

TEST(Gguf, GettersSayWhatTheyWanted) {
  const GgufFile file = OpenSeed("kinds.gguf");
  const auto missing = file.GetUint32("llama.block_count");
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("key llama.block_count is missing, an integer"));

  const auto text = file.GetUint32("kind.string");
  EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(text.error().message,
              HasSubstr("kind.string must be an integer from 0 to 4294967295, it is string \"gr"));
  EXPECT_THAT(file.GetUint32("kind.int8").error().message, HasSubstr("it is int8 -100"));
  EXPECT_THAT(file.GetUint32("kind.uint64").error().message,
              HasSubstr("it is uint64 9223372036854775813"));
  EXPECT_THAT(file.GetUint32("kind.bool").error().message, HasSubstr("it is bool true"));
  EXPECT_THAT(file.GetUint32("kind.float32").error().message, HasSubstr("it is float32 0.15625"));
  EXPECT_THAT(file.GetInt64("kind.uint64").error().message, HasSubstr("must be an integer"));
  EXPECT_THAT(file.GetBool("kind.uint8").error().message, HasSubstr("must be a bool"));
  EXPECT_THAT(file.GetString("array.string").error().message,
              HasSubstr("must be a string, it is an array of 4 string"));
  EXPECT_THAT(file.GetStringArray("array.int32").error().message,
              HasSubstr("must be an array of strings, it is an array of 3 int32"));
  EXPECT_THAT(file.GetInt32Array("kind.int32").error().message, HasSubstr("it is int32 -2000000"));
}

TEST(Gguf, OrFormsOnlyCoverMissingKeys) {
  const GgufFile file = OpenSeed("kinds.gguf");
  EXPECT_EQ(*file.GetFloat32Or("llama.rope.freq_base", 10000.0f), 10000.0f);
  EXPECT_EQ(*file.GetFloat32Or("kind.float32", 10000.0f), 0.15625f);
  EXPECT_EQ(*file.GetInt64Or("none", -9), -9);
  EXPECT_EQ(*file.GetBoolOr("none", true), true);
  EXPECT_EQ(*file.GetStringOr("none", "x"), "x");
  EXPECT_EQ(file.GetInt64Or("kind.string", 7).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file.GetStringOr("kind.uint8", "x").error().code, ErrorCode::kCorrupt);
}

TEST(Gguf, NumbersConvertWhereTheyFit) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const GgufImage image = GgufImage({.keys = 4})
                              .Key("huge", 12)
                              .Int(1e300)
                              .Key("nan", 6)
                              .Int(nan)
                              .Key("integer", 5)
                              .Int(int32_t{10000})
                              .Key("empty", 9)
                              .Int(uint32_t{5})
                              .Int(uint64_t{0});
  const Result<GgufFile> file = GgufFile::Parse(image.bytes(), "numbers");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->GetFloat32("huge").error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(std::isnan(*file->GetFloat32("nan")));
  EXPECT_EQ(*file->GetFloat32("integer"), 10000.0f);
  EXPECT_TRUE(file->GetStringArray("empty")->empty());
  EXPECT_TRUE(file->GetFloat32Array("empty")->empty());
}

TEST(Gguf, TensorsOfSimpleTypes) {
  for (const char* name : {"simple_types.gguf", "version_2.gguf"}) {
    const GgufFile file = OpenSeed(name);
    EXPECT_EQ(file.version(), std::string(name) == "version_2.gguf" ? 2u : 3u);
    ASSERT_EQ(file.tensors().size(), 7u);
    const GgufTensor* q4 = file.FindTensor("q4_1.weight");
    ASSERT_NE(q4, nullptr);
    EXPECT_EQ(q4->type, DType::kQ4_1);
    EXPECT_THAT(q4->dims, ElementsAre(32, 3));
    EXPECT_EQ(q4->byte_size, 60u);
    EXPECT_EQ(q4->num_rows(), 3u);
    EXPECT_EQ(q4->Row(2).data(), q4->data + 40);
    EXPECT_EQ(q4->file_offset % 32, 0u);
    // numpy's shape [2, 2, 3] is [3, 2, 2] in the file.
    const GgufTensor* f32 = file.FindTensor("f32.weight");
    ASSERT_NE(f32, nullptr);
    EXPECT_THAT(f32->dims, ElementsAre(3, 2, 2));
    EXPECT_EQ(f32->num_rows(), 4u);
    float value = 0;
    std::memcpy(&value, f32->Row(3).data() + 4, sizeof(value));
    EXPECT_EQ(value, 10.0f);
    EXPECT_EQ(file.FindTensor("f32"), nullptr);
    EXPECT_TRUE(file.CheckSupportedTypes().has_value());
  }
}

TEST(Gguf, AlignmentIsTheFilesOwn) {
  const GgufFile file = OpenSeed("k_types.gguf");
  EXPECT_EQ(file.alignment(), 64u);
  ASSERT_EQ(file.tensors().size(), 5u);
  for (const GgufTensor& tensor : file.tensors()) EXPECT_EQ(tensor.file_offset % 64, 0u);
}

TEST(Gguf, KnownTypesThatBatonLacksAreNamed) {
  const GgufFile file = OpenSeed("other_types.gguf");
  EXPECT_EQ(file.tensors().size(), 4u);
  const Result<void> supported = file.CheckSupportedTypes();
  ASSERT_FALSE(supported.has_value());
  EXPECT_EQ(supported.error().code, ErrorCode::kUnavailable);
  for (const char* name : {"IQ4_NL (1 tensor, first \"iq4_nl.weight\")", "MXFP4", "TQ2_0", "IQ1_S",
                           "such as Q4_K_M"}) {
    EXPECT_THAT(supported.error().message, HasSubstr(name));
  }
}

TEST(Gguf, VocabularyOnly) {
  const GgufFile file = OpenSeed("vocabulary.gguf");
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_TRUE(file.CheckSupportedTypes().has_value());
  EXPECT_THAT(*file.GetStringArray("tokenizer.ggml.tokens"),
              ElementsAre("<s>", "</s>", "a", "b", "ab"));
  EXPECT_THAT(*file.GetInt32Array("tokenizer.ggml.token_type"), ElementsAre(3, 3, 1, 1, 1));
}

// Long strings are kept as they are; what a token may be is for the tokenizer to say.
TEST(Gguf, LongStrings) {
  const std::string token(size_t{1} << 20, 't');
  const GgufImage image = GgufImage({.keys = 1})
                              .Key("k", 9)
                              .Int(uint32_t{8})
                              .Int(uint64_t{2})
                              .String("a")
                              .String(token);
  const Result<GgufFile> file = GgufFile::Parse(image.bytes(), "long");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ((*file->GetStringArray("k"))[1], token);
  // In a message it is cut.
  const GgufImage scalar = GgufImage({.keys = 1}).Key("k", 8).String(token);
  const Result<GgufFile> other = GgufFile::Parse(scalar.bytes(), "long");
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_LT(other->GetUint32("k").error().message.size(), 300u);
}

TEST(Gguf, BigEndianFileOfAnotherWriter) {
  const auto file = GgufFile::Open(std::string(BATON_TEST_DATA) + "/gguf/corpus/big_endian.gguf");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(file.error().message, HasSubstr("at byte 4: the file is big-endian"));
}

TEST(Gguf, StaysValidWhenMoved) {
  GgufFile first = OpenSeed("simple_types.gguf");
  const GgufTensor* tensor = first.FindTensor("q8_0.weight");
  const std::byte* data = tensor->data;
  const GgufFile second = std::move(first);
  EXPECT_EQ(second.FindTensor("q8_0.weight"), tensor);
  EXPECT_EQ(tensor->data, data);
  EXPECT_EQ(tensor->name, "q8_0.weight");
  second.ReleasePages(*tensor);
  EXPECT_EQ(second.FindTensor("q8_0.weight")->Row(0).data(), data);
}

}  // namespace
}  // namespace baton
