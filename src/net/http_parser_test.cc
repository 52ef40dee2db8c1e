#include "net/http_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

using Progress = HttpParser::Progress;

// What became of a text given in pieces of `piece` bytes.
struct Outcome {
  bool done = false;
  int refusal = 0;
  HttpRequest request = {};
  std::string rest = {};  // behind the request
  bool keep_alive = false;
  bool expects_continue = false;
};

Outcome Parse(const std::string& text, size_t piece, const HttpLimits& limits) {
  HttpParser parser(limits);
  std::string waiting;
  size_t next = 0;
  bool is_head_done = false;
  while (true) {
    const HttpParser::Step step = parser.Feed(waiting);
    EXPECT_LE(step.consumed, waiting.size());
    waiting.erase(0, step.consumed);
    if (step.progress == Progress::kRefused) return {.refusal = parser.refusal_status()};
    if (step.progress == Progress::kHead) {
      EXPECT_FALSE(is_head_done);
      is_head_done = true;
      continue;
    }
    if (step.progress == Progress::kDone) {
      return {.done = true,
              .request = parser.request(),
              .rest = waiting + text.substr(next),
              .keep_alive = parser.keep_alive(),
              .expects_continue = parser.expects_continue()};
    }
    if (next == text.size()) return {};
    waiting += text.substr(next, piece);
    next = std::min(next + piece, text.size());
  }
}

Outcome Parse(const std::string& text) {
  const Outcome whole = Parse(text, text.size() + 1, HttpLimits{});
  for (const size_t piece : {1, 2, 3, 7, 64}) {
    const Outcome again = Parse(text, piece, HttpLimits{});
    EXPECT_EQ(again.done, whole.done) << text;
    EXPECT_EQ(again.refusal, whole.refusal) << text;
    EXPECT_EQ(again.request.body, whole.request.body) << text;
    EXPECT_EQ(again.rest, whole.rest) << text;
  }
  return whole;
}

std::string Post(const std::string& fields, const std::string& body) {
  return "POST /v1/x HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n" + body;
}

TEST(HttpParserTest, ReadsAGet) {
  const Outcome got = Parse("GET /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-Y:  some words \r\n\r\nNEXT");
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.request.method, "GET");
  EXPECT_EQ(got.request.target, "/a/b?c=d");
  EXPECT_EQ(got.request.path(), "/a/b");
  EXPECT_EQ(got.request.Field("x-y"), "some words");
  EXPECT_EQ(got.request.Field("absent"), std::nullopt);
  EXPECT_EQ(got.rest, "NEXT");
  EXPECT_TRUE(got.keep_alive);
  EXPECT_FALSE(got.request.is_http_1_0);
}

TEST(HttpParserTest, ReadsBodies) {
  Outcome got = Parse(Post("Content-Length: 5\r\n", "hello") + "GET /");
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.request.body, "hello");
  EXPECT_EQ(got.rest, "GET /");
  got = Parse(Post("Content-Length: 0\r\n", ""));
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.request.body, "");
  got = Parse(Post("Transfer-Encoding: Chunked\r\n",
                   "5;a=b\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n") +
              "REST");
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.request.body, "hello 0123456789");
  EXPECT_EQ(got.request.Field("X-Trailer"), std::nullopt);
  EXPECT_EQ(got.rest, "REST");
}

// However the bytes arrive (Parse compares). Found by fuzz/http_fuzz.cc in the library's reader of
// chunks, as was the open quote below.
TEST(HttpParserTest, ReadsAnEmptyChunkedBodyInPieces) {
  const Outcome got = Parse(Post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n") + "GET /");
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.request.body, "");
  EXPECT_EQ(got.rest, "GET /");
  EXPECT_TRUE(Parse(Post("Transfer-Encoding: chunked\r\n", "000;a=b\r\nA: b\r\n\r\n")).done);
}

