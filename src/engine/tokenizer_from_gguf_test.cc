// Real vocabularies against ids that independent implementations agree on (tests/data/tokenizer,
// tests/data/vocab; where they come from is said there).
#include "engine/tokenizer_from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "base/test_paths.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr const char* kSmol = "smollm2-135m-instruct-q4_1";
constexpr const char* kGemma = "gemma-3-270m-q4_k_m";
constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};
constexpr DecodeOptions kWhole = {.skip_special = false, .starts_text = true};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string DataFile(const std::string& name) {
  return ReadFile(BATON_TEST_DATA "/" + name);
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Tokenizer Load(const std::string& path) {
  auto file = GgufFile::Open(path);
  EXPECT_TRUE(file.has_value()) << file.error().message;
  auto tokenizer = TokenizerFromGguf(*file);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

std::string PushAll(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, kWhole);
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece)) << "a piece that is no UTF-8 in a text that is";
    joined += piece;
  }
  return joined + detokenizer.Finish();
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<json> ReadCases(const std::string& model) {
  std::vector<json> cases;
  for (const std::string& line : SplitAt(DataFile("tokenizer/" + model + ".jsonl"), "\n")) {
    if (!line.empty()) cases.push_back(json::parse(line));
  }
  return cases;
}

class Models : public testing::TestWithParam<const char*> {};

TEST_P(Models, StringsGiveTheAgreedIdsAndComeBack) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(GetParam()) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const std::vector<json> cases = ReadCases(GetParam());
  ASSERT_EQ(cases.size(), 314u);
  for (const json& test : cases) {
    SCOPED_TRACE(test.at("id").get<std::string>());
    const auto text = test.at("text").get<std::string>();
    const auto ids = test.at("ids").get<std::vector<TokenId>>();
    const auto got = tokenizer.Encode(text, kPlain);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_EQ(*got, ids);
    const auto ids_special = test.value("ids_special", ids);
    const auto got_special = tokenizer.Encode(text, kParse);
    ASSERT_TRUE(got_special.has_value()) << got_special.error().message;
    EXPECT_EQ(*got_special, ids_special);
    const auto spelled = test.value("detok", text);
    EXPECT_EQ(tokenizer.Decode(ids, kWhole).value(), spelled);
    EXPECT_EQ(PushAll(tokenizer, ids), spelled);
    EXPECT_EQ(tokenizer.Decode(ids_special, kWhole).value(), test.value("detok_special", spelled));
  }
}

TEST_P(Models, SingleTokensSpellTheAgreedBytes) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(GetParam()) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const json data = json::parse(DataFile("tokenizer/pieces-" + std::string(GetParam()) + ".json"));
  ASSERT_GT(data.at("pieces").size(), 500u);
  for (const json& piece : data.at("pieces")) {
    const auto id = piece.at(0).get<TokenId>();
    EXPECT_EQ(tokenizer.Piece(id), FromHex(piece.at(1).get<std::string>())) << id;
    EXPECT_EQ(tokenizer.IsControl(id), piece.at(2) == 2 || piece.at(2) == 3) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Models, testing::Values(kSmol, kGemma));

TEST(InvalidUtf8, SentencePieceWithAllBytesIsLossless) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kGemma) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const json data =
      json::parse(DataFile("tokenizer/invalid-utf8-" + std::string(kGemma) + ".json"));
  for (const json& test : data.at("cases")) {
    const std::string bytes = FromHex(test.at("bytes").get<std::string>());
    const auto ids = tokenizer.Encode(bytes, kPlain);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(tokenizer.Decode(*ids, kWhole).value(), bytes) << test.at("bytes");
  }
}

// SmolLM2's vocabulary lacks 21 bytes; those, and only those, come back as U+FFFD.
TEST(InvalidUtf8, ByteLevelKeepsTheBytesItHasPiecesFor) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const std::string missing =
      "\x04\x06\x13\x14\x16\x1D\xC0\xC1\xF1\xF2\xF5\xF6\xF7\xF8\xF9\xFA\xFB\xFC\xFD\xFE\xFF";
  const json data = json::parse(DataFile("tokenizer/invalid-utf8-" + std::string(kSmol) + ".json"));
  for (const json& test : data.at("cases")) {
    const std::string bytes = FromHex(test.at("bytes").get<std::string>());
    std::string right;
    for (const char c : bytes) {
      right += missing.find(c) == std::string::npos ? std::string(1, c) : "\xEF\xBF\xBD";
    }
    const auto ids = tokenizer.Encode(bytes, kPlain);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(tokenizer.Decode(*ids, kWhole).value(), right) << test.at("bytes");
  }
}

