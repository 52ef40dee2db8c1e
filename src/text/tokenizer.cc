#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/bpe_alphabet.h"
#include "text/content_guard.h"
#include "text/pretokenizer.h"
#include "text/spm.h"
#include "text/unicode.h"
#include "text/vocabulary_index.h"

namespace baton {
namespace {

// What families call the token that ends a text, a turn or a message.
constexpr std::array<std::string_view, 16> kEndTokenNames = {
    "<|im_end|>",             // ChatML: Qwen, SmolLM, Yi
    "<|endoftext|>",          // GPT-2 and many that follow
    "<|eot_id|>",             // Llama 3
    "<|eom_id|>",             // Llama 3, before a tool's answer
    "<|end_of_text|>",        // Llama 3, Granite
    "<|eot|>",                // Llama 4
    "<|eom|>",                // Llama 4
    "<end_of_turn>",          // Gemma
    "<|end|>",                // Phi-3
    "<|return|>",             // gpt-oss
    "<|call|>",               // gpt-oss, before a tool's answer
    "<|END_OF_TURN_TOKEN|>",  // Command R
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek
    "<|EOT|>",                                             // DeepSeek Coder
    "<end_of_utterance>",                                  // SmolVLM
    "<EOT>",                                               // Code Llama
};

// What families call the tokens inside a conversation's frame, beyond those above and "<|...|>".
constexpr std::array<std::string_view, 8> kTurnTokenNames = {
    "<start_of_turn>",   "[INST]",         "[/INST]",      "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[TOOL_CALLS]",
};

PieceType TypeOf(const VocabularyData& data, size_t id) {
  return data.types.empty() ? PieceType::kNormal : data.types[id];
}

// Whether a user-defined token of this name is part of a conversation's frame.
bool MarksTurns(std::string_view name) {
  const auto among = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool in_bars = (name.starts_with("<|") && name.ends_with("|>")) ||
                       (name.starts_with("<\xEF\xBD\x9C") && name.ends_with("\xEF\xBD\x9C>"));
  return in_bars || among(kEndTokenNames) || among(kTurnTokenNames);
}

bool NeedsGuard(const VocabularyData& data, size_t id) {
  const PieceType type = TypeOf(data, id);
  if (type == PieceType::kUserDefined) return MarksTurns(data.tokens[id]);
  return type == PieceType::kControl || type == PieceType::kUnknown;
}

std::vector<std::string> GuardedNames(const VocabularyData& data) {
  std::vector<std::string> names;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (NeedsGuard(data, i)) names.push_back(data.tokens[i]);
  }
  return names;
}

// The user-defined tokens that mark turns, where the pieces are matched by SentencePieceBpe.
AddedTokens SentencePieceTurnTokens(const VocabularyData& data) {
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const bool user_defined = TypeOf(data, i) == PieceType::kUserDefined;
    if (data.kind != VocabularyKind::kSentencePiece || !user_defined) continue;
    if (MarksTurns(data.tokens[i])) tokens.push_back({data.tokens[i], static_cast<TokenId>(i)});
  }
  return AddedTokens(std::move(tokens));
}

// The bytes a token spells when it is decoded.
std::string DecodedBytes(const VocabularyData& data, size_t id) {
  const std::string& token = data.tokens[id];
  const PieceType type = TypeOf(data, id);
  if (type == PieceType::kByte) return std::string(1, static_cast<char>(ByteOfPieceName(token)));
  if (type == PieceType::kControl || type == PieceType::kUnknown) return token;
  if (data.kind == VocabularyKind::kSentencePiece) return UnmarkSpaces(token);
  if (type == PieceType::kUserDefined) return token;
  return BytesOfByteLevelPiece(token).value_or(token);
}

