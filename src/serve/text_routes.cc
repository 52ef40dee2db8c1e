#include "serve/text_routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "serve/completion_call.h"
#include "serve/json_body.h"
#include "text/json_text.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json PieceOf(std::string_view piece) {
  if (IsValidUtf8(piece)) return std::string(piece);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

}  // namespace

ApiResult<std::string> TokenizeReply(const Json& body, const TextModel& model) {
  const JsonFields fields(body);
  const auto content = fields.Text("content");
  if (!content) return ForwardApi(content);
  if (!*content) return BadField("content", "'content' is missing");
  if (std::ssize(**content) > kMaxTokenizeBytes) {
    return BadField("content", fmt::format("'content' has {} bytes; the limit is {}",
                                           (*content)->size(), kMaxTokenizeBytes));
  }
  const auto add_special = fields.Bool("add_special");
  if (!add_special) return ForwardApi(add_special);
  const auto parse_special = fields.Bool("parse_special");
  if (!parse_special) return ForwardApi(parse_special);
  const auto with_pieces = fields.Bool("with_pieces");
  if (!with_pieces) return ForwardApi(with_pieces);
  const auto ids =
      model.tokenizer.Encode(**content, {.add_special = add_special->value_or(false),
                                         .parse_special = parse_special->value_or(true)});
  if (!ids) return tl::unexpected<ApiError>(ApiErrorOf(ids.error(), "content"));
  if (!with_pieces->value_or(false)) return JsonLine({{"tokens", *ids}});
  Json list = Json::array();
  for (const TokenId id : *ids) {
    list.push_back({{"id", id}, {"piece", PieceOf(model.tokenizer.Piece(id))}});
  }
  return JsonLine({{"tokens", std::move(list)}});
}

ApiResult<std::string> DetokenizeReply(const Json& body, const TextModel& model) {
  const Json* tokens = JsonFields(body).Find("tokens");
  if (tokens == nullptr) return BadField("tokens", "'tokens' is missing");
  if (*tokens == Json::array()) return JsonLine({{"content", ""}});
  const auto ids = ReadTokenIds(*tokens, "tokens", {.vocab_size = model.vocab_size});
  if (!ids) return ForwardApi(ids);
  const auto text = model.tokenizer.Decode(*ids, {.skip_special = false});
  if (!text) return tl::unexpected<ApiError>(ApiErrorOf(text.error(), "tokens"));
  return JsonLine({{"content", ReplaceInvalidUtf8(*text)}});
}

}  // namespace baton