// The pairs that come with a vocabulary: texts between marks, and a line of ids for each.
void CheckPairs(const Tokenizer& tokenizer, const std::string& path, const json* data) {
  const std::vector<std::string> texts =
      SplitAt(ReadFile(path + ".inp"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = SplitAt(ReadFile(path + ".out"), "\n");
  ASSERT_EQ(texts.size(), lines.size());
  ASSERT_GT(texts.size(), 40u);
  std::string all_ids;
  for (size_t i = 0; i + 1 < texts.size(); ++i) {
    std::istringstream numbers(lines[i]);
    const std::vector<TokenId> right{std::istream_iterator<TokenId>(numbers), {}};
    const auto got = tokenizer.Encode(texts[i], kPlain);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_EQ(*got, right) << "pair " << i << ": " << texts[i];
    for (size_t k = 0; k < got->size(); ++k) {
      all_ids += (k == 0 ? "" : " ") + std::to_string((*got)[k]);
    }
    all_ids += '\n';
  }
  if (data != nullptr) {
    EXPECT_EQ(data->at("num_cases"), texts.size() - 1);
    EXPECT_EQ(Sha256Hex(all_ids), data->at("case_ids_sha256").get<std::string>());
  }
}

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, StringsGiveTheAgreedIds) {
  const json data = json::parse(DataFile("vocab/" + std::string(GetParam()) + ".json"));
  BATON_CACHED_FILE_OR_SKIP(path, "llama-cpp-models/" + data.at("vocab_gguf").get<std::string>());
  const std::string image = ReadFile(path);
  ASSERT_EQ(image.size(), data.at("vocab_bytes"));
  ASSERT_EQ(Sha256Hex(image), data.at("vocab_sha256").get<std::string>());
  const Tokenizer tokenizer = Load(path);
  CheckPairs(tokenizer, path, &data);
  for (const json& test : data.at("extra")) {
    const auto text = test.at("text").get<std::string>();
    const auto got = tokenizer.Encode(text, kPlain);
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_EQ(*got, test.at("ids").get<std::vector<TokenId>>()) << test.at("id");
    const std::string back = tokenizer.Decode(*got, kWhole).value();
    EXPECT_EQ(PushAll(tokenizer, *got), back);
    // U+2581 is the space itself in SentencePiece vocabularies.
    if (text.find("\xE2\x96\x81") == std::string::npos) {
      EXPECT_EQ(back, text) << test.at("id");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Families,
                         testing::Values("llama-bpe", "llama-spm", "qwen2", "phi-3", "gpt-2",
                                         "deepseek-llm", "command-r", "falcon", "starcoder",
                                         "refact"));

// Families whose vocabulary comes with pairs but without strings of ours.
class MoreFamilies : public testing::TestWithParam<const char*> {};

TEST_P(MoreFamilies, PairsGiveTheirIds) {
  BATON_CACHED_FILE_OR_SKIP(path,
                            "llama-cpp-models/ggml-vocab-" + std::string(GetParam()) + ".gguf");
  CheckPairs(Load(path), path, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Golden, MoreFamilies, testing::Values("deepseek-coder", "mpt", "qwen35"));

TEST(EndTokens, AreThoseOfBothModels) {
  BATON_CACHED_FILE_OR_SKIP(smol_path, std::string(kSmol) + ".gguf");
  BATON_CACHED_FILE_OR_SKIP(gemma_path, std::string(kGemma) + ".gguf");
  EXPECT_THAT(Load(smol_path).EndTokens(), ElementsAre(0, 2));
  EXPECT_THAT(Load(gemma_path).EndTokens(), ElementsAre(1, 106));
}

TEST(Refusal, OtherKindsOfVocabularyAreNamed) {
  BATON_CACHED_FILE_OR_SKIP(bert, "llama-cpp-models/ggml-vocab-bert-bge.gguf");
  BATON_CACHED_FILE_OR_SKIP(old, "llama-cpp-models/ggml-vocab-gpt-neox.gguf");
  const auto bert_result = TokenizerFromGguf(GgufFile::Open(bert).value());
  ASSERT_FALSE(bert_result.has_value());
  EXPECT_EQ(bert_result.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(
      bert_result.error().message,
      testing::AllOf(testing::HasSubstr("tokenizer.ggml.model"), testing::HasSubstr("bert")));
  const auto old_result = TokenizerFromGguf(GgufFile::Open(old).value());
  ASSERT_FALSE(old_result.has_value());
  EXPECT_EQ(old_result.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(old_result.error().message, testing::HasSubstr("tokenizer.ggml.pre"));
}

}  // namespace
}  // namespace baton
