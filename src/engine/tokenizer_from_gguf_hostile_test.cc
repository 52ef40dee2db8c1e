// Files whose vocabulary contradicts itself are refused with the key's name (case L-07).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "base/test_paths.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf_writer.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kSmol = "smollm2-135m-instruct-q4_1.gguf";
constexpr const char* kGemma = "gemma-3-270m-q4_k_m.gguf";

// A change to a vocabulary, and the key that the refusal must name.
struct Hostile {
  const char* what;
  const char* key;
  std::function<void(const GgufFile& original, GgufWriter& writer)> change;
};

std::vector<std::string> Strings(const GgufFile& file, const char* key) {
  const auto strings = file.GetStringArray(key).value();
  return {strings.begin(), strings.end()};
}

std::vector<int32_t> Types(const GgufFile& file) {
  return file.GetInt32Array("tokenizer.ggml.token_type").value();
}

// The metadata of a file, changed, as a file of its own without tensors.
Result<Tokenizer> LoadChanged(const GgufFile& original,
                              const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer(GgufWriterOptions{});
  for (const GgufKeyValue& entry : original.metadata()) writer.Set(entry.key, entry.value);
  change(writer);
  const auto no_tensors = [](const GgufWriter::Piece&) { return Result<void>(); };
  const auto image = writer.ToBytes(no_tensors);
  if (!image) return Forward(image);
  const auto file = GgufFile::Parse(*image, "changed.gguf");
  if (!file) return Forward(file);
  return TokenizerFromGguf(*file);
}

void CheckRefused(const GgufFile& original, const std::vector<Hostile>& changes) {
  ASSERT_TRUE(LoadChanged(original, [](GgufWriter&) {}).has_value()) << "the unchanged copy loads";
  for (const Hostile& hostile : changes) {
    const auto result =
        LoadChanged(original, [&](GgufWriter& writer) { hostile.change(original, writer); });
    ASSERT_FALSE(result.has_value()) << hostile.what;
    const std::string& message = result.error().message;
    EXPECT_THAT(message, HasSubstr(hostile.key)) << hostile.what;
    EXPECT_THAT(message, StartsWith("changed.gguf: ")) << hostile.what;
    EXPECT_EQ(message.rfind("changed.gguf"), 0u) << hostile.what << ": " << message;
    EXPECT_LT(result.error().message.size(), 1000u) << hostile.what;
  }
}

