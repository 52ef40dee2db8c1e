// A model's words for tests: bytes, and the marks of ChatML.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "serve/text_model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace baton {

// Ids of the vocabulary: <unk>, <s>, </s>, <|im_start|>, <|im_end|>, then 256 bytes.
inline constexpr TokenId kTestBos = 1;
inline constexpr TokenId kTestStart = 3;
inline constexpr TokenId kTestEnd = 4;
inline constexpr TokenId kTestFirstByte = 5;
inline constexpr int64_t kTestVocabSize = 261;

inline Tokenizer MakeTestTokenizer() {
  VocabularyData data;
  data.kind = VocabularyKind::kSentencePiece;
  data.tokens = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  data.types = {PieceType::kUnknown, PieceType::kControl, PieceType::kControl, PieceType::kControl,
                PieceType::kControl};
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    data.types.push_back(PieceType::kByte);
  }
  data.scores.resize(data.tokens.size(), 0.0F);
  data.bos = kTestBos;
  data.eos = 2;
  data.unk = 0;
  data.add_bos = true;
  auto tokenizer = Tokenizer::Make(std::move(data));
  CHECK(tokenizer.has_value());
  return *std::move(tokenizer);
}

// The id of each byte.
inline std::vector<TokenId> ByteIds(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char byte : text) {
    ids.push_back(kTestFirstByte + static_cast<TokenId>(static_cast<unsigned char>(byte)));
  }
  return ids;
}

struct TestWords {
  Tokenizer tokenizer = MakeTestTokenizer();
  ChatTemplate chat_template = *ChatTemplate::Builtin("chatml");
  TextModel model = MakeTextModel("tiny", tokenizer, &chat_template, 256);
};

}  // namespace baton
