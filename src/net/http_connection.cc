#include "net/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

namespace asio = boost::asio;

// What a client may send ahead while its last request is answered.
constexpr size_t kMaxWaitingBytes = 64 << 10;
// Most answers are there before the first.
constexpr int64_t kFirstProbeMs = 50;
constexpr int64_t kProbeMs = 1'000;
constexpr int64_t kLingerMs = 2'000;
constexpr int64_t kMaxLingerBytes = int64_t{256} << 20;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string HeadText(int status, const std::vector<HttpField>& fields) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, HttpStatusText(status));
  for (const HttpField& field : fields) head += fmt::format("{}: {}\r\n", field.name, field.value);
  return head;
}

}  // namespace

// Hands on to its connection while the request is unanswered.
class HttpConnection::Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::weak_ptr<HttpConnection> connection)
      : connection_(std::move(connection)) {}

  void Respond(HttpResponse response) override {
    if (const auto connection = Take()) connection->Respond(std::move(response));
  }
  void Begin(HttpStreamHead head) override {
    const auto connection = Take();
    if (connection == nullptr) return;
    CHECK(!streaming_);
    streaming_ = true;
    probe_ = head.probe;
    connection->BeginStream(head);
  }
  void Write(std::string_view piece) override {
    if (const auto connection = Take()) connection->WriteStream(piece);
  }
  void End() override {
    if (const auto connection = Take()) connection->EndStream(/*close=*/false);
  }
  void Abort() override {
    if (const auto connection = Take()) connection->EndStream(/*close=*/true);
  }
  bool over() const override { return over_; }
  bool streaming() const override { return streaming_; }
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  void OnTick(int64_t period_ms, std::function<void()> tick) override {
    const auto connection = Take();
    if (connection == nullptr) return;
    tick_ = std::move(tick);
    period_ms_ = period_ms;
    connection->Tick();
  }

  const std::string& probe() const { return probe_; }
  int64_t period_ms() const { return period_ms_; }
  void CallTick() {
    // The function may end the exchange, and with it itself.
    const std::function<void()> tick = tick_;
    if (tick) tick();
  }
  // From now on nothing can be said. Whoever shares the exchange is let go.
  void SetOver() {
    over_ = true;
    tick_ = nullptr;
    gone_ = nullptr;
  }
  void SetGone() {
    const std::function<void()> gone = std::move(gone_);
    SetOver();
    if (gone) gone();
  }

 private:
  std::shared_ptr<HttpConnection> Take() const { return over_ ? nullptr : connection_.lock(); }

  std::weak_ptr<HttpConnection> connection_;
  bool over_ = false;
  bool streaming_ = false;
  std::string probe_;
  std::function<void()> gone_;
  std::function<void()> tick_;
  int64_t period_ms_ = 0;
};

HttpConnection::HttpConnection(Socket socket, HttpConnectionHost& host)
    : socket_(std::move(socket)),
      host_(host),
      parser_(host.limits),
      deadline_(socket_.get_executor()),
      write_deadline_(socket_.get_executor()),
      probe_timer_(socket_.get_executor()),
      tick_timer_(socket_.get_executor()) {}

void HttpConnection::Start() {
  SetDeadline(host_.limits.idle_timeout_ms);
  Read();
}

void HttpConnection::Finish() {
  keep_alive_ = false;
  if (state_ == State::kIdle || state_ == State::kHead || state_ == State::kBody) Close();
}

void HttpConnection::Drop() {
  Close();
}

void HttpConnection::Read() {
  if (reading_ || end_of_input_ || state_ == State::kClosed) return;
  if (in_.size() >= kMaxWaitingBytes) return WatchForReset();
  reading_ = true;
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const Error& error, size_t num_bytes) {
                            self->OnRead(error, num_bytes);
                          });
}

void HttpConnection::OnRead(const Error& error, size_t num_bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::eof) return OnEndOfInput();
  if (error) return Close();
  in_.append(buffer_.data(), num_bytes);
  Process();
}

void HttpConnection::OnEndOfInput() {
  end_of_input_ = true;
  switch (state_) {
    case State::kAnswering:
      if (exchange_ == nullptr) return;  // the answer is on its way
      WatchForReset();
      ProbeAfter(kFirstProbeMs);
      return;
    case State::kLingering:
    case State::kIdle:
    case State::kHead:
    case State::kBody:
    case State::kClosed:
      Close();
      return;
  }
}

void HttpConnection::Process() {
  while (Advance()) {
  }
}