std::vector<Hostile> IdChanges() {
  std::vector<Hostile> changes;
  for (const char* key :
       {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"}) {
    changes.push_back({"an id one past the last token", key, [key](const auto& file, auto& writer) {
                         const auto tokens = file.GetStringArray("tokenizer.ggml.tokens").value();
                         writer.SetUint32(key, static_cast<uint32_t>(tokens.size()));
                       }});
    changes.push_back({"an id of 2^32 - 1", key, [key](const auto&, auto& writer) {
                         writer.SetUint32(key, std::numeric_limits<uint32_t>::max());
                       }});
    changes.push_back(
        {"a negative id", key, [key](const auto&, auto& writer) { writer.SetInt32(key, -1); }});
    changes.push_back({"an id that is a string", key,
                       [key](const auto&, auto& writer) { writer.SetString(key, "2"); }});
  }
  changes.push_back(
      {"BOS wanted but not named", "tokenizer.ggml.bos_token_id", [](const auto&, auto& writer) {
         writer.Remove("tokenizer.ggml.bos_token_id");
         writer.SetBool("tokenizer.ggml.add_bos_token", true);
       }});
  changes.push_back(
      {"a flag that is a string", "tokenizer.ggml.add_bos_token",
       [](const auto&, auto& writer) { writer.SetString("tokenizer.ggml.add_bos_token", "yes"); }});
  return changes;
}

std::vector<Hostile> SizeChanges() {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  return {
      {"no kind of tokenizer", "tokenizer.ggml.model",
       [](const auto&, auto& writer) { writer.Remove("tokenizer.ggml.model"); }},
      {"an unknown kind of tokenizer", "tokenizer.ggml.model",
       [](const auto&, auto& writer) { writer.SetString("tokenizer.ggml.model", "clever"); }},
      {"no tokens", kTokens, [](const auto&, auto& writer) { writer.Remove(kTokens); }},
      {"an empty list of tokens", "tokenizer.ggml.",
       [](const auto&, auto& writer) {
         writer.SetStringArray(kTokens, std::vector<std::string>());
       }},
      {"fewer types than tokens", kTypes,
       [](const auto& file, auto& writer) {
         auto types = Types(file);
         types.pop_back();
         writer.SetInt32Array(kTypes, types);
       }},
      {"more types than tokens", kTypes,
       [](const auto& file, auto& writer) {
         auto types = Types(file);
         types.push_back(1);
         writer.SetInt32Array(kTypes, types);
       }},
      {"type 0", kTypes,
       [](const auto& file, auto& writer) {
         auto types = Types(file);
         types[300] = 0;
         writer.SetInt32Array(kTypes, types);
       }},
      {"type -1, told as it is", "tokenizer.ggml.token_type: token 300 has the unknown type -1",
       [](const auto& file, auto& writer) {
         auto types = Types(file);
         types[300] = -1;
         writer.SetInt32Array(kTypes, types);
       }},
      {"type 257, which is 1 in eight bits", kTypes,
       [](const auto& file, auto& writer) {
         auto types = Types(file);
         types[300] = 257;
         writer.SetInt32Array(kTypes, types);
       }},
      {"a token of 1 MiB", kTokens,
       [](const auto& file, auto& writer) {
         auto tokens = Strings(file, kTokens);
         tokens[300] = std::string(1 << 20, 'x');
         writer.SetStringArray(kTokens, tokens);
       }},
      {"a token that is no UTF-8", kTokens,
       [](const auto& file, auto& writer) {
         auto tokens = Strings(file, kTokens);
         tokens[300] = "\xC3(";
         writer.SetStringArray(kTokens, tokens);
       }},
  };
}

// Changes one byte piece's name, or one token's score.
Hostile BytePieceNamed(const char* name) {
  return {name, "tokenizer.ggml.tokens", [name](const auto& file, auto& writer) {
            auto tokens = Strings(file, "tokenizer.ggml.tokens");
            const auto types = Types(file);
            for (size_t i = 0; i < tokens.size(); ++i) {
              if (types[i] != static_cast<int32_t>(PieceType::kByte)) continue;
              tokens[i] = name;
              break;
            }
            writer.SetStringArray("tokenizer.ggml.tokens", tokens);
          }};
}

Hostile Score(const char* what, const std::function<void(std::vector<float>&)>& change) {
  return {what, "tokenizer.ggml.scores", [change](const auto& file, auto& writer) {
            auto scores = file.GetFloat32Array("tokenizer.ggml.scores").value();
            change(scores);
            writer.SetFloat32Array("tokenizer.ggml.scores", scores);
          }};
}

Hostile MergeReads(const char* merge) {
  return {merge, "tokenizer.ggml.merges", [merge](const auto& file, auto& writer) {
            auto merges = Strings(file, "tokenizer.ggml.merges");
            merges[100] = merge;
            writer.SetStringArray("tokenizer.ggml.merges", merges);
          }};
}

TEST(HostileVocabulary, ByteLevelIsRefusedByKey) {
  BATON_CACHED_FILE_OR_SKIP(path, kSmol);
  const GgufFile file = GgufFile::Open(path).value();
  CheckRefused(file, IdChanges());
  CheckRefused(file, SizeChanges());
  CheckRefused(
      file,
      {MergeReads("noPieceOfThisName x"),
       MergeReads("x noPieceOfThisName"),
       MergeReads("onepart"),
       MergeReads(""),
       MergeReads(" "),
       MergeReads("a "),
       MergeReads("z \xE6\xBC\xA2"),
       MergeReads("\xFF z"),
       MergeReads("zq qz"),
       {"no merges", "tokenizer.ggml.merges",
        [](const auto&, auto& writer) { writer.Remove("tokenizer.ggml.merges"); }},
       {"no pre-tokenizer", "tokenizer.ggml.pre",
        [](const auto&, auto& writer) { writer.Remove("tokenizer.ggml.pre"); }},
       {"an unknown pre-tokenizer", "tokenizer.ggml.pre: unknown pre-tokenizer \"clever\"",
        [](const auto&, auto& writer) { writer.SetString("tokenizer.ggml.pre", "clever"); }}});
}

TEST(HostileVocabulary, SentencePieceIsRefusedByKey) {
  BATON_CACHED_FILE_OR_SKIP(path, kGemma);
  const GgufFile file = GgufFile::Open(path).value();
  CheckRefused(file, SizeChanges());
  CheckRefused(
      file,
      {BytePieceNamed("<0x-2>"),
       BytePieceNamed("<0xQQ>"),
       BytePieceNamed("<0x1>"),
       BytePieceNamed(""),
       BytePieceNamed("<0x123>"),
       Score("fewer scores than tokens", [](auto& scores) { scores.pop_back(); }),
       Score("more scores than tokens", [](auto& scores) { scores.push_back(0); }),
       Score("a score that is no number",
             [](auto& scores) { scores[300] = std::numeric_limits<float>::quiet_NaN(); }),
       Score("an infinite score",
             [](auto& scores) { scores[300] = std::numeric_limits<float>::infinity(); }),
       {"no scores", "tokenizer.ggml.scores",
        [](const auto&, auto& writer) { writer.Remove("tokenizer.ggml.scores"); }},
       {"a character map", "tokenizer.ggml.precompiled_charsmap", [](const auto&, auto& writer) {
          writer.SetInt32Array("tokenizer.ggml.precompiled_charsmap", std::vector<int32_t>{1, 2});
        }}});
}

TEST(HostileVocabulary, TokensMustMatchTheEmbedding) {
  BATON_CACHED_FILE_OR_SKIP(path, kSmol);
  const GgufFile file = GgufFile::Open(path).value();
  const auto num_tokens = file.GetStringArray("tokenizer.ggml.tokens").value().size();
  for (const size_t rows : {num_tokens - 1, num_tokens, num_tokens + 1}) {
    const auto result = LoadChanged(file, [&](GgufWriter& writer) {
      const GgufTensorSpec spec = {
          .name = "token_embd.weight", .type = DType::kF32, .dims = {1, rows}};
      ASSERT_TRUE(writer.AddTensor(spec).has_value());
    });
    ASSERT_EQ(result.has_value(), rows == num_tokens);
    if (!result) {
      EXPECT_THAT(result.error().message, HasSubstr("tokenizer.ggml.tokens"));
      EXPECT_THAT(result.error().message, HasSubstr(CountText(static_cast<int64_t>(rows))));
    }
  }
}

}  // namespace
}  // namespace baton
