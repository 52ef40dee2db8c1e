#include "net/http_server.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_eventually.h"
#include "net/test_http_client.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// /echo answers with the body, /wait keeps the exchange, /stream begins a stream and keeps it,
// /flood fills one without end; /secret is refused by its head.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> OnHead(const HttpRequest& request) override {
    if (request.path() == "/secret") return PlainTextResponse(401, "no");
    return std::nullopt;
  }

  void OnRequest(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    ++requests;
    exchange->OnGone([this] { ++gone; });
    if (request.path() == "/echo") {
      exchange->Respond({.status = 200, .fields = {}, .body = request.method + request.body});
      return;
    }
    if (request.path() == "/stream" || request.path() == "/flood") {
      exchange->Begin({.status = 200, .fields = {}, .probe = "?"});
      exchange->Write("first;");
    }
    if (request.path() == "/flood") {
      const std::weak_ptr<HttpExchange> weak = exchange;
      exchange->OnTick(1, [weak] {
        const auto alive = weak.lock();
        if (alive != nullptr) alive->Write(std::string(64 << 10, 'x'));
      });
    }
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(exchange));
  }

  HttpResponse Refusal(int status, const std::string& why) override {
    return PlainTextResponse(status, why);
  }

  std::shared_ptr<HttpExchange> TakeKept() {
    const std::lock_guard lock(mutex);
    if (kept.empty()) return nullptr;
    std::shared_ptr<HttpExchange> exchange = std::move(kept.back());
    kept.pop_back();
    return exchange;
  }

  std::atomic<int> requests = 0;
  std::atomic<int> gone = 0;
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpExchange>> kept;
};

int NumDescriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

