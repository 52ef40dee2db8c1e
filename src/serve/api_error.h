// What is wrong with a request, in the shape that clients of the OpenAI API read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "base/result.h"
#include "net/http_message.h"

namespace baton {

struct ApiError {
  int status = 400;
  // "invalid_request_error", "authentication_error", "rate_limit_error", "server_error", ...
  std::string type = "invalid_request_error";
  std::string message = {};
  std::string param = {};  // the field's name; empty: null
  std::string code = {};   // empty: null
  // Not 0: when to try again, in seconds.
  int64_t retry_after_seconds = 0;
};

// A value of T or an ApiError. A class of its own and no alias, so that dropping one is a warning.
template <typename T = void>
class [[nodiscard]] ApiResult : public tl::expected<T, ApiError> {
 public:
  using tl::expected<T, ApiError>::expected;
};

// Passes on the failure of an ApiResult of another type.
template <typename T>
tl::unexpected<ApiError> ForwardApi(const tl::expected<T, ApiError>& result) {
  return tl::unexpected<ApiError>(result.error());
}

// A field with a wrong type or value: 400, with the field's name.
tl::unexpected<ApiError> BadField(std::string param, std::string message);

// The same with a code of its own.
ApiError FieldError(std::string param, std::string message, std::string code);

// What an error of the engine means to a client: 400, 429, 503 or 500. `param` names the field
// that an invalid value came from; empty: unknown.
ApiError ApiErrorOf(const Error& error, std::string param);

// The plain errors of routes.
ApiError NoSuchRoute(std::string_view path);
ApiError LoadingError();
ApiError DrainingError();
ApiError BusyError(std::string message);

// {"error": {"message", "type", "param", "code"}}, on one line.
std::string ErrorJson(const ApiError& error);

HttpResponse ErrorResponse(const ApiError& error);

}  // namespace baton
