// The vocabulary of tiny models, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/gguf_writer.h"

namespace baton {

// Ids of the tiny vocabulary.
inline constexpr int kTinyEnd = 2;
inline constexpr int kTinyFirstByte = 3;    // 256 byte pieces
inline constexpr int kTinyFirstWord = 259;  // "w0", "w1", ... up to the vocabulary's size

// A SentencePiece vocabulary: <unk>, <s>, </s>, all bytes, words.
inline void SetTinyVocabulary(int vocabulary, GgufWriter& writer) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    types.push_back(6);
  }
  for (int i = kTinyFirstWord; i < vocabulary; ++i) {
    tokens.push_back("w" + std::to_string(i - kTinyFirstWord));
    types.push_back(1);
  }
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  writer.SetString("tokenizer.ggml.model", "llama");
  writer.SetStringArray("tokenizer.ggml.tokens", tokens);
  writer.SetInt32Array("tokenizer.ggml.token_type", types);
  writer.SetFloat32Array("tokenizer.ggml.scores", scores);
  writer.SetUint32("tokenizer.ggml.bos_token_id", 1);
  writer.SetUint32("tokenizer.ggml.eos_token_id", kTinyEnd);
}

}  // namespace baton