std::vector<TokenId> FindEndTokens(const VocabularyData& data) {
  std::vector<TokenId> ends;
  for (const TokenId id : {data.eos, data.eot, data.eom}) {
    if (id != kNoToken) ends.push_back(id);
  }
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const PieceType type = TypeOf(data, i);
    if (type != PieceType::kControl && type != PieceType::kUserDefined) continue;
    if (std::find(kEndTokenNames.begin(), kEndTokenNames.end(), data.tokens[i]) !=
        kEndTokenNames.end()) {
      ends.push_back(static_cast<TokenId>(i));
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// The text without the blanks at its end (or at its start).
std::string_view StripRight(std::string_view text) {
  size_t end = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = StepUtf8(text, position);
    position += step.length;
    if (!IsUnicodeSpace(step.code_point)) end = position;
  }
  return text.substr(0, end);
}

std::string_view StripLeft(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const Utf8Step step = StepUtf8(text, position);
    if (!IsUnicodeSpace(step.code_point)) break;
    position += step.length;
  }
  return text.substr(position);
}

// Without spaces at both ends, and with single ones between words.
std::string CollapseSpaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out.push_back(c);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const VocabularyData& data);

  Result<void> EncodeByteLevel(std::string_view text, std::vector<TokenId>& out) const;
  Result<void> EncodeWords(std::string_view text, BpeWorkspace& workspace,
                           std::vector<TokenId>& out) const;

  VocabularyKind kind;
  TokenId bos, eos;
  bool add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  PieceTable pieces;             // decoded bytes
  std::vector<PieceType> types;  // by id
  std::vector<StripRule> strip_rules;
  std::vector<TokenId> end_tokens;
  ContentGuard guard;
  AddedTokens turn_tokens;      // SentencePieceTurnTokens
  AddedTokens ordinary_tokens;  // matched in every text; SentencePieceBpe has its own
  AddedTokens special_tokens;   // matched with parse_special: ordinary ones and control tokens
  std::optional<PreTokenizer> pre_tokenizer;       // byte-level
  std::optional<ByteLevelBpe> byte_level;          // byte-level
  std::optional<SentencePieceBpe> sentence_piece;  // SentencePiece
};

Tokenizer::Parts::Parts(const VocabularyData& data)
    : kind(data.kind),
      bos(data.bos),
      eos(data.eos),
      add_bos(data.add_bos),
      add_eos(data.add_eos),
      add_space_prefix(data.kind == VocabularyKind::kSentencePiece && data.add_space_prefix),
      remove_extra_whitespaces(data.remove_extra_whitespaces),
      strip_rules(data.strip_rules),
      end_tokens(FindEndTokens(data)),
      guard(GuardedNames(data)),
      turn_tokens(SentencePieceTurnTokens(data)) {
  std::vector<AddedToken> ordinary;
  std::vector<AddedToken> special;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const PieceType type = TypeOf(data, i);
    pieces.Append(DecodedBytes(data, i));
    types.push_back(type);
    const AddedToken token = {data.tokens[i], static_cast<TokenId>(i)};
    const bool user_defined = type == PieceType::kUserDefined;
    if (kind == VocabularyKind::kByteLevelBpe && user_defined) {
      ordinary.push_back(token);
      special.push_back(token);
    }
    if (type == PieceType::kControl || type == PieceType::kUnknown) special.push_back(token);
  }
  ordinary_tokens = AddedTokens(std::move(ordinary));
  special_tokens = AddedTokens(std::move(special));
}

