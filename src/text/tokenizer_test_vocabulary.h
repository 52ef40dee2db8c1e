// Small vocabularies for tests.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace baton {

// A JSON file. Throws where it is not there.
inline nlohmann::json ReadJsonFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("missing " + path);
  return nlohmann::json::parse(file);
}

// The vocabulary in small-byte-level.json or small-spm.json.
inline VocabularyData SmallVocabulary(const nlohmann::json& data) {
  VocabularyData result;
  result.tokens = data.at("tokens").get<std::vector<std::string>>();
  for (const int type : data.at("types")) result.types.push_back(static_cast<PieceType>(type));
  result.eos = data.at("eos");
  if (data.contains("merges")) {
    result.kind = VocabularyKind::kByteLevelBpe;
    result.pre = "gpt-2";
    result.merges = data.at("merges").get<std::vector<std::string>>();
  } else {
    result.kind = VocabularyKind::kSentencePiece;
    result.scores = data.at("scores").get<std::vector<float>>();
    result.bos = data.at("bos");
    result.unk = data.at("unk");
    result.add_bos = true;
    result.add_space_prefix = true;
  }
  return result;
}

inline Tokenizer MakeTokenizer(VocabularyData data) {
  auto tokenizer = Tokenizer::Make(std::move(data));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return std::move(*tokenizer);
}

}  // namespace baton
