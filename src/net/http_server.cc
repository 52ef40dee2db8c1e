#include "net/http_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "net/http_connection.h"

namespace baton {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using BoostError = boost::system::error_code;

asio::ip::address AddressOf(const std::string& host, BoostError& error) {
  return asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
}

// How long the door stays shut when the system has no descriptor left.
constexpr int64_t kAcceptPauseMs = 100;
// A machine that vanished without a word is noticed after this.
constexpr int kUserTimeoutMs = 60'000;
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;

void SetOption(int fd, int level, int option, int value) {
  // Where the system refuses, its own ways hold.
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

void SetUp(Tcp::socket& socket) {
  const int fd = socket.native_handle();
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

std::string AddressText(const Tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace

class HttpServer::Core {
 public:
  Core(const HttpServerConfig& config, HttpHandler& handler)
      : limits_(config.limits),
        work_(asio::make_work_guard(io_)),
        acceptor_(io_),
        pause_(io_),
        host_{.handler = handler,
              .limits = limits_,
              .on_closed = [this](const std::shared_ptr<HttpConnection>& connection) {
                connections_.erase(connection);
                num_connections_ = std::ssize(connections_);
                if (host_.closing && connections_.empty()) io_.stop();
              }} {}

  Result<> Listen(const HttpServerConfig& config) {
    BoostError error;
    const auto address = AddressOf(config.host, error);
    if (error) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("the host must be an IP address or localhost, got '{}'", config.host));
    }
    const Tcp::endpoint endpoint(address, config.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(SOMAXCONN, error);
    if (!error) endpoint_ = acceptor_.local_endpoint(error);
    if (!error) return {};
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot listen on {}: {}{}", AddressText(endpoint), error.message(),
                            error == asio::error::address_in_use ? "; choose another port" : ""));
  }

  void Run() {
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  const Tcp::endpoint& endpoint() const { return endpoint_; }
  int64_t num_connections() const { return num_connections_; }

  void Post(std::function<void()> call) { asio::post(io_, std::move(call)); }

  void Close(int64_t grace_ms) {
    if (!thread_.joinable()) return;
    asio::post(io_, [this, grace_ms] {
      host_.closing = true;
      BoostError ignored;
      acceptor_.close(ignored);
      // Closing one takes it out of the set.
      for (const auto& connection : Copy()) connection->Finish();
      if (connections_.empty()) return io_.stop();
      pause_.expires_after(std::chrono::milliseconds(grace_ms));
      pause_.async_wait([this](const BoostError&) {
        for (const auto& connection : Copy()) connection->Drop();
        io_.stop();
      });
    });
    thread_.join();
  }

 private:
  using Connections = std::unordered_set<std::shared_ptr<HttpConnection>>;

  std::vector<std::shared_ptr<HttpConnection>> Copy() const {
    return {connections_.begin(), connections_.end()};
  }

  void Accept() {
    acceptor_.async_accept([this](const BoostError& error, Tcp::socket socket) {
      if (host_.closing || !acceptor_.is_open()) return;
      if (error) {
        pause_.expires_after(std::chrono::milliseconds(kAcceptPauseMs));
        pause_.async_wait([this](const BoostError& stopped) {
          if (!stopped && !host_.closing) Accept();
        });
        return;
      }
      Admit(std::move(socket));
      Accept();
    });
  }

  void Admit(Tcp::socket socket) {
    if (std::ssize(connections_) >= limits_.max_connections) return TurnAway(std::move(socket));
    SetUp(socket);
    const auto connection = std::make_shared<HttpConnection>(std::move(socket), host_);
    connections_.insert(connection);
    num_connections_ = std::ssize(connections_);
    connection->Start();
  }

  // One word, if the system takes it at once.
  void TurnAway(Tcp::socket socket) {
    const HttpResponse full = host_.handler.Refusal(503, "too many connections; try again");
    std::string text = fmt::format("HTTP/1.1 503 {}\r\n", HttpStatusText(503));
    for (const HttpField& field : full.fields) {
      text += fmt::format("{}: {}\r\n", field.name, field.value);
    }
    text += fmt::format("Content-Length: {}\r\nConnection: close\r\n\r\n{}", full.body.size(),
                        full.body);
    BoostError ignored;
    socket.non_blocking(true, ignored);
    socket.send(asio::buffer(text), 0, ignored);
    socket.shutdown(Tcp::socket::shutdown_send, ignored);
  }

  const HttpLimits limits_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  HttpConnectionHost host_;
  Connections connections_;
  std::atomic<int64_t> num_connections_ = 0;
  Tcp::endpoint endpoint_;
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() {
  core_->Close(0);
}

bool IsLoopbackHost(const std::string& host) {
  BoostError error;
  const asio::ip::address address = AddressOf(host, error);
  return !error && address.is_loopback();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerConfig& config,
                                                       HttpHandler& handler) {
  if (Result<> valid = Validate(config.limits); !valid) return Forward(valid);
  try {
    auto core = std::make_unique<Core>(config, handler);
    if (Result<> listening = core->Listen(config); !listening) return Forward(listening);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot start the server: {}", error.what()));
  }
}

void HttpServer::Start() {
  core_->Run();
}

std::string HttpServer::address() const {
  return AddressText(core_->endpoint());
}

uint16_t HttpServer::port() const {
  return core_->endpoint().port();
}

void HttpServer::Post(std::function<void()> call) {
  core_->Post(std::move(call));
}

void HttpServer::Close(int64_t grace_ms) {
  core_->Close(grace_ms);
}

int64_t HttpServer::num_connections() const {
  return core_->num_connections();
}

}  // namespace baton
