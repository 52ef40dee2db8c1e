// A client of raw bytes for tests: a socket and nothing that would mend what is sent.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace baton {

class TestHttpClient {
 public:
  static constexpr int kTimeoutMs = 5000;

  explicit TestHttpClient(uint16_t port) : TestHttpClient(port, 0) {}
  // With a receive buffer of about so many bytes; 0: as the system likes.
  TestHttpClient(uint16_t port, int receive_bytes) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes > 0) {
      (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~TestHttpClient() { Close(); }
  TestHttpClient(const TestHttpClient&) = delete;
  TestHttpClient& operator=(const TestHttpClient&) = delete;

  bool connected() const { return connected_; }

  // Whether all was taken.
  bool Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }

  // Reads until `text` has come (with all before it), the server closes, or the time is up.
  std::string ReadUntil(const std::string& text, int timeout_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (text.empty() || got_.find(text) == std::string::npos) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) break;
      char buffer[4096];
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        closed_ = true;
        was_reset_ = n < 0;
        break;
      }
      got_.append(buffer, static_cast<size_t>(n));
    }
    const size_t at = text.empty() ? std::string::npos : got_.find(text);
    if (at == std::string::npos) return std::exchange(got_, {});
    std::string read = got_.substr(0, at + text.size());
    got_.erase(0, at + text.size());
    return read;
  }
  std::string ReadUntil(const std::string& text) { return ReadUntil(text, kTimeoutMs); }
  // Reads until the server closes.
  std::string ReadAll() { return ReadUntil("", kTimeoutMs); }

  // Reads so many bytes, or what there is when the server closes.
  std::string ReadBytes(size_t count) {
    while (got_.size() < count && !closed_) {
      char buffer[4096];
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        closed_ = true;
      } else {
        got_.append(buffer, static_cast<size_t>(n));
      }
    }
    std::string read = got_.substr(0, count);
    got_.erase(0, read.size());
    return read;
  }

  bool closed() const { return closed_; }
  bool was_reset() const { return was_reset_; }
  void ShutdownWrite() { ::shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Closes with a reset instead of a farewell.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
  bool closed_ = false;
  bool was_reset_ = false;
  std::string got_;
};

}  // namespace baton
