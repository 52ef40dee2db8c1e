// What an operation that the world or the caller can make fail returns.
//
// A bug aborts (base/check.h); everything else comes back as a value of this type. Library
// exceptions are caught in the file that calls the library.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace baton {

// The eight kinds of failure. The code says who can mend it; the message says how.
enum class ErrorCode {
  kInvalid,      // the caller asked for something that cannot be: bad flag, bad field, bad shape
  kNotFound,     // a file, model, tensor or name that is not there
  kExhausted,    // memory, blocks, context or another limit is used up
  kUnavailable,  // not now, or not in this build: a feature, a device, a peer
  kDeadline,     // the time allowed ran out
  kCancelled,    // the caller no longer wants it
  kCorrupt,      // data from outside breaks its own format
  kInternal,     // the system below failed: I/O error, failed call
};

// The code's name as printed to people: "invalid", "not-found", ...
std::string_view ErrorCodeName(ErrorCode code);

// A failure: fixed text first, values last, then what to do about it.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// A value of T or an Error. A class of its own and no alias, so that dropping one is a warning.
template <typename T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

// Makes the failing value of any Result: `return Fail(ErrorCode::kInvalid, "...")`.
inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Passes on the failure of a Result of another type: `if (!r) return Forward(r);`.
template <typename T>
tl::unexpected<Error> Forward(const tl::expected<T, Error>& result) {
  return tl::unexpected<Error>(result.error());
}

}  // namespace baton
