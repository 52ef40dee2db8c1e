// An HTTP/1.1 server: one I/O thread, no thread per connection.
//
// It finds out that a client is gone at any moment, also while nothing is written: a connection
// that breaks or ends is seen at once. A client that only stops sending (half-close) and one that
// closed look the same until something is sent to them; so such a client gets a "100 Continue", or
// a stream's probe, every second while its request is answered, and an HTTP/1.0 client counts as
// gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http_exchange.h"
#include "net/http_limits.h"
#include "net/http_message.h"

namespace baton {

// What is done with requests. Called on the I/O thread, which waits meanwhile: handlers are quick,
// and hand on what takes long.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Looks at a request before its body is read. An answer refuses it.
  virtual std::optional<HttpResponse> OnHead(const HttpRequest& request) = 0;
  // Takes a whole request. The exchange is to be answered, now or later.
  virtual void OnRequest(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // Words a refusal of the server itself (bad request, too large, too slow, ...).
  virtual HttpResponse Refusal(int status, const std::string& why) = 0;
};

struct HttpServerConfig {
  std::string host = "127.0.0.1";  // an IP address, or "localhost"
  uint16_t port = 0;               // 0: the system chooses
  HttpLimits limits = {};
};

// Whether only this machine can reach a host; false if it is no IP address.
bool IsLoopbackHost(const std::string& host);

// Threads: any.
class HttpServer {
 public:
  // Binds the address; connections wait. Requires: `handler` outlives the server.
  // Errors: invalid (limits, no IP address), unavailable (the address is in use or not ours, in the
  // system's words), internal (no descriptors).
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpServerConfig& config,
                                                    HttpHandler& handler);
  // Starts the I/O thread: from now on connections are served. Once.
  void Start();
  // As Close(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address in use: "127.0.0.1:8080", "[::1]:8080".
  std::string address() const;
  uint16_t port() const;

  // Has the function called on the I/O thread, after those posted before. Nothing once closed.
  void Post(std::function<void()> call);

  // Closes the door and idle connections at once, waits up to so long until what is being answered
  // is sent, and closes the rest. Not from the I/O thread.
  void Close(int64_t grace_ms);

  // Connections open now.
  int64_t num_connections() const;

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace baton