TEST(HttpParserTest, KnowsHowTheConnectionGoesOn) {
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n").keep_alive);
  const Outcome old = Parse("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.done);
  EXPECT_TRUE(old.request.is_http_1_0);
  EXPECT_FALSE(old.keep_alive);
  const Outcome waits = Parse(Post("Expect: 100-continue\r\nContent-Length: 1\r\n", "x"));
  EXPECT_TRUE(waits.done);
  EXPECT_TRUE(waits.expects_continue);
  EXPECT_EQ(Parse(Post("Expect: tea\r\nContent-Length: 1\r\n", "x")).refusal, 417);
  // An absolute target is allowed; only its path counts.
  EXPECT_EQ(Parse("GET http://h/p?q HTTP/1.1\r\nHost: h\r\n\r\n").request.target, "/p?q");
  EXPECT_EQ(Parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n").request.target, "/");
  EXPECT_TRUE(Parse("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").done);
  // Known, so that the server can say what it takes instead.
  EXPECT_TRUE(Parse("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n").done);
  EXPECT_TRUE(Parse("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n").done);
}

TEST(HttpParserTest, RefusesWhatCouldBeReadInTwoWays) {
  struct Case {
    std::string text;
    int status;
  };
  const std::vector<Case> cases = {
      {Post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400},
      {Post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), 400},
      {Post("Content-Length: 5, 5\r\n", "hello"), 400},
      {Post("Content-Length: +5\r\n", "hello"), 400},
      {Post("Content-Length: -5\r\n", "hello"), 400},
      {Post("Content-Length: 0x5\r\n", "hello"), 400},
      {Post("Content-Length: 5 5\r\n", "hello"), 400},
      {Post("Content-Length: \r\n", "hello"), 400},
      {Post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501},
      {Post("Transfer-Encoding: identity\r\n", "0\r\n\r\n"), 501},
      {Post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
      {Post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {Post("", ""), 411},
      // Line ends and folding.
      {"GET / HTTP/1.1\nHost: h\n\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: b\rC: d\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n", 35), 400},
      {"\x16\x03\x01\x02\x00\x01\x00", 400},  // a TLS client
      {"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      // Names, hosts, versions, methods, targets.
      {"GET / HTTP/1.1\r\nHost: h\r\nA b: c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\n: c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nnothing\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
      {"GET /\r\nHost: h\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 505},  // what follows the target is no version
      {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"get / HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"GET a/b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      // Chunks.
      {Post("Transfer-Encoding: chunked\r\n", "x\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "5\r\nhelloX\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "5;a=\"\r\nhello\r\n0\r\n\r\n\"\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "5 a\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "5;a=\x01\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "0\r\nno field\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "0\r\n: x\r\n\r\n"), 400},
      {Post("Transfer-Encoding: chunked\r\n", "0\r\nA: b\r\n folded\r\n\r\n"), 400},
  };
  for (const Case& c : cases) {
    const Outcome got = Parse(c.text);
    EXPECT_FALSE(got.done) << c.text;
    EXPECT_EQ(got.refusal, c.status) << c.text;
  }
}

TEST(HttpParserTest, KeepsToItsLimits) {
  HttpLimits limits;
  limits.max_head_bytes = 256;
  limits.max_body_bytes = 10;
  limits.max_fields = 3;
  const auto parse = [&](const std::string& text) { return Parse(text, 5, limits); };
  EXPECT_TRUE(parse(Post("Content-Length: 10\r\n", "0123456789")).done);
  EXPECT_EQ(parse(Post("Content-Length: 11\r\n", "")).refusal, 413);
  EXPECT_EQ(parse(Post("Content-Length: 99999999999999999999\r\n", "")).refusal, 400);
  EXPECT_EQ(parse(Post("Content-Length: 4294967301\r\n", "hello")).refusal, 413);
  EXPECT_EQ(parse(Post("Transfer-Encoding: chunked\r\n", "b\r\n0123456789a\r\n0\r\n\r\n")).refusal,
            413);
  EXPECT_EQ(parse(Post("Transfer-Encoding: chunked\r\n", "6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n"))
                .refusal,
            413);
  EXPECT_EQ(parse(Post("Transfer-Encoding: chunked\r\n", "1;" + std::string(9000, 'a'))).refusal,
            400);
  EXPECT_EQ(
      parse(Post("Transfer-Encoding: chunked\r\n", "0\r\nA: " + std::string(300, 'a') + "\r\n\r\n"))
          .refusal,
      431);
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(300, 'a')).refusal, 431);
  EXPECT_EQ(parse("GET /" + std::string(300, 'a')).refusal, 431);
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nA: c\r\nA: d\r\n\r\n").refusal, 431);
}

TEST(HttpParserTest, RandomBytesAreRefusedOrWaitedFor) {
  RandomStream random({.seed = 7, .stream = 1});
  const std::string valid =
      Post("Transfer-Encoding: chunked\r\nA: b\r\n", "5\r\nhello\r\n0\r\n\r\n");
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = valid;
    const auto changes = 1 + random.NextBelow(4);
    for (uint64_t i = 0; i < changes; ++i) {
      text[random.NextBelow(text.size())] = static_cast<char>(random.NextBelow(256));
    }
    const Outcome whole = Parse(text, text.size(), HttpLimits{});
    const Outcome bytes = Parse(text, 1, HttpLimits{});
    EXPECT_EQ(whole.done, bytes.done) << text;
    EXPECT_EQ(whole.refusal, bytes.refusal) << text;
    EXPECT_EQ(whole.request.body, bytes.request.body) << text;
    if (whole.refusal != 0) ++refused;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace baton
