// One client's connection (within net/: this header needs Asio).
//
// Life of a connection:
//  1. idle: between requests.
//  2. head, body: a request is being read, against the clock.
//  3. answering: the handler has the request; what the client sends meanwhile waits, up to
//     kMaxWaitingBytes.
//  4. lingering: the last response is sent; what still comes is thrown away until the client
//     closes, so that it can read the response.
//  5. closed.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_limits.h"
#include "net/http_parser.h"
#include "net/http_server.h"

namespace baton {

class HttpConnection;

// What connections share with their server.
struct HttpConnectionHost {
  HttpHandler& handler;
  const HttpLimits& limits;
  std::function<void(const std::shared_ptr<HttpConnection>&)> on_closed;
  int64_t body_bytes = 0;  // held by all connections
  bool closing = false;
};

// Threads: the I/O thread.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // Requires: `host` outlives the connection.
  HttpConnection(Socket socket, HttpConnectionHost& host);

  void Start();
  // Closes when idle, else after the answer at work.
  void Finish();
  // Closes now.
  void Drop();

 private:
  using Error = boost::system::error_code;
  class Exchange;
  enum class State { kIdle, kHead, kBody, kAnswering, kLingering, kClosed };

  // Reading.
  void Read();
  void OnRead(const Error& error, size_t num_bytes);
  void OnEndOfInput();
  void Process();
  // Takes the next step of the request; returns whether there is another.
  bool Advance();
  bool OnHeadDone();
  void OnBody();
  void OnRequestDone();
  void Refuse(int status, const std::string& why);
  void SetDeadline(int64_t timeout_ms);
  void OnDeadline();

  // Answering.
  void Respond(HttpResponse response);
  void BeginStream(const HttpStreamHead& head);
  void WriteStream(std::string_view piece);
  void EndStream(bool close);
  void AnswerDone();
  void WatchForReset();
  void Probe();
  void ProbeAfter(int64_t delay_ms);
  void Tick();

  // Writing.
  void Send(std::string_view bytes);
  void Flush();
  void OnWritten(const Error& error, size_t num_bytes);
  void OnAllSent();
  void Linger();
  void Close();
  void ReleaseBody();

  Socket socket_;
  HttpConnectionHost& host_;
  State state_ = State::kIdle;
  HttpParser parser_;
  std::array<char, 16 << 10> buffer_;
  std::string in_;  // read and not yet used
  bool reading_ = false;
  bool end_of_input_ = false;
  bool watching_ = false;
  bool keep_alive_ = true;
  bool is_head_request_ = false;
  bool is_http_1_0_ = false;
  bool chunked_ = false;
  std::shared_ptr<Exchange> exchange_;  // null unless a request waits for its answer
  std::string unsent_;
  std::string sending_;
  size_t sent_ = 0;  // of sending_
  int64_t body_bytes_ = 0;
  int64_t body_begin_ms_ = 0;
  int64_t lingered_bytes_ = 0;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer write_deadline_;
  boost::asio::steady_timer probe_timer_;
  boost::asio::steady_timer tick_timer_;
};

}  // namespace baton