Result<Tokenizer> Tokenizer::Make(VocabularyData data) {
  if (auto ok = ValidateVocabulary(data); !ok) return Forward(ok);
  auto parts = std::make_unique<Parts>(data);
  if (data.kind == VocabularyKind::kSentencePiece) {
    parts->sentence_piece.emplace(data);
  } else {
    auto pre_tokenizer = PreTokenizer::Make(data.pre);
    if (!pre_tokenizer) {
      return Fail(pre_tokenizer.error().code, "pre: " + pre_tokenizer.error().message);
    }
    auto byte_level = ByteLevelBpe::Make(data, parts->pieces);
    if (!byte_level) return Forward(byte_level);
    parts->pre_tokenizer.emplace(std::move(*pre_tokenizer));
    parts->byte_level.emplace(std::move(*byte_level));
  }
  return Tokenizer(std::move(parts));
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return Fail(
        ErrorCode::kExhausted,
        fmt::format("the text has {} bytes, more than {}; shorten it", text.size(), kMaxTextBytes));
  }
  const AddedTokens& tokens =
      options.parse_special ? parts_->special_tokens : parts_->ordinary_tokens;
  std::vector<TokenId> ids;
  bool strip_next = false;
  const auto encode_between = [&](std::string_view between, bool strip_end) -> Result<void> {
    if (strip_next) between = StripLeft(between);
    if (strip_end) between = StripRight(between);
    const bool at_start =
        std::all_of(ids.begin(), ids.end(), [this](TokenId id) { return id == parts_->bos; });
    if (options.drop_guards) return EncodeGuarded(between, at_start, ids);
    return EncodeOrdinary(between, at_start, ids);
  };
  size_t position = 0;
  while (const auto match = tokens.FindNext(text, position)) {
    const auto rule = std::find_if(parts_->strip_rules.begin(), parts_->strip_rules.end(),
                                   [&](const StripRule& r) { return r.id == match->id; });
    const bool has_rule = options.parse_special && rule != parts_->strip_rules.end();
    const std::string_view between = text.substr(position, match->begin - position);
    if (auto ok = encode_between(between, has_rule && rule->strip_left); !ok) return Forward(ok);
    ids.push_back(match->id);
    strip_next = has_rule && rule->strip_right;
    position = match->end;
  }
  if (auto ok = encode_between(text.substr(position), false); !ok) return Forward(ok);
  if (options.add_special && parts_->add_bos && (ids.empty() || ids.front() != parts_->bos)) {
    ids.insert(ids.begin(), parts_->bos);
  }
  if (options.add_special && parts_->add_eos && (ids.empty() || ids.back() != parts_->eos)) {
    ids.push_back(parts_->eos);
  }
  return ids;
}

std::string Tokenizer::GuardContent(std::string_view content) const {
  return parts_->guard.Guard(content);
}

// Without guards, a user-defined piece that they broke would be whole again; SentencePieceBpe looks
// for these by itself. So the text is cut inside such pieces.
Result<void> Tokenizer::EncodeGuarded(std::string_view text, bool at_start,
                                      std::vector<TokenId>& out) const {
  const UnguardedText unguarded = RemoveGuards(text);
  const std::string_view whole = unguarded.text;
  size_t begin = 0;
  size_t from = 0;
  while (const auto match = parts_->turn_tokens.FindNext(whole, from)) {
    from = match->begin + 1;
    const auto guard = std::upper_bound(unguarded.guards.begin(), unguarded.guards.end(),
                                        std::max(match->begin, begin));
    if (guard == unguarded.guards.end()) break;
    if (*guard >= match->end) continue;
    const std::string_view part = whole.substr(begin, *guard - begin);
    if (auto ok = EncodeOrdinary(part, at_start && begin == 0, out); !ok) return ok;
    begin = *guard;
  }
  return EncodeOrdinary(whole.substr(begin), at_start && begin == 0, out);
}

Result<void> Tokenizer::EncodeOrdinary(std::string_view text, bool at_start,
                                       std::vector<TokenId>& out) const {
  if (text.empty()) return {};
  if (parts_->kind == VocabularyKind::kByteLevelBpe) return parts_->EncodeByteLevel(text, out);
  std::string collapsed;
  if (parts_->remove_extra_whitespaces) {
    collapsed = CollapseSpaces(text);
    text = collapsed;
    if (text.empty()) return {};
  }
  std::string marked = MarkSpaces(text);
  if (parts_->add_space_prefix && at_start) marked.insert(0, kSpaceMarker);
  return parts_->sentence_piece->Encode(marked, out);
}

