// Real vocabularies against ids that independent implementations agree on (tests/data/tokenizer,
// tests/data/vocab; where they come from is said there).
#include "engine/tokenizer_from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
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

std::string DigestOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return Sha256Hex(text).substr(0, 16);
}

// Case T-05: 2,000 strings of pieces that pre-tokenizers are known to treat differently.
TEST_P(Models, MixedStringsGiveTheAgreedIds) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(GetParam()) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const char* field = GetParam() == std::string(kSmol) ? "smollm2" : "gemma";
  size_t num_strings = 0;
  for (const std::string& line : SplitAt(DataFile("tokenizer/mixed.jsonl"), "\n")) {
    if (line.empty()) continue;
    ++num_strings;
    const json test = json::parse(line);
    const auto text = test.at("text").get<std::string>();
    const auto ids = tokenizer.Encode(text, kPlain);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(DigestOf(*ids), test.at(field).get<std::string>())
        << line << testing::PrintToString(*ids);
    EXPECT_EQ(PushAll(tokenizer, *ids), tokenizer.Decode(*ids, kWhole).value());
  }
  EXPECT_EQ(num_strings, 2000u);
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

// Case T-01. Gemma adds BOS; SmolLM2 does not.
TEST(BeginOfText, ThereIsExactlyOne) {
  BATON_CACHED_FILE_OR_SKIP(smol_path, std::string(kSmol) + ".gguf");
  BATON_CACHED_FILE_OR_SKIP(gemma_path, std::string(kGemma) + ".gguf");
  const Tokenizer gemma = Load(gemma_path);
  const Tokenizer smol = Load(smol_path);
  const EncodeOptions both = {.add_special = true, .parse_special = true};
  const EncodeOptions add = {.add_special = true, .parse_special = false};
  const auto hello = gemma.Encode("Hello", both).value();
  EXPECT_EQ(hello.front(), gemma.bos());
  EXPECT_EQ(std::count(hello.begin(), hello.end(), gemma.bos()), 1);
  // Text or template that brings its own: the same ids as without.
  EXPECT_EQ(gemma.Encode("<bos>Hello", both).value(), hello);
  // Where special tokens are not parsed, "<bos>" is five characters of text behind the one BOS.
  const auto literal = gemma.Encode("<bos>Hello", add).value();
  EXPECT_EQ(std::count(literal.begin(), literal.end(), gemma.bos()), 1);
  EXPECT_EQ(gemma.Decode(std::span(literal).subspan(1), kWhole).value(), "<bos>Hello");
  EXPECT_THAT(gemma.Encode("", both).value(), ElementsAre(gemma.bos()));
  // A vocabulary that adds none keeps the template's.
  const std::string name(smol.Piece(smol.bos()));
  const auto template_text = smol.Encode(name + "user\n", both).value();
  EXPECT_EQ(std::count(template_text.begin(), template_text.end(), smol.bos()), 1);
  const auto plain = smol.Encode("Hello", both).value();
  EXPECT_EQ(std::count(plain.begin(), plain.end(), smol.bos()), 0);
}

// Case T-02: characters that take several ids come out whole, and nothing is held longer.
TEST(Streaming, CharactersComeOutWhole) {
  for (const char* model : {kSmol, kGemma}) {
    BATON_CACHED_FILE_OR_SKIP(path, std::string(model) + ".gguf");
    const Tokenizer tokenizer = Load(path);
    const std::string woman = "\xF0\x9F\x91\xA9", joiner = "\xE2\x80\x8D";
    const std::string girl = "\xF0\x9F\x91\xA7";
    // The last two are a Deseret letter and an Egyptian sign: no piece of their own in either.
    const std::string text = "A\xF0\x9F\xA6\x89 \xC3\xA9 \xE6\xBC\xA2\xE5\xAD\x97 " + woman +
                             joiner + woman + joiner + girl +
                             " \xF0\x90\x90\xB7\xF0\x93\x82\x80 end";
    const auto ids = tokenizer.Encode(text, kPlain).value();
    Detokenizer detokenizer(tokenizer, kWhole);
    std::string joined;
    size_t num_held = 0;
    size_t pushed = 0;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.Push(id);
      pushed += tokenizer.Piece(id).size();
      joined += piece;
      EXPECT_TRUE(IsValidUtf8(piece));
      EXPECT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos);
      EXPECT_LE(pushed - joined.size(), 3u);
      num_held += piece.empty() ? 1 : 0;
    }
    EXPECT_EQ(detokenizer.Finish(), "");
    EXPECT_EQ(joined, text);
    EXPECT_GE(num_held, 3u) << "the text should have characters spread over ids";
  }
}

// Case T-04 on a real vocabulary without a space prefix; the ids are in the .jsonl (special-*).
TEST(SpacePrefix, SpecialTokensDoNotChangeTheWordBehindThem) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kGemma) + ".gguf");
  const Tokenizer tokenizer = Load(path);
  const auto word = tokenizer.Encode("word", kParse).value();
  ASSERT_EQ(word.size(), 1u);
  EXPECT_THAT(tokenizer.Encode("<pad>word<eos>", kParse).value(), ElementsAre(0, word[0], 1));
  for (const char* text :
       {"<pad>word<eos>", "<start_of_turn>user", "word", " word", "a<eos>b", "a<eos> b"}) {
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text, kParse).value(), kWhole).value(), text);
  }
}

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
