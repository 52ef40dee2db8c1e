#include "engine/tokenizer_from_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/number_text.h"
#include "text/pretokenizer_table.h"

namespace baton {
namespace {

std::string Key(std::string_view field) {
  return fmt::format("tokenizer.ggml.{}", field);
}

// How messages name a key.
std::string Place(const GgufFile& file, std::string_view field) {
  return fmt::format("{}: {}", file.name(), Key(field));
}

Result<void> ReadKind(const GgufFile& file, VocabularyData& data) {
  const auto model = file.GetString(Key("model"));
  if (!model) return Forward(model);
  if (*model == "gpt2") {
    data.kind = VocabularyKind::kByteLevelBpe;
  } else if (*model == "llama") {
    data.kind = VocabularyKind::kSentencePiece;
  } else {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("{}: Baton has no tokenizer of the kind \"{}\" (it has gpt2: byte-level "
                    "BPE, and llama: SentencePiece BPE)",
                    Place(file, "model"), model->substr(0, 64)));
  }
  if (data.kind == VocabularyKind::kSentencePiece) return {};
  if (!file.Has(Key("pre"))) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: missing, so the way this vocabulary cuts text is unknown; convert "
                            "the model again with a current converter",
                            Place(file, "pre")));
  }
  const auto pre = file.GetString(Key("pre"));
  if (!pre) return Forward(pre);
  data.pre = std::string(*pre);
  return {};
}

Result<void> ReadPieces(const GgufFile& file, VocabularyData& data) {
  const auto tokens = file.GetStringArray(Key("tokens"));
  if (!tokens) return Forward(tokens);
  data.tokens.assign(tokens->begin(), tokens->end());
  if (file.Has(Key("token_type"))) {
    const auto types = file.GetInt32Array(Key("token_type"));
    if (!types) return Forward(types);
    data.types.reserve(types->size());
    for (size_t i = 0; i < types->size(); ++i) {
      const int32_t type = (*types)[i];
      // Out-of-range numbers must not wrap into valid ones on their way to eight bits.
      if (type < static_cast<int32_t>(PieceType::kNormal) ||
          type > static_cast<int32_t>(PieceType::kByte)) {
        return Fail(ErrorCode::kCorrupt, fmt::format("{}: token {} has the unknown type {}",
                                                     Place(file, "token_type"), i, type));
      }
      data.types.push_back(static_cast<PieceType>(type));
    }
  }
  if (data.kind == VocabularyKind::kSentencePiece) {
    auto scores = file.GetFloat32Array(Key("scores"));
    if (!scores) return Forward(scores);
    data.scores = std::move(*scores);
    return {};
  }
  const auto merges = file.GetStringArray(Key("merges"));
  if (!merges) return Forward(merges);
  data.merges.assign(merges->begin(), merges->end());
  return {};
}

Result<void> ReadIds(const GgufFile& file, VocabularyData& data) {
  struct NamedId {
    const char* field;
    TokenId* id;
  };
  for (const NamedId& named :
       {NamedId{"bos_token_id", &data.bos}, NamedId{"eos_token_id", &data.eos},
        NamedId{"eot_token_id", &data.eot}, NamedId{"eom_token_id", &data.eom},
        NamedId{"unknown_token_id", &data.unk}, NamedId{"padding_token_id", &data.pad}}) {
    if (!file.Has(Key(named.field))) continue;
    const auto id = file.GetInt64(Key(named.field));
    if (!id) return Forward(id);
    if (*id < 0 || *id >= static_cast<int64_t>(data.tokens.size())) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}: {} is not a token of a vocabulary of {}",
                              Place(file, named.field), *id, data.tokens.size()));
    }
    *named.id = static_cast<TokenId>(*id);
  }
  return {};
}

// What a file leaves out but its other keys imply.
void FillIn(VocabularyData& data) {
  if (data.unk == kNoToken) {
    const auto unknown = std::find(data.types.begin(), data.types.end(), PieceType::kUnknown);
    // Types and tokens may still disagree in number; ValidateVocabulary says so.
    const auto index = static_cast<size_t>(unknown - data.types.begin());
    if (unknown != data.types.end() && index < data.tokens.size()) {
      data.unk = static_cast<TokenId>(index);
    }
  }
  if (data.types.empty() && data.kind == VocabularyKind::kByteLevelBpe) {
    data.types.assign(data.tokens.size(), PieceType::kNormal);
    for (const TokenId id : {data.bos, data.eos, data.eot, data.eom, data.unk, data.pad}) {
      if (id != kNoToken) data.types[static_cast<size_t>(id)] = PieceType::kControl;
    }
  }
}

Result<void> ReadFlags(const GgufFile& file, VocabularyData& data) {
  const bool sentence_piece = data.kind == VocabularyKind::kSentencePiece;
  const PreTokenizerFamily* family = FindPreTokenizerFamily(data.pre);
  const bool family_adds_bos = family != nullptr && family->adds_bos;
  const bool default_add_bos = data.bos != kNoToken && (sentence_piece || family_adds_bos);
  struct NamedFlag {
    const char* field;
    bool* flag;
    bool otherwise;
  };
  for (const NamedFlag& named :
       {NamedFlag{"add_bos_token", &data.add_bos, default_add_bos},
        NamedFlag{"add_eos_token", &data.add_eos, false},
        NamedFlag{"add_space_prefix", &data.add_space_prefix, sentence_piece},
        NamedFlag{"remove_extra_whitespaces", &data.remove_extra_whitespaces, false}}) {
    const auto flag = file.GetBoolOr(Key(named.field), named.otherwise);
    if (!flag) return Forward(flag);
    *named.flag = *flag;
  }
  return {};
}

// The character map of SentencePiece models that rewrite text before cutting it (T5 and others).
Result<void> RefuseCharacterMap(const GgufFile& file) {
  const GgufValue* map = file.Find(Key("precompiled_charsmap"));
  const GgufArray* array = map == nullptr ? nullptr : map->AsArray();
  if (map == nullptr || (array != nullptr && array->size == 0)) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: Baton does not normalise text by a model's character map",
                          Place(file, "precompiled_charsmap")));
}

}  // namespace

Result<VocabularyData> VocabularyFromGguf(const GgufFile& file) {
  VocabularyData data;
  for (const auto read : {&ReadKind, &ReadPieces, &ReadIds}) {
    if (auto ok = read(file, data); !ok) return Forward(ok);
  }
  FillIn(data);
  if (auto ok = ReadFlags(file, data); !ok) return Forward(ok);
  if (data.kind == VocabularyKind::kSentencePiece) {
    if (auto ok = RefuseCharacterMap(file); !ok) return Forward(ok);
  }
  return data;
}

Result<Tokenizer> TokenizerFromGguf(const GgufFile& file) {
  auto data = VocabularyFromGguf(file);
  if (!data) return Forward(data);
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding != nullptr && embedding->num_rows() != data->tokens.size()) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: {}, but token_embd.weight has {}", Place(file, "tokens"),
                            CountOf(std::ssize(data->tokens), "token"),
                            CountOf(static_cast<int64_t>(embedding->num_rows()), "row")));
  }
  auto tokenizer = Tokenizer::Make(std::move(*data));
  if (!tokenizer) return Fail(tokenizer.error().code, Place(file, tokenizer.error().message));
  return tokenizer;
}

}  // namespace baton
