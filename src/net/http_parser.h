// Bytes to a request: HTTP/1.0 and 1.1, and nothing that two programs could read in two ways.
//
// Beast splits the message; what it would let pass and others read differently is refused here:
// line ends other than CR LF, control characters, folded lines, more than one Content-Length or
// Host, Content-Length together with Transfer-Encoding, any coding but "chunked".
//
// Life of a parser: head → body → done; or refused, from anywhere. One parser for each request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_limits.h"
#include "net/http_message.h"

namespace baton {

// Threads: one at a time.
class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  HttpParser(HttpParser&&) noexcept;
  HttpParser& operator=(HttpParser&&) noexcept;
  ~HttpParser();

  enum class Progress {
    kNeedMore,
    kHead,  // told once, when all but the body is there
    kDone,
    kRefused,
  };
  struct Step {
    Progress progress = Progress::kNeedMore;
    size_t consumed = 0;  // bytes of `data` that were taken
  };
  // Takes the next bytes. Those not consumed are to be given again, with more behind them; after
  // kHead also without. Nothing behind the request is ever consumed.
  Step Feed(std::string_view data);

  // What is known of the request; whole when kDone. Requires: kHead was told.
  HttpRequest& request();
  // Whether the connection may go on after it, by its version and its Connection field.
  bool keep_alive() const;
  // Whether a body is announced.
  bool has_body() const;
  // Whether the client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

  // After kRefused: the status to answer with, and why.
  int refusal_status() const;
  const std::string& refusal() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace baton