Result<void> Tokenizer::Parts::EncodeByteLevel(std::string_view text,
                                               std::vector<TokenId>& out) const {
  BpeWorkspace workspace;
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, ValidUtf8PrefixLength(text));
    if (auto ok = EncodeWords(valid, workspace, out); !ok) return ok;
    text.remove_prefix(valid.size());
    size_t ill_formed = 0;
    while (ill_formed < text.size()) {
      const Utf8Step step = StepUtf8(text, ill_formed);
      if (step.valid) break;
      ill_formed += step.length;
    }
    if (auto ok = byte_level->Encode(text.substr(0, ill_formed), workspace, out); !ok) return ok;
    text.remove_prefix(ill_formed);
  }
  return {};
}

Result<void> Tokenizer::Parts::EncodeWords(std::string_view text, BpeWorkspace& workspace,
                                           std::vector<TokenId>& out) const {
  if (text.empty()) return {};
  const PreTokenizerFamily& family = pre_tokenizer->family();
  std::string normalized;
  if (family.nfc) {
    auto nfc = NormalizeNfc(text);
    if (!nfc) return Forward(nfc);
    normalized = std::move(*nfc);
    text = normalized;
  }
  const auto words = pre_tokenizer->Split(text);
  if (!words) return Forward(words);
  for (const std::string_view word : *words) {
    if (family.ignore_merges) {
      const TokenId whole = byte_level->WholeWord(pieces, word);
      if (whole != kNoToken) {
        out.push_back(whole);
        continue;
      }
    }
    if (auto ok = byte_level->Encode(word, workspace, out); !ok) return ok;
  }
  return {};
}

Result<std::string> Tokenizer::Decode(std::span<const TokenId> ids,
                                      const DecodeOptions& options) const {
  std::string text;
  bool at_start = true;
  for (const TokenId id : ids) {
    if (!IsToken(id)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{} is not a token of a vocabulary of {}", id, size()));
    }
    text += DecodedPiece(id, options, at_start);
    if (id != parts_->bos) at_start = false;
  }
  return text;
}

std::string_view Tokenizer::DecodedPiece(TokenId id, const DecodeOptions& options,
                                         bool at_start) const {
  if (IsControl(id)) return options.skip_special ? std::string_view() : Piece(id);
  std::string_view piece = Piece(id);
  const bool has_prefix = parts_->add_space_prefix && options.starts_text && at_start;
  if (has_prefix && piece.starts_with(' ')) piece.remove_prefix(1);
  return piece;
}

std::string_view Tokenizer::Piece(TokenId id) const {
  CHECK(IsToken(id));
  return parts_->pieces[id];
}

bool Tokenizer::IsControl(TokenId id) const {
  CHECK(IsToken(id));
  const PieceType type = parts_->types[static_cast<size_t>(id)];
  return type == PieceType::kControl || type == PieceType::kUnknown;
}

std::optional<TokenId> Tokenizer::FindSpecial(std::string_view name) const {
  for (const AddedTokens* tokens : {&parts_->special_tokens, &parts_->ordinary_tokens}) {
    const auto match = tokens->FindNext(name, 0);
    if (match && match->begin == 0 && match->end == name.size()) return match->id;
  }
  return std::nullopt;
}

std::span<const TokenId> Tokenizer::EndTokens() const {
  return parts_->end_tokens;
}

size_t Tokenizer::size() const {
  return parts_->types.size();
}
TokenId Tokenizer::bos() const {
  return parts_->bos;
}
TokenId Tokenizer::eos() const {
  return parts_->eos;
}
bool Tokenizer::adds_bos() const {
  return parts_->add_bos;
}
bool Tokenizer::adds_eos() const {
  return parts_->add_eos;
}

}  // namespace baton
