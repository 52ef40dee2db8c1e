#include "base/result.h"

namespace baton {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not-found";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadline:
      return "deadline";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace baton