bool HttpConnection::Advance() {
  if (state_ == State::kClosed) return false;
  if (state_ == State::kLingering) {
    lingered_bytes_ += std::ssize(in_);
    in_.clear();
    if (lingered_bytes_ > kMaxLingerBytes) {
      Close();
    } else {
      Read();
    }
    return false;
  }
  if (state_ == State::kAnswering || (in_.empty() && state_ == State::kIdle)) {
    if (end_of_input_ && state_ == State::kIdle) {
      Close();
    } else {
      Read();
    }
    return false;
  }
  if (state_ == State::kIdle) {
    state_ = State::kHead;
    SetDeadline(host_.limits.head_timeout_ms);
  }
  const HttpParser::Step step = parser_.Feed(in_);
  in_.erase(0, step.consumed);
  if (state_ == State::kBody) OnBody();
  switch (step.progress) {
    case HttpParser::Progress::kRefused:
      Refuse(parser_.refusal_status(), parser_.refusal());
      return true;
    case HttpParser::Progress::kHead:
      return OnHeadDone();
    case HttpParser::Progress::kDone:
      OnRequestDone();
      return true;
    case HttpParser::Progress::kNeedMore:
      break;
  }
  if (state_ == State::kClosed || state_ == State::kLingering) return false;
  if (end_of_input_) {
    Close();
  } else {
    Read();
  }
  return false;
}

bool HttpConnection::OnHeadDone() {
  const HttpRequest& request = parser_.request();
  keep_alive_ = parser_.keep_alive() && !host_.closing;
  is_head_request_ = request.method == "HEAD";
  is_http_1_0_ = request.is_http_1_0;
  state_ = State::kBody;
  body_begin_ms_ = NowMs();
  SetDeadline(host_.limits.body_timeout_ms);
  if (std::optional<HttpResponse> refusal = host_.handler.OnHead(request)) {
    // What follows would be taken for the next request.
    if (parser_.has_body()) keep_alive_ = false;
    state_ = State::kAnswering;
    Respond(*std::move(refusal));
    return true;
  }
  if (parser_.expects_continue() && in_.empty()) Send("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void HttpConnection::OnBody() {
  const int64_t now_bytes = std::ssize(parser_.request().body);
  host_.body_bytes += now_bytes - body_bytes_;
  body_bytes_ = now_bytes;
  if (host_.body_bytes > host_.limits.max_total_body_bytes) {
    return Refuse(503, "too many large requests at the same time; try again");
  }
  const int64_t earned_ms = body_bytes_ * 1000 / host_.limits.min_body_bytes_per_second;
  SetDeadline(body_begin_ms_ + host_.limits.body_timeout_ms + earned_ms - NowMs());
}

void HttpConnection::OnRequestDone() {
  // OnBody may have refused it.
  if (state_ != State::kBody) return;
  state_ = State::kAnswering;
  deadline_.cancel();
  exchange_ = std::make_shared<Exchange>(weak_from_this());
  const std::shared_ptr<Exchange> exchange = exchange_;
  host_.handler.OnRequest(std::move(parser_.request()), exchange);
  // One that closes its side at once is watched from the start.
  if (exchange_ == exchange && end_of_input_) OnEndOfInput();
}

void HttpConnection::Refuse(int status, const std::string& why) {
  if (state_ == State::kClosed || state_ == State::kAnswering) return;
  keep_alive_ = false;
  state_ = State::kAnswering;
  Respond(host_.handler.Refusal(status, why));
}

void HttpConnection::SetDeadline(int64_t timeout_ms) {
  deadline_.expires_after(std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0)));
  deadline_.async_wait([self = shared_from_this()](const Error& error) {
    // A timer that was set again in the meantime has not expired.
    if (error || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->OnDeadline();
  });
}

void HttpConnection::OnDeadline() {
  switch (state_) {
    case State::kHead:
      Refuse(408, "the request's head did not come in time");
      return;
    case State::kBody:
      Refuse(408, "the request's body did not come in time");
      return;
    case State::kIdle:
    case State::kLingering:
      Close();
      return;
    case State::kAnswering:
    case State::kClosed:
      return;
  }
}

void HttpConnection::Respond(HttpResponse response) {
  deadline_.cancel();
  const bool has_body = response.status >= 200 && response.status != 204 && response.status != 304;
  std::string text = HeadText(response.status, response.fields);
  if (has_body) text += fmt::format("Content-Length: {}\r\n", response.body.size());
  text += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  if (has_body && !is_head_request_) text += response.body;
  Send(text);
  AnswerDone();
}

void HttpConnection::BeginStream(const HttpStreamHead& head) {
  chunked_ = !is_http_1_0_;
  if (!chunked_) keep_alive_ = false;
  std::string text = HeadText(head.status, head.fields);
  if (chunked_) text += "Transfer-Encoding: chunked\r\n";
  text += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  Send(text);
}

