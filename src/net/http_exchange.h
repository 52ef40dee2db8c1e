// One request's answer on its way to the client.
//
// Life of an exchange:
//  1. open: nothing was said yet.
//  2. streaming: Begin was called; pieces are written.
//  3. over: Respond, End or Abort was called, or the client is gone (OnGone's function was called).
//     Whatever is called now does nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace baton {

// The start of a response whose body comes in pieces.
struct HttpStreamHead {
  int status = 200;
  std::vector<HttpField> fields;
  // Bytes that mean nothing to a reader of this kind of body. They are sent to learn whether a
  // client that has stopped sending still reads.
  std::string probe;
};

// Threads: the server's I/O thread only (HttpServer::Post). Shared by the connection, which talks
// through it to the client, and by whoever makes the answer.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // The whole answer. Requires: not streaming.
  virtual void Respond(HttpResponse response) = 0;

  // Starts an answer in pieces. Requires: not streaming.
  virtual void Begin(HttpStreamHead head) = 0;
  // Sends a piece as soon as possible. A client that lets more than HttpLimits::max_unsent_bytes
  // pile up is given up: it is gone. Requires: streaming.
  virtual void Write(std::string_view piece) = 0;
  // After the last piece. Requires: streaming.
  virtual void End() = 0;
  // As End, and closes the connection once all is sent: the answer is not what it should have been.
  virtual void Abort() = 0;

  // Whether nothing more can be said.
  virtual bool over() const = 0;
  virtual bool streaming() const = 0;

  // `gone` is called once if the client leaves, or is given up, before the answer is over.
  virtual void OnGone(std::function<void()> gone) = 0;
  // `tick` is called every so many milliseconds until the exchange is over.
  virtual void OnTick(int64_t period_ms, std::function<void()> tick) = 0;
};

}  // namespace baton
