#include "serve/reply_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/number_text.h"
#include "engine/prefill_report_json.h"
#include "text/json_text.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// What the API writes for a token that cannot follow.
constexpr double kLeastLogprob = -9999.0;

int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string TokenText(TokenId id, const Tokenizer& tokenizer) {
  return ReplaceInvalidUtf8(tokenizer.Piece(id));
}

// JSON has no infinity; a token of a prompt may be one that the model cannot give.
double LogprobJson(double logprob) {
  return std::max(logprob, kLeastLogprob);
}

Json ChatTokenJson(TokenId id, double logprob, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.Piece(id)) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", TokenText(id, tokenizer)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

Json ChatLogprobs(std::span<const SampledToken> tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const SampledToken& token : tokens) {
    Json top = Json::array();
    for (const TokenLogprob& other : token.raw_top) {
      top.push_back(ChatTokenJson(other.id, other.logprob, tokenizer));
    }
    Json entry = ChatTokenJson(token.id, token.raw_logprob, tokenizer);
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(std::span<const SampledToken> tokens, int64_t offset,
                        const Tokenizer& tokenizer) {
  Json texts = Json::array();
  Json logprobs = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  for (const SampledToken& token : tokens) {
    texts.push_back(TokenText(token.id, tokenizer));
    offsets.push_back(std::max<int64_t>(offset, 0));
    offset += CountCharacters(tokenizer.Piece(token.id));
    if (!token.has_logprobs) {  // the first of a prompt
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(LogprobJson(token.raw_logprob));
    Json top = Json::object();
    for (const TokenLogprob& other : token.raw_top) {
      // Of several pieces with one text the most probable stays.
      top.emplace(TokenText(other.id, tokenizer), other.logprob);
    }
    top.emplace(TokenText(token.id, tokenizer), LogprobJson(token.raw_logprob));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json LogprobsOrNull(const ReplyHead& head, std::span<const SampledToken> tokens, int64_t offset,
                    bool wanted) {
  if (!wanted) return nullptr;
  return head.is_chat ? ChatLogprobs(tokens, *head.tokenizer)
                      : CompletionLogprobs(tokens, offset, *head.tokenizer);
}

Json HeadJson(const ReplyHead& head, bool is_piece) {
  const char* object = "text_completion";
  if (head.is_chat) object = is_piece ? "chat.completion.chunk" : "chat.completion";
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", "baton-" BATON_VERSION}};
}

Json UsageFields(const ReplyUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// What the API has no place for: {"prefill": [one for each prompt]}.
void AddBaton(const ReplyUsage& usage, Json& json) {
  if (usage.prefills.empty()) return;
  Json prefills = Json::array();
  for (const ReplyPrefill& prefill : usage.prefills) {
    Json one = {{"policy", prefill.policy}};
    if (prefill.report) one.update(PrefillReportJson(*prefill.report));
    prefills.push_back(std::move(one));
  }
  json["baton"] = {{"prefill", std::move(prefills)}};
}

// Nine letters and digits, as some templates want the ids to be that come back to them. The same
// for a piece of a stream and a whole answer.
std::string CallId(const ReplyHead& head, int64_t choice, int64_t index) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t number = Hasher()
                        .Add(head.id)
                        .Add(static_cast<uint64_t>(choice))
                        .Add(static_cast<uint64_t>(index))
                        .Finish()
                        .low;
  std::string id(9, '0');
  for (char& digit : id) {
    digit = kDigits[number % kDigits.size()];
    number /= kDigits.size();
  }
  return id;
}

struct CallRange {
  std::span<const ToolCall> calls;
  int64_t first;  // its place among the choice's calls
};

Json CallsJson(const ReplyHead& head, int64_t choice, const CallRange& range) {
  Json list = Json::array();
  for (const ToolCall& call : range.calls) {
    const int64_t index = range.first + std::ssize(list);
    list.push_back({{"id", CallId(head, choice, index)},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

Json TimingFields(const ReplyUsage& usage) {
  return {{"queue_seconds", ReportedSeconds(usage.queue_seconds)},
          {"first_token_seconds", ReportedSeconds(usage.first_token_seconds)},
          {"prefill_seconds", ReportedSeconds(usage.prefill_seconds)},
          {"decode_seconds", ReportedSeconds(usage.decode_seconds)}};
}

}  // namespace

int64_t CountCharacters(std::span<const SampledToken> tokens, const Tokenizer& tokenizer) {
  int64_t count = 0;
  for (const SampledToken& token : tokens) count += CountCharacters(tokenizer.Piece(token.id));
  return count;
}

std::optional<std::string_view> FinishReason(StopReason reason) {
  switch (reason) {
    case StopReason::kEndToken:
    case StopReason::kStopString:
      return "stop";
    case StopReason::kLength:
    case StopReason::kContextFull:
      return "length";
    case StopReason::kCancelled:
    case StopReason::kDeadline:
      break;
  }
  return std::nullopt;
}

std::string PieceJson(const ReplyHead& head, const ReplyPiece& piece) {
  Json choice = {{"index", piece.choice}};
  if (head.is_chat) {
    Json delta = Json::object();
    if (piece.has_role) delta["role"] = "assistant";
    if (piece.has_role || !piece.text.empty()) delta["content"] = piece.text;
    if (!piece.calls.empty()) {
      Json calls = CallsJson(head, piece.choice, {.calls = piece.calls, .first = piece.first_call});
      for (size_t i = 0; i < calls.size(); ++i) {
        calls[i]["index"] = piece.first_call + static_cast<int64_t>(i);
      }
      delta["tool_calls"] = std::move(calls);
    }
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = piece.text;
  }
  choice["logprobs"] = LogprobsOrNull(head, piece.tokens, piece.text_offset, !piece.tokens.empty());
  choice["finish_reason"] = piece.finish_reason ? Json(*piece.finish_reason) : Json();
  Json json = HeadJson(head, /*is_piece=*/true);
  json["choices"] = Json::array({std::move(choice)});
  if (piece.progress) {
    json["prompt_progress"] = {{"total", piece.progress->total_tokens},
                               {"cached", piece.progress->cached_tokens},
                               {"processed", piece.progress->read_tokens}};
  }
  return JsonLine(json);
}

std::string UsageJson(const ReplyHead& head, const ReplyUsage& usage) {
  Json json = HeadJson(head, /*is_piece=*/true);
  json["choices"] = Json::array();
  json["timings"] = TimingFields(usage);
  json["usage"] = UsageFields(usage);
  AddBaton(usage, json);
  return JsonLine(json);
}

std::string ReplyJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                      const ReplyUsage& usage) {
  Json json = HeadJson(head, /*is_piece=*/false);
  Json list = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const ReplyChoice& from = choices[i];
    Json choice = {{"index", i}};
    if (head.is_chat) {
      Json message = {{"role", "assistant"}, {"content", from.text}, {"refusal", nullptr}};
      if (!from.calls.empty()) {
        if (from.text.empty()) message["content"] = nullptr;
        message["tool_calls"] =
            CallsJson(head, static_cast<int64_t>(i), {.calls = from.calls, .first = 0});
      }
      choice["message"] = std::move(message);
    } else {
      choice["text"] = from.text;
    }
    choice["logprobs"] = LogprobsOrNull(head, from.tokens, from.text_offset, from.has_logprobs);
    choice["finish_reason"] = from.finish_reason;
    list.push_back(std::move(choice));
  }
  json["choices"] = std::move(list);
  json["timings"] = TimingFields(usage);
  json["usage"] = UsageFields(usage);
  AddBaton(usage, json);
  return JsonLine(json);
}

}  // namespace baton