class HttpServerTest : public ::testing::Test {
 protected:
  void StartWith(const HttpLimits& limits) {
    server_.reset();
    auto server = HttpServer::Listen({.host = "127.0.0.1", .port = 0, .limits = limits}, handler_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    server_->Start();
  }
  void SetUp() override { StartWith(HttpLimits{}); }

  uint16_t port() const { return server_->port(); }
  void InServer(std::function<void()> call) {
    std::atomic<bool> done = false;
    server_->Post([&] {
      call();
      done = true;
    });
    ASSERT_TRUE(Eventually([&] { return done.load(); }));
  }

  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

const std::string kGet = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
const std::string kWait = "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n";
const std::string kStream = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(HttpServerTest, AnswersOneAfterTheOtherOnOneConnection) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_EQ(client.ReadUntil("GET"), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nGET");
  // Sent ahead, answered in order.
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi" + kGet +
                          "HEAD /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.ReadAll(),
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOSThi"
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nGET"
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.closed());
  EXPECT_FALSE(client.was_reset());
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(HttpServerTest, RequestsInSmallPieces) {
  TestHttpClient client(port());
  for (const char byte :
       "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
       "2\r\nab\r\n0\r\n\r" +
           std::string("\n")) {
    ASSERT_TRUE(client.Send(std::string(1, byte)));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_THAT(client.ReadUntil("POSTab"), EndsWith("\r\n\r\nPOSTab"));
}

TEST_F(HttpServerTest, AsksForABodyThatWaits) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.Send("ok"));
  EXPECT_THAT(client.ReadUntil("POSTok"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, RefusalsReachAClientThatIsStillSending) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99000000\r\n\r\n"));
  for (int i = 0; i < 64; ++i) (void)client.Send(std::string(64 << 10, 'x'));
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_FALSE(client.was_reset());

  // By the head: the body is never waited for, and never taken for a request.
  TestHttpClient secret(port());
  ASSERT_TRUE(secret.Send("POST /secret HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n" + kGet));
  const std::string refused = secret.ReadAll();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(refused, Not(HasSubstr("200 OK")));

  TestHttpClient wrong(port());
  ASSERT_TRUE(wrong.Send("GET / HTTP/1.1\nHost: h\n\n"));
  EXPECT_THAT(wrong.ReadAll(), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(HttpServerTest, StreamsInChunks) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send(kStream));
  EXPECT_EQ(client.ReadUntil("first;\r\n"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst;\r\n");
  InServer([&] {
    const auto exchange = handler_.TakeKept();
    exchange->Write("and last");
    exchange->End();
    EXPECT_TRUE(exchange->over());
    exchange->Write("too late");
  });
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "8\r\nand last\r\n0\r\n\r\n");
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("GET"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(handler_.gone, 0);

  // HTTP/1.0 has no chunks: the end of the connection is the end of the body.
  TestHttpClient old(port());
  ASSERT_TRUE(old.Send("GET /stream HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(old.ReadUntil("first;"), EndsWith("Connection: close\r\n\r\nfirst;"));
  InServer([&] { handler_.TakeKept()->End(); });
  EXPECT_EQ(old.ReadAll(), "");
  EXPECT_TRUE(old.closed());
}

TEST_F(HttpServerTest, AbortEndsTheConnection) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send(kStream));
  (void)client.ReadUntil("first;\r\n");
  InServer([&] { handler_.TakeKept()->Abort(); });
  EXPECT_EQ(client.ReadAll(), "0\r\n\r\n");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServerTest, NoticesThatTheClientIsGone) {
  for (const std::string& request : {kWait, kStream}) {
    for (const bool reset : {false, true}) {
      handler_.gone = 0;
      TestHttpClient client(port());
      ASSERT_TRUE(client.Send(request));
      ASSERT_TRUE(Eventually([&] {
        const std::lock_guard lock(handler_.mutex);
        return !handler_.kept.empty();
      }));
      if (reset) {
        client.Reset();
      } else {
        client.Close();
      }
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(Eventually([&] { return handler_.gone == 1; })) << request << reset;
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
      EXPECT_TRUE(handler_.TakeKept()->over());
    }
  }
  EXPECT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
}

TEST_F(HttpServerTest, AClientThatOnlyStopsSendingIsServed) {
  TestHttpClient client(port());
  ASSERT_TRUE(client.Send(kWait));
  client.ShutdownWrite();
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(handler_.gone, 0);
  InServer([&] { handler_.TakeKept()->Respond({.status = 200, .fields = {}, .body = "yes"}); });
  EXPECT_THAT(client.ReadAll(), EndsWith("yes"));

  TestHttpClient stream(port());
  ASSERT_TRUE(stream.Send(kStream));
  stream.ShutdownWrite();
  EXPECT_THAT(stream.ReadUntil("1\r\n?\r\n"), EndsWith("first;\r\n1\r\n?\r\n"));
  InServer([&] { handler_.TakeKept()->End(); });
  EXPECT_EQ(stream.ReadAll(), "0\r\n\r\n");
  EXPECT_EQ(handler_.gone, 0);
  // And when it is gone in the end, that is noticed, too.
  TestHttpClient leaves(port());
  ASSERT_TRUE(leaves.Send(kWait));
  leaves.ShutdownWrite();
  (void)leaves.ReadUntil("100 Continue\r\n\r\n");
  leaves.Close();
  EXPECT_TRUE(Eventually([&] { return handler_.gone == 1; }));
}

TEST_F(HttpServerTest, AClientThatReadsNothingIsGivenUp) {
  HttpLimits limits;
  limits.max_unsent_bytes = 256 << 10;
  StartWith(limits);
  TestHttpClient client(port(), 4096);
  ASSERT_TRUE(client.Send("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(Eventually([&] { return handler_.gone == 1; }));
  // By the clock, when little piles up.
  limits.max_unsent_bytes = int64_t{1} << 30;
  limits.write_timeout_ms = 200;
  StartWith(limits);
  TestHttpClient slow(port(), 4096);
  ASSERT_TRUE(slow.Send("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(Eventually([&] { return handler_.gone == 2; }));
}

TEST_F(HttpServerTest, SlowRequestsEnd) {
  HttpLimits limits;
  limits.idle_timeout_ms = 100;
  limits.head_timeout_ms = 150;
  limits.body_timeout_ms = 150;
  limits.min_body_bytes_per_second = 1 << 20;
  StartWith(limits);
  TestHttpClient silent(port());
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_TRUE(silent.closed());
  TestHttpClient head(port());
  ASSERT_TRUE(head.Send("GET / HT"));
  EXPECT_THAT(head.ReadAll(), StartsWith("HTTP/1.1 408 "));
  // Dripping does not help.
  TestHttpClient body(port());
  ASSERT_TRUE(body.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"));
  for (int i = 0; i < 20 && body.Send("x"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(HttpServerTest, LimitsOfAllTogether) {
  HttpLimits limits;
  limits.max_connections = 3;
  limits.max_total_body_bytes = 1000;
  StartWith(limits);
  std::vector<std::unique_ptr<TestHttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestHttpClient>(port()));
    ASSERT_TRUE(clients.back()->Send(kWait));
  }
  ASSERT_TRUE(Eventually([&] { return server_->num_connections() == 3; }));
  EXPECT_THAT(TestHttpClient(port()).ReadAll(), StartsWith("HTTP/1.1 503 "));
  clients.clear();
  ASSERT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
  const std::string big = "POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n";
  TestHttpClient first(port());
  ASSERT_TRUE(first.Send(big + std::string(600, 'x')));
  ASSERT_TRUE(Eventually([&] { return handler_.requests == 4; }));
  TestHttpClient second(port());
  ASSERT_TRUE(second.Send(big + std::string(600, 'x')));
  EXPECT_THAT(second.ReadAll(), StartsWith("HTTP/1.1 503 "));
  first.Close();
  ASSERT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
  TestHttpClient third(port());
  ASSERT_TRUE(third.Send(big + std::string(600, 'x')));
  EXPECT_TRUE(Eventually([&] { return handler_.requests == 5; }));
}

TEST_F(HttpServerTest, ClosesInOrder) {
  TestHttpClient idle(port());
  ASSERT_TRUE(idle.Send(kGet));
  (void)idle.ReadUntil("GET");
  TestHttpClient waiting(port());
  ASSERT_TRUE(waiting.Send(kWait));
  TestHttpClient hanging(port());
  ASSERT_TRUE(hanging.Send(kWait));
  ASSERT_TRUE(Eventually([&] { return handler_.requests == 3; }));
  const uint16_t old_port = port();
  server_->Post([&] {
    handler_.kept.front()->OnTick(100, [&] {
      handler_.kept.front()->Respond({.status = 200, .fields = {}, .body = "late"});
    });
  });
  server_->Close(400);
  EXPECT_EQ(idle.ReadAll(), "");
  const std::string one = waiting.ReadAll();
  const std::string other = hanging.ReadAll();
  EXPECT_THAT(one + other, EndsWith("Connection: close\r\n\r\nlate"));
  EXPECT_EQ(handler_.gone, 1);
  EXPECT_FALSE(TestHttpClient(old_port).connected());
  server_->Post([] { FAIL() << "called after the end"; });
  handler_.kept.clear();
}

TEST(IsLoopbackHost, IsOfThisMachineAlone) {
  for (const char* const host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* const host : {"0.0.0.0", "::", "10.0.0.1", "fe80::1", "example", ""}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST_F(HttpServerTest, TellsWhyItCannotStart) {
  const auto taken = HttpServer::Listen({.host = "127.0.0.1", .port = port()}, handler_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(taken.error().message, HasSubstr("127.0.0.1:"));
  const auto name = HttpServer::Listen({.host = "example", .port = 0}, handler_);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::kInvalid);
  HttpLimits limits;
  limits.max_connections = 0;
  const auto limit = HttpServer::Listen({.limits = limits}, handler_);
  ASSERT_FALSE(limit);
  EXPECT_THAT(limit.error().message, StartsWith("max_connections must be from 1 "));
}

// Half requests, random bytes, sudden ends: nothing stays behind.
TEST_F(HttpServerTest, NothingStaysOfRandomClients) {
  const int descriptors = NumDescriptors();
  RandomStream random({.seed = 11, .stream = 2});
  const std::string all = kGet + kWait +
                          "POST /echo HTTP/1.1\r\nHost: h\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" +
                          kStream;
  for (int round = 0; round < 300; ++round) {
    TestHttpClient client(port());
    std::string text = all.substr(0, random.NextBelow(all.size() + 1));
    if (random.NextBelow(4) == 0) {
      for (char& byte : text) byte = static_cast<char>(random.NextBelow(256));
    }
    (void)client.Send(text);
    if (random.NextBelow(3) == 0) client.ShutdownWrite();
    if (random.NextBelow(2) == 0) (void)client.ReadUntil("\r\n", 20);
    if (random.NextBelow(2) == 0) client.Reset();
  }
  EXPECT_TRUE(Eventually([&] { return server_->num_connections() == 0; }));
  EXPECT_TRUE(Eventually([&] { return NumDescriptors() == descriptors; }));
  TestHttpClient alive(port());
  ASSERT_TRUE(alive.Send(kGet));
  EXPECT_THAT(alive.ReadUntil("GET"), EndsWith("GET"));
}

}  // namespace
}  // namespace baton
