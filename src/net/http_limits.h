// Every limit of the HTTP server, in one place.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace baton {

// Plain data. Validate before use. Units: bytes and milliseconds.
struct HttpLimits {
  // Request line and fields together; what is longer is refused with 431.
  int64_t max_head_bytes = 16 << 10;
  int32_t max_fields = 100;
  // Of one request (413), and of all that are being read or answered (503).
  int64_t max_body_bytes = 32 << 20;
  int64_t max_total_body_bytes = int64_t{256} << 20;
  // What comes on top is answered 503 and closed.
  int32_t max_connections = 1024;
  // Of a stream, what the client has not read yet and the system has not taken; beyond it the
  // request is given up.
  int64_t max_unsent_bytes = 1 << 20;
  // A connection without a request; from a request's first byte to the end of its head; for its
  // body, at least, and longer only while it comes at min_body_bytes_per_second.
  int64_t idle_timeout_ms = 75'000;
  int64_t head_timeout_ms = 10'000;
  int64_t body_timeout_ms = 30'000;
  int64_t min_body_bytes_per_second = 8 << 10;
  // A client that takes nothing of what is to be sent.
  int64_t write_timeout_ms = 30'000;

  friend bool operator==(const HttpLimits&, const HttpLimits&) = default;
};

// Errors: invalid, naming the field, its value and its limits.
Result<> Validate(const HttpLimits& limits);

// One line "name = value" for each field, in the order above.
std::string ToText(const HttpLimits& limits);

}  // namespace baton