void HttpConnection::WriteStream(std::string_view piece) {
  if (piece.empty() || is_head_request_) return;
  const auto waiting = static_cast<int64_t>(unsent_.size() + sending_.size() - sent_);
  if (waiting > host_.limits.max_unsent_bytes) return Close();
  if (!chunked_) return Send(piece);
  Send(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

void HttpConnection::EndStream(bool close) {
  if (close) keep_alive_ = false;
  if (chunked_ && !is_head_request_) Send("0\r\n\r\n");
  AnswerDone();
}

void HttpConnection::AnswerDone() {
  probe_timer_.cancel();
  tick_timer_.cancel();
  if (const std::shared_ptr<Exchange> exchange = std::move(exchange_)) exchange->SetOver();
  exchange_ = nullptr;
  ReleaseBody();
  if (state_ != State::kClosed && sending_.empty() && unsent_.empty()) OnAllSent();
}

void HttpConnection::WatchForReset() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const Error& error) {
    self->watching_ = false;
    if (!error) self->Close();
  });
}

void HttpConnection::Probe() {
  if (exchange_ == nullptr) return;
  if (sending_.empty()) {
    if (exchange_->streaming()) {
      WriteStream(exchange_->probe());
    } else if (is_http_1_0_) {
      return Close();
    } else {
      Send("HTTP/1.1 100 Continue\r\n\r\n");
    }
  }
  if (state_ != State::kClosed) ProbeAfter(kProbeMs);
}

void HttpConnection::ProbeAfter(int64_t delay_ms) {
  probe_timer_.expires_after(std::chrono::milliseconds(delay_ms));
  probe_timer_.async_wait([self = shared_from_this()](const Error& error) {
    if (!error) self->Probe();
  });
}

void HttpConnection::Tick() {
  if (exchange_ == nullptr || exchange_->period_ms() <= 0) return;
  tick_timer_.expires_after(std::chrono::milliseconds(exchange_->period_ms()));
  tick_timer_.async_wait([self = shared_from_this()](const Error& error) {
    if (error || self->exchange_ == nullptr) return;
    const std::shared_ptr<Exchange> exchange = self->exchange_;
    exchange->CallTick();
    if (self->exchange_ == exchange) self->Tick();
  });
}

void HttpConnection::Send(std::string_view bytes) {
  if (state_ == State::kClosed || bytes.empty()) return;
  unsent_ += bytes;
  if (sending_.empty()) Flush();
}

void HttpConnection::Flush() {
  if (sent_ == sending_.size()) {
    sending_ = std::exchange(unsent_, {});
    sent_ = 0;
  }
  write_deadline_.expires_after(std::chrono::milliseconds(host_.limits.write_timeout_ms));
  write_deadline_.async_wait([self = shared_from_this()](const Error& error) {
    if (error || self->sending_.empty()) return;
    if (self->write_deadline_.expiry() <= std::chrono::steady_clock::now()) self->Close();
  });
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](const Error& error, size_t num_bytes) {
                             self->OnWritten(error, num_bytes);
                           });
}

void HttpConnection::OnWritten(const Error& error, size_t num_bytes) {
  if (state_ == State::kClosed) return;
  if (error) return Close();
  sent_ += num_bytes;
  if (sent_ < sending_.size() || !unsent_.empty()) return Flush();
  sending_.clear();
  sent_ = 0;
  write_deadline_.cancel();
  if (state_ == State::kAnswering && exchange_ == nullptr) OnAllSent();
}

void HttpConnection::OnAllSent() {
  if (!keep_alive_ || host_.closing) return Linger();
  state_ = State::kIdle;
  parser_ = HttpParser(host_.limits);
  SetDeadline(host_.limits.idle_timeout_ms);
  Process();
}

void HttpConnection::Linger() {
  state_ = State::kLingering;
  Error ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (end_of_input_) return Close();
  SetDeadline(kLingerMs);
  Process();
}

void HttpConnection::ReleaseBody() {
  host_.body_bytes -= body_bytes_;
  body_bytes_ = 0;
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const std::shared_ptr<HttpConnection> self = shared_from_this();
  Error ignored;
  socket_.close(ignored);
  deadline_.cancel();
  write_deadline_.cancel();
  probe_timer_.cancel();
  tick_timer_.cancel();
  ReleaseBody();
  if (const std::shared_ptr<Exchange> exchange = std::move(exchange_)) exchange->SetGone();
  exchange_ = nullptr;
  host_.on_closed(self);
}

}  // namespace baton
