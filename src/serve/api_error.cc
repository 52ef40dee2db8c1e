#include "serve/api_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "serve/routes.h"
#include "text/json_text.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kRetrySeconds = 1;
constexpr size_t kMaxPathBytes = 200;

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

ApiError FieldError(std::string param, std::string message, std::string code) {
  return {.message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

tl::unexpected<ApiError> BadField(std::string param, std::string message) {
  return tl::unexpected<ApiError>(
      FieldError(std::move(param), std::move(message), "invalid_value"));
}

ApiError ApiErrorOf(const Error& error, std::string param) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
      return FieldError(std::move(param), error.message, "invalid_value");
    case ErrorCode::kExhausted:
      return BusyError(error.message);
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return DrainingError();
    case ErrorCode::kDeadline:
      return {.status = 504, .type = "server_error", .message = error.message, .code = "deadline"};
    case ErrorCode::kInternal:
      break;
  }
  return {.status = 500, .type = "server_error", .message = error.message, .code = "internal"};
}

ApiError NoSuchRoute(std::string_view path) {
  const std::optional<std::string> near = NearPath(path);
  return {.status = 404,
          .message = fmt::format("there is no '{}' here; {}/openapi.json lists what there is",
                                 ReplaceInvalidUtf8(path.substr(0, kMaxPathBytes)),
                                 near ? fmt::format("did you mean '{}'? ", *near) : ""),
          .code = "unknown_url"};
}

ApiError LoadingError() {
  return {.status = 503,
          .type = "server_error",
          .message = "the model is being loaded; try again in a moment",
          .code = "loading",
          .retry_after_seconds = kRetrySeconds};
}

ApiError DrainingError() {
  return {.status = 503,
          .type = "server_error",
          .message = "the server is stopping",
          .code = "draining",
          .retry_after_seconds = kRetrySeconds};
}

ApiError BusyError(std::string message) {
  return {.status = 429,
          .type = "rate_limit_error",
          .message = std::move(message),
          .code = "queue_full",
          .retry_after_seconds = kRetrySeconds};
}

std::string ErrorJson(const ApiError& error) {
  const Json json = {{"error",
                      {{"message", error.message},
                       {"type", error.type},
                       {"param", TextOrNull(error.param)},
                       {"code", TextOrNull(error.code)}}}};
  return JsonLine(json);
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.status,
                        .fields = {{.name = "Content-Type", .value = "application/json"}},
                        .body = ErrorJson(error)};
  if (error.retry_after_seconds > 0) {
    response.fields.push_back(
        {.name = "Retry-After", .value = std::to_string(error.retry_after_seconds)});
  }
  if (error.status == 401) {
    response.fields.push_back({.name = "WWW-Authenticate", .value = "Bearer"});
  }
  return response;
}

}  // namespace baton
