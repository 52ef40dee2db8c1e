// The whole of the server but the engine: real connections, scripted tokens.
#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/test_http_client.h"
#include "serve/page_files.h"
#include "serve/test_text_model.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// An engine whose tokens the test writes. Its calls come from the test's thread.
class ScriptedBackend final : public GenerationBackend {
 public:
  Result<uint64_t> Submit(GenerationRequest request,
                          std::shared_ptr<RequestObserver> observer) override {
    const std::lock_guard lock(mutex_);
    if (refuse_after == 0) return Fail(refusal, "no room");
    if (refuse_after > 0) --refuse_after;
    requests.push_back(std::move(request));
    observers_[++last_id_] = std::move(observer);
    return last_id_;
  }
  Result<> CheckPrefill(const PrefillWish& wish) const override {
    if (wish.mode != PrefillMode::kAuto) return {};
    return Fail(ErrorCode::kNotFound, "the model is not tuned");
  }
  void Cancel(uint64_t id) override {
    std::shared_ptr<RequestObserver> observer = Take(id);
    if (observer == nullptr) return;
    ++num_cancelled;
    GenerationResult result;
    result.stop_reason = StopReason::kCancelled;
    observer->OnDone(std::move(result));
  }
  EngineStatus Status() const override {
    EngineStatus status;
    status.blocks_free = 7;
    status.blocks_cached = 2;
    status.running.push_back(
        {.id = 9, .label = "chatcmpl-1", .prompt_tokens = 5, .is_prefill = true});
    status.waiting.push_back({.id = 10, .label = "chatcmpl-2", .prompt_tokens = 6});
    status.waiting_requests = 3;
    return status;
  }

  size_t num_requests() {
    const std::lock_guard lock(mutex_);
    return requests.size();
  }
  std::shared_ptr<RequestObserver> Find(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = observers_.find(id);
    return found == observers_.end() ? nullptr : found->second;
  }
  void Say(uint64_t id, const std::string& text) {
    if (const auto observer = Find(id)) observer->OnText(text);
  }
  void End(uint64_t id, StopReason reason) {
    GenerationResult result;
    result.stop_reason = reason;
    result.figures.prompt_tokens = 10;
    result.figures.cached_tokens = 4;
    result.figures.generated_tokens = 3;
    result.end_token = end_token;
    if (const auto observer = Take(id)) observer->OnDone(std::move(result));
  }
  void Finish(uint64_t id, GenerationResult result) {
    if (const auto observer = Take(id)) observer->OnDone(std::move(result));
  }
  void Break(uint64_t id) {
    if (const auto observer = Take(id)) observer->OnDone(Fail(ErrorCode::kInternal, "broken"));
  }

  std::vector<GenerationRequest> requests;
  std::optional<SampledToken> end_token;
  int refuse_after = -1;
  ErrorCode refusal = ErrorCode::kExhausted;
  std::atomic<int> num_cancelled = 0;

 private:
  std::shared_ptr<RequestObserver> Take(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = observers_.find(id);
    if (found == observers_.end()) return nullptr;
    std::shared_ptr<RequestObserver> observer = std::move(found->second);
    observers_.erase(found);
    return observer;
  }

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<RequestObserver>> observers_;
  uint64_t last_id_ = 0;
};

template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class ServiceTest : public ::testing::Test {
 protected:
  void StartWith(ServiceConfig config) {
    server_.reset();
    service_ = std::make_unique<Service>(
        std::move(config), ServiceWorld{.clock = clock_,
                                        .unix_seconds = [] { return int64_t{1'700'000'000}; },
                                        .local_time = [] { return CivilTime{}; },
                                        .random = [] { return uint64_t{42}; },
                                        .write_log =
                                            [this](const std::string& lines) {
                                              const std::lock_guard lock(log_mutex_);
                                              log_ += lines;
                                            }});
    auto server = HttpServer::Listen({}, *service_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    service_->SetServer(*server_);
    server_->Start();
  }
  void SetUp() override {
    StartWith({});
    SetModel();
  }
  void SetModel() { service_->SetModel({.text = words_.model, .backend = backend_}); }

  static std::string Head(const std::string& method, const std::string& path,
                          const std::string& fields) {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string PostText(const std::string& path, const std::string& body) {
    return Head("POST", path, "Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  }
  // The answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    TestHttpClient client(server_->port());
    EXPECT_TRUE(client.Send(request));
    const std::string text = client.ReadUntil("\r\n\r\n");
    const size_t at = text.find("Content-Length: ");
    if (at == std::string::npos || request.starts_with("HEAD")) return text;
    return text + client.ReadBytes(std::stoul(text.substr(at + 16)));
  }
  static Json BodyOf(const std::string& text) {
    return Json::parse(text.substr(text.find("\r\n\r\n") + 4));
  }
  // Sends a call and waits until the engine has so many requests more.
  std::unique_ptr<TestHttpClient> Call(const std::string& path, const std::string& body,
                                       size_t num_choices) {
    const size_t before = backend_.num_requests();
    auto client = std::make_unique<TestHttpClient>(server_->port());
    EXPECT_TRUE(client->Send(PostText(path, body)));
    EXPECT_TRUE(Eventually([&] { return backend_.num_requests() == before + num_choices; }));
    return client;
  }
  std::string Log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  TestWords words_;
  SteadyClock clock_;
  std::mutex log_mutex_;
  std::string log_;
  ScriptedBackend backend_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
};

const std::string kChat = "/v1/chat/completions";
const std::string kHi = R"("messages":[{"role":"user","content":"hi"}])";

TEST_F(ServiceTest, AWholeAnswer) {
  const auto client = Call(kChat, "{" + kHi + R"(,"seed":5,"max_tokens":9,"stop":"x"})", 1);
  EXPECT_EQ(backend_.requests[0].sampling.seed, 5u);
  EXPECT_EQ(backend_.requests[0].max_tokens, 9);
  EXPECT_EQ(backend_.requests[0].stop_strings, std::vector<std::string>{"x"});
  backend_.Say(1, "Good ");
  backend_.Say(1, "day");
  backend_.End(1, StopReason::kStopString);
  const std::string text = client->ReadUntil("}}}");
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"));
  const Json json = BodyOf(text);
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["created"], 1'700'000'000);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Good day");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"].dump(), R"({"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
                                  R"("prompt_tokens_details":{"cached_tokens":4}})");
  ASSERT_TRUE(Eventually([&] { return !Log().empty(); }));
  const Json line = Json::parse(Log());
  EXPECT_EQ(line["phase"], "done");
  EXPECT_EQ(line["prompt_tokens"], 10);
}

// How the prompt is read arrives, what cannot be is refused in the field's name, and the answer and
// the metrics say how it was read.
TEST_F(ServiceTest, HowThePromptIsRead) {
  const std::string refused = Ask(PostText(kChat, "{" + kHi + R"(,"prefill":"auto"})"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(BodyOf(refused)["error"]["param"], "prefill");
  EXPECT_EQ(BodyOf(refused)["error"]["message"], "the model is not tuned");
  const auto client =
      Call(kChat, "{" + kHi + R"(,"prefill":"sparse","sparse":"rule=share:0.5"})", 1);
  EXPECT_EQ(backend_.requests[0].prefill.mode, PrefillMode::kSparse);
  ASSERT_TRUE(backend_.requests[0].prefill.policy);
  EXPECT_EQ(backend_.requests[0].prefill.policy->share, 0.5);
  GenerationResult result;
  result.stop_reason = StopReason::kLength;
  result.figures.generated_tokens = 1;
  result.figures.prefill_policy = "rule=share:0.5,1";
  result.figures.prefill = PrefillReport{.layers = {{.kept = 1, .candidates = 4}, {}},
                                         .times = {.score = 2'000'000'000, .attend = 500'000'000}};
  backend_.Finish(1, std::move(result));
  const Json prefill = BodyOf(client->ReadUntil("}}]}}"))["baton"]["prefill"];
  ASSERT_EQ(prefill.size(), 1u);
  EXPECT_EQ(prefill[0]["policy"], "rule=share:0.5,1");
  EXPECT_EQ(prefill[0]["density"], 0.25);
  EXPECT_EQ(prefill[0]["layer_densities"].dump(), "[0.25,1.0]");
  EXPECT_EQ(prefill[0]["thread_seconds"]["score"], 2.0);
  const std::string metrics = Ask(Head("GET", "/metrics", ""));
  EXPECT_THAT(metrics, HasSubstr("baton_prefills_total{policy=\"sparse\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("baton_prefills_total{policy=\"dense\"} 0"));
  EXPECT_THAT(metrics, HasSubstr("baton_sparse_prefill_blocks_total{state=\"read\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("baton_sparse_prefill_blocks_total{state=\"skipped\"} 3"));
  EXPECT_THAT(metrics,
              HasSubstr("baton_sparse_prefill_thread_seconds_total{stage=\"attend\"} 0.5"));
}

// The events of a stream without the fields that all have.
std::vector<std::string> EventsOf(const std::string& text) {
  std::vector<std::string> events;
  size_t at = 0;
  while ((at = text.find("data: ", at)) != std::string::npos) {
    const size_t end = text.find("\n\n", at);
    const std::string data = text.substr(at + 6, end - at - 6);
    at = end;
    if (data == "[DONE]") {
      events.push_back(data);
      continue;
    }
    Json json = Json::parse(data);
    for (const char* name : {"id", "object", "created", "model", "system_fingerprint"}) {
      json.erase(name);
    }
    events.push_back(json.dump());
  }
  return events;
}

TEST_F(ServiceTest, AStreamWithUsage) {
  const auto client =
      Call(kChat,
           "{" + kHi +
               R"(,"stream":true,"stream_options":{"include_usage":true},"return_progress":true})",
           1);
  backend_.Find(1)->OnPrefill(6, 6);
  backend_.Say(1, "Good ");
  backend_.Say(1, "day");
  backend_.End(1, StopReason::kLength);
  const std::string text = client->ReadUntil("[DONE]\n\n\r\n0\r\n\r\n");
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream\r\n"));
  // The prompt of "hi" has 41 tokens, of which the engine computed 6.
  EXPECT_EQ(
      EventsOf(text),
      (std::vector<std::string>{
          R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},)"
          R"("logprobs":null,"finish_reason":null}]})",
          R"({"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],)"
          R"("prompt_progress":{"total":)" +
              std::to_string(backend_.requests[0].prompt.size()) + R"(,"cached":)" +
              std::to_string(backend_.requests[0].prompt.size() - 6) + R"(,"processed":)" +
              std::to_string(backend_.requests[0].prompt.size()) + "}}",
          R"({"choices":[{"index":0,"delta":{"content":"Good "},"logprobs":null,)"
          R"("finish_reason":null}]})",
          R"({"choices":[{"index":0,"delta":{"content":"day"},"logprobs":null,)"
          R"("finish_reason":null}]})",
          R"({"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]})",
          R"({"choices":[],"timings":{"queue_seconds":0.0,"first_token_seconds":0.0,)"
          R"("prefill_seconds":0.0,"decode_seconds":0.0},"usage":{"prompt_tokens":10,"completion_tokens":3,)"
          R"("total_tokens":13,"prompt_tokens_details":{"cached_tokens":4}}})",
          "[DONE]"}));
}

TEST_F(ServiceTest, ChoicesOfSeveralPrompts) {
  const auto client = Call("/v1/completions",
                           R"({"prompt":["a","b"],"n":2,"echo":true,"seed":3,"stream":true})", 4);
  for (uint64_t id = 4; id >= 1; --id) {
    backend_.Say(id, std::to_string(id));
    backend_.End(id, StopReason::kEndToken);
  }
  const std::vector<std::string> events = EventsOf(client->ReadUntil("[DONE]\n\n\r\n0\r\n\r\n"));
  ASSERT_EQ(events.size(), 13u);
  EXPECT_EQ(events[0],
            R"({"choices":[{"index":3,"text":"b","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(events[1],
            R"({"choices":[{"index":3,"text":"4","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(events[2],
            R"({"choices":[{"index":3,"text":"","logprobs":null,"finish_reason":"stop"}]})");
  EXPECT_EQ(backend_.requests[0].sampling.seed, 3u);
  EXPECT_EQ(backend_.requests[2].sampling.seed, 3u);
  EXPECT_EQ(backend_.requests[1].sampling.seed, backend_.requests[3].sampling.seed);
  EXPECT_NE(backend_.requests[1].sampling.seed, 3u);
  // Usage counts each prompt once.
  const auto whole = Call("/v1/completions", R"({"prompt":["a","b"],"n":2,"echo":true})", 4);
  for (uint64_t id = 5; id <= 8; ++id) {
    backend_.Say(id, std::to_string(id));
    backend_.End(id, StopReason::kEndToken);
  }
  const Json json = BodyOf(whole->ReadUntil("}}}"));
  EXPECT_EQ(json["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
  EXPECT_EQ(json["choices"][0]["text"], "a5");
  EXPECT_EQ(json["choices"][3]["text"], "b8");
}

TEST_F(ServiceTest, LogprobsInBothShapes) {
  SampledToken token;
  token.id = kTestFirstByte + 'A';
  token.has_logprobs = true;
  token.raw_logprob = -0.5;
  token.raw_top = {{.id = kTestFirstByte + 0xC3, .logprob = -0.25}};
  const auto chat = Call(kChat, "{" + kHi + R"(,"logprobs":true,"top_logprobs":1})", 1);
  EXPECT_EQ(backend_.requests[0].sampling.num_top_logprobs, 1);
  backend_.Find(1)->OnToken(token);
  backend_.Say(1, "A");
  backend_.End(1, StopReason::kLength);
  EXPECT_EQ(BodyOf(chat->ReadUntil("}}}"))["choices"][0]["logprobs"].dump(),
            R"({"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":)"
            "[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-0.25,\"bytes\":[195]}]}],\"refusal\":null}");
  const auto plain = Call("/v1/completions", R"({"prompt":"x","logprobs":1,"stream":true})", 1);
  for (int i = 0; i < 2; ++i) {
    backend_.Find(2)->OnToken(token);
    backend_.Say(2, "A");
  }
  backend_.End(2, StopReason::kLength);
  const std::vector<std::string> events = EventsOf(plain->ReadUntil("[DONE]"));
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["logprobs"].dump(),
            "{\"tokens\":[\"A\"],\"token_logprobs\":[-0.5],"
            "\"top_logprobs\":[{\"\xEF\xBF\xBD\":-0.25,\"A\":-0.5}],\"text_offset\":[1]}");
}

SampledToken Scored(TokenId id, double logprob) {
  SampledToken token;
  token.id = id;
  token.has_logprobs = true;
  token.raw_logprob = logprob;
  return token;
}

// The prompt's tokens stand before the answer's. The first follows nothing; the BOS is no part of
// the text; an end token is told, though it has no text; what cannot follow has a number, too.
TEST_F(ServiceTest, AnEchoWithLogprobs) {
  const double impossible = -std::numeric_limits<double>::infinity();
  SampledToken bos;
  bos.id = kTestBos;
  const std::vector<SampledToken> prompt = {bos, Scored(kTestFirstByte + 'A', -0.5),
                                            Scored(kTestFirstByte + 0xC3, impossible),
                                            Scored(kTestFirstByte + 0xA9, -0.25)};
  backend_.end_token = Scored(kTestEnd, -1);
  const std::string fields = R"({"prompt":"A\u00e9","logprobs":0,"echo":true)";
  const std::string mark = "\xEF\xBF\xBD";
  const auto whole = Call("/v1/completions", fields + "}", 1);
  EXPECT_TRUE(backend_.requests[0].prompt_logprobs);
  backend_.Find(1)->OnPrompt(prompt);
  backend_.Find(1)->OnToken(Scored(kTestFirstByte + 'B', -2));
  backend_.Say(1, "B");
  backend_.End(1, StopReason::kEndToken);
  const Json choice = BodyOf(whole->ReadUntil("}}}"))["choices"][0];
  EXPECT_EQ(choice["text"],
            "A\xC3\xA9"
            "B");
  const Json& told = choice["logprobs"];
  EXPECT_EQ(told["tokens"], Json({"<s>", "A", mark, mark, "B", "<|im_end|>"}));
  EXPECT_EQ(told["token_logprobs"], Json({nullptr, -0.5, -9999.0, -0.25, -2.0, -1.0}));
  EXPECT_EQ(told["text_offset"], Json({0, 0, 1, 2, 2, 3}));
  EXPECT_EQ(told["top_logprobs"][0], nullptr);
  EXPECT_EQ(told["top_logprobs"][1], Json({{"A", -0.5}}));
  // In a stream the echo comes with them, first.
  const auto stream = Call("/v1/completions", fields + R"(,"stream":true})", 1);
  backend_.Find(2)->OnPrompt(prompt);
  backend_.Find(2)->OnToken(Scored(kTestFirstByte + 'B', -2));
  backend_.Say(2, "B");
  backend_.End(2, StopReason::kEndToken);
  Json joined = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
  std::string text;
  for (const std::string& event : EventsOf(stream->ReadUntil("[DONE]"))) {
    if (event == "[DONE]") break;
    const Json piece = Json::parse(event)["choices"][0];
    text += piece["text"];
    if (piece["logprobs"].is_null()) continue;
    for (auto& [name, list] : joined.items()) {
      for (const Json& item : piece["logprobs"][name]) list.push_back(item);
    }
  }
  EXPECT_EQ(text, choice["text"]);
  EXPECT_EQ(joined, told);
}

TEST_F(ServiceTest, CutCharactersAreTheSameInBothForms) {
  for (const bool stream : {false, true}) {
    const uint64_t id = stream ? 2 : 1;
    const auto client = Call(kChat, "{" + kHi + (stream ? R"(,"stream":true})" : "}"), 1);
    backend_.Say(id, "caf\xc3\xa9 ");
    backend_.Say(id, "\xf0\x9f\xa6");
    backend_.End(id, StopReason::kLength);
    const std::string text = client->ReadUntil(stream ? "[DONE]" : "}}}");
    std::string joined;
    if (!stream) {
      joined = BodyOf(text)["choices"][0]["message"]["content"];
    } else {
      const std::vector<std::string> events = EventsOf(text);
      for (size_t i = 0; i + 1 < events.size(); ++i) {
        joined += Json::parse(events[i])["choices"][0]["delta"].value("content", "");
      }
    }
    EXPECT_EQ(joined, "caf\xc3\xa9 \xEF\xBF\xBD");
  }
}

TEST_F(ServiceTest, ErrorsBeforeAndAfterTheFirstByte) {
  const auto before = Call(kChat, "{" + kHi + R"(,"stream":true})", 1);
  backend_.Break(1);
  const std::string refused = before->ReadUntil("}}");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(BodyOf(refused)["error"]["message"], "broken");

  const auto after = Call(kChat, "{" + kHi + R"(,"stream":true})", 1);
  backend_.Say(2, "Good ");
  backend_.Break(2);
  const std::string text = after->ReadAll();
  EXPECT_TRUE(after->closed());
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 "));
  const std::vector<std::string> events = EventsOf(text);
  EXPECT_THAT(events.back(), StartsWith(R"({"error":{"message":"broken","type":"server_error",)"));
  EXPECT_THAT(text, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(text, Not(HasSubstr("\"finish_reason\":\"")));

  // One choice of several: the others are given up.
  const auto several = Call(kChat, "{" + kHi + R"(,"n":3})", 3);
  backend_.Break(4);
  EXPECT_THAT(several->ReadUntil("}}"), StartsWith("HTTP/1.1 500 "));
  EXPECT_TRUE(Eventually([&] { return backend_.num_cancelled == 2; }));
  EXPECT_THAT(Log(), HasSubstr("\"cause\":\"internal\""));
}

TEST_F(ServiceTest, AFullQueueIsSaidAtOnce) {
  backend_.refuse_after = 1;
  const std::string text = Ask(PostText(kChat, "{" + kHi + R"(,"n":2})"));
  EXPECT_THAT(text, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(text, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_EQ(BodyOf(text)["error"]["code"], "queue_full");
  // The choice that was taken is given back.
  EXPECT_TRUE(Eventually([&] { return backend_.num_cancelled == 1; }));
  // It is no fault of the engine, and the books do not say so.
  EXPECT_TRUE(Eventually([&] { return Log().find("queue_full") != std::string::npos; }));
  EXPECT_THAT(Log(), HasSubstr("\"phase\":\"refused\",\"cause\":\"queue_full\""));
  const std::string metrics = Ask(Head("GET", "/metrics", ""));
  EXPECT_THAT(metrics, HasSubstr("baton_requests_total{outcome=\"refused\"} 1"));
  EXPECT_THAT(metrics, Not(HasSubstr("outcome=\"error\"")));
}

TEST_F(ServiceTest, WhatTheQueueCanNeverHoldIsNotSentAway) {
  StartWith({});
  service_->SetModel(
      {.text = words_.model, .backend = backend_, .queue = {.max_requests = 2, .max_tokens = 20}});
  const auto refused = [&](const std::string& path, const std::string& body) {
    const std::string text = Ask(PostText(path, body));
    EXPECT_THAT(text, StartsWith("HTTP/1.1 400 ")) << body;
    return BodyOf(text)["error"];
  };
  const Json choices = refused("/v1/completions", R"({"prompt":"a","n":3})");
  EXPECT_EQ(choices["param"], "n");
  EXPECT_THAT(choices["message"].get<std::string>(), HasSubstr("3 choices are more than the 2"));
  EXPECT_EQ(refused("/v1/completions", R"({"prompt":["a","b","c"]})")["param"], "prompt");
  // BOS and ten letters, twice.
  const Json tokens = refused("/v1/completions", R"({"prompt":"abcdefghij","n":2})");
  EXPECT_THAT(tokens["message"].get<std::string>(), HasSubstr("22 tokens together"));
  EXPECT_EQ(refused(kChat, "{" + kHi + "}")["param"], "messages");
  EXPECT_EQ(backend_.num_requests(), 0u);
  const auto fits = Call("/v1/completions", R"({"prompt":"abcdefghi","n":1})", 1);
}

TEST_F(ServiceTest, AModelOfAnyNameIsFound) {
  TextModel model = words_.model;
  model.id = "org/My model \xc3\xa9%2F";
  StartWith({});
  service_->SetModel({.text = model, .backend = backend_});
  // As the clients of the API write it.
  const std::string found = Ask(Head("GET", "/v1/models/org%2FMy%20model%20%C3%a9%252F", ""));
  EXPECT_THAT(found, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(found)["id"], model.id);
  for (const char* other : {"org%2fMy", "org/My%20model%20%C3%A9%252F", "%", "%2", "%zz"}) {
    EXPECT_THAT(Ask(Head("GET", std::string("/v1/models/") + other, "")),
                StartsWith("HTTP/1.1 404 "))
        << other;
  }
}

TEST_F(ServiceTest, EveryLimitIsPrinted) {
  const std::string text = ToText(ServiceConfig{.keep_alive_ms = 77});
  for (const char* line : {"keep_alive_ms = 77\n", "max_choices = 128\n", "max_stops = 1024\n",
                           "max_json_depth = 64\n", "max_json_keys = 256\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(ServiceTest, AClientThatIsGoneCostsNothing) {
  for (const char* stream : {"false", "true"}) {
    backend_.num_cancelled = 0;
    auto client = Call(kChat, "{" + kHi + R"(,"n":2,"stream":)" + stream + "}", 2);
    client->Close();
    EXPECT_TRUE(Eventually([&] { return backend_.num_cancelled == 2; }));
  }
  EXPECT_TRUE(Eventually([&] { return Log().find("client_gone") != std::string::npos; }));
  EXPECT_THAT(Ask(Head("GET", "/metrics", "")),
              HasSubstr("baton_requests_total{outcome=\"client_gone\"} 2"));
}

TEST_F(ServiceTest, AStreamWithNothingToSaySaysSo) {
  StartWith({.keep_alive_ms = 30});
  SetModel();
  const auto client = Call(kChat, "{" + kHi + R"(,"stream":true})", 1);
  EXPECT_THAT(client->ReadUntil(": keep-alive\n\n\r\n"), HasSubstr("text/event-stream"));
  EXPECT_THAT(client->ReadUntil(": keep-alive\n\n\r\n"), EndsWith(": keep-alive\n\n\r\n"));
  backend_.End(1, StopReason::kEndToken);
  EXPECT_THAT(client->ReadUntil("[DONE]"), EndsWith("data: [DONE]"));
}

TEST_F(ServiceTest, RoutesMethodsAndModels) {
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("HEAD", "/readyz", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/v1/models", "")))["data"][0]["id"], "tiny");
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/v1/models/tiny", "")))["max_model_len"], 256);
  EXPECT_THAT(Ask(Head("GET", "/v1/models/huge", "")), StartsWith("HTTP/1.1 404 "));
  for (const char* path :
       {"/page", "/page/", "/v1", "/v1/chat/completions/", "/v1//models", "/V1/models",
        "/v1%2fmodels", "/v1/models/", "/v1/models/../x", "/etc/passwd", "/v1/models/a/b"}) {
    EXPECT_THAT(Ask(Head("GET", path, "")), StartsWith("HTTP/1.1 404 ")) << path;
  }
  const std::string wrong = Ask(Head("GET", kChat, ""));
  EXPECT_THAT(wrong, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(wrong, HasSubstr("Allow: POST, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("OPTIONS", kChat, "")), HasSubstr("Allow: POST, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("OPTIONS", "/livez", "")), HasSubstr("Allow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("TRACE", "/livez", "")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(Head("DELETE", "/v1/models", "")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(Head("GET", "/livez?x=1", "")), StartsWith("HTTP/1.1 200 "));
  const std::string other = Ask(PostText(kChat, "{" + kHi + R"(,"model":"gpt-4"})"));
  EXPECT_THAT(other, StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(BodyOf(other)["error"]["code"], "model_not_found");
  const std::string bad = Ask(PostText(kChat, "{" + kHi + R"(,"n":0})"));
  EXPECT_THAT(bad, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(BodyOf(bad)["error"]["param"], "n");
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), HasSubstr("\"error\":{\"message\":"));
}

TEST_F(ServiceTest, TheDescriptionHasEveryRoute) {
  const Json api = BodyOf(Ask(Head("GET", "/openapi.json", "")));
  EXPECT_EQ(api["openapi"], "3.1.0");
  for (const RouteRow& row : Routes()) {
    const std::string path = row.route == Route::kModel ? "/v1/models/{id}" : std::string(row.path);
    ASSERT_TRUE(api["paths"].contains(path)) << path;
    EXPECT_TRUE(api["paths"][path].contains(row.is_post ? "post" : "get")) << path;
  }
  EXPECT_EQ(api["paths"].size(), Routes().size());
}

TEST_F(ServiceTest, TheStatusListsWhatRunsAndWhatWaits) {
  const Json status = BodyOf(Ask(Head("GET", "/status", "")));
  EXPECT_EQ(status["state"], "ok");
  EXPECT_EQ(status["model"], "tiny");
  EXPECT_EQ(status["running"], 1);
  EXPECT_EQ(status["waiting"], 3);
  ASSERT_EQ(status["requests"].size(), 2u);
  EXPECT_EQ(status["requests"][0]["id"], "chatcmpl-1");
  EXPECT_EQ(status["requests"][0]["phase"], "prefill");
  EXPECT_EQ(status["requests"][1]["phase"], "waiting");
  EXPECT_EQ(status["kv"].dump(), R"({"block_tokens":0,"blocks":9,"owned":0,"cached":2,"free":7})");
  // What the description promises is there.
  const Json schema =
      BodyOf(Ask(Head("GET", "/openapi.json", "")))["components"]["schemas"]["Status"];
  for (const auto& [name, property] : schema["properties"].items()) {
    ASSERT_TRUE(status.contains(name)) << name;
    if (!property.contains("required")) continue;
    for (const Json& inner : property["required"]) {
      EXPECT_TRUE(status[name].contains(inner.get<std::string>())) << name << " " << inner;
    }
  }
  for (const Json& name : schema["properties"]["requests"]["items"]["required"]) {
    EXPECT_TRUE(status["requests"][1].contains(name.get<std::string>())) << name;
  }
  EXPECT_EQ(status.size(), schema["properties"].size());
}

TEST_F(ServiceTest, TheStatusBeforeThereIsAModel) {
  StartWith({.api_keys = {"k"}});
  EXPECT_THAT(Ask(Head("GET", "/status", "")), StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/status", "Authorization: Bearer k\r\n"))).dump(),
            R"({"state":"loading","model":"","context_tokens":0})");
}

TEST_F(ServiceTest, ThePageIsForEverybodyAndTakesNothingFromElsewhere) {
  StartWith({.api_keys = {"k"}});
  const std::string page = Ask(Head("GET", "/", ""));
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none';"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  const size_t at = page.find("ETag: ") + 6;
  const std::string tag = page.substr(at, page.find('\r', at) - at);
  for (const std::string& given : {tag, "W/" + tag, "\"a\", " + tag, std::string("*")}) {
    const std::string same = Ask(Head("GET", "/", "If-None-Match: " + given + "\r\n"));
    EXPECT_THAT(same, StartsWith("HTTP/1.1 304 Not Modified\r\n"));
    EXPECT_THAT(same, HasSubstr("ETag: " + tag));
    EXPECT_THAT(same, Not(HasSubstr("Content-Length")));
  }
  EXPECT_THAT(Ask(Head("GET", "/", "If-None-Match: \"a\"\r\n")), StartsWith("HTTP/1.1 200 "));
  for (const PageFile& file : PageFiles()) {
    const std::string text = Ask(Head("GET", std::string(file.path), ""));
    EXPECT_THAT(text, HasSubstr("Content-Type: " + std::string(file.type) + "\r\n"));
    EXPECT_EQ(text.substr(text.find("\r\n\r\n") + 4), file.bytes) << file.path;
    // The files name each other, and nothing else.
    for (const char* scheme : {"src=\"http", "href=\"http", "url(", "import('http", "from 'http"}) {
      EXPECT_EQ(file.bytes.find(scheme), std::string_view::npos) << file.path << " " << scheme;
    }
  }
  EXPECT_THAT(Ask(Head("HEAD", "/", "")), HasSubstr("Content-Length: "));
  EXPECT_THAT(Ask(PostText("/", "{}")), StartsWith("HTTP/1.1 405 "));
}

// A template of our own that teaches calls in tags, and shows calls and results.
constexpr const char* kToolTemplate =
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    "{% if tools %}Call with <tool_call>{% endif %}"
    "{% for m in messages %}{{ m.role }}={{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}!{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %};{% endfor %}";
const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}])";

class ToolServiceTest : public ServiceTest {
 protected:
  void SetUp() override {
    words_.chat_template = *ChatTemplate::FromSource(kToolTemplate);
    words_.model.context_tokens = 2048;
    ServiceTest::SetUp();
  }
  std::string PromptOf(size_t index) {
    std::string text =
        *words_.tokenizer.Decode(backend_.requests[index].prompt, {.skip_special = false});
    // The vocabulary of bytes spells spaces as SentencePiece does.
    const std::string space = "\xE2\x96\x81";
    for (size_t at = text.find(space); at != text.npos; at = text.find(space)) {
      text.replace(at, space.size(), " ");
    }
    return text;
  }
};

TEST_F(ToolServiceTest, CallsAreCallsInWholeAnswersAndStreams) {
  const std::vector<std::string> pieces = {"I add",
                                           ".\n<tool",
                                           R"(_call>{"name":"add","argum)",
                                           R"(ents":{"a":1}}</tool_call>)",
                                           "\n<tool_call>",
                                           R"({"name":"add"})"};
  const auto whole = Call(kChat, "{" + kHi + "," + kTools + "}", 1);
  EXPECT_THAT(PromptOf(0), HasSubstr("[add]Call with <tool_call>user=hi;"));
  for (const std::string& piece : pieces) backend_.Say(1, piece);
  backend_.End(1, StopReason::kEndToken);
  const Json answer = BodyOf(whole->ReadUntil("}}}"))["choices"][0];
  EXPECT_EQ(answer["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["message"]["content"], "I add.");
  const Json calls = answer["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"].dump(), R"({"name":"add","arguments":"{\"a\":1}"})");
  EXPECT_EQ(calls[1]["function"].dump(), R"({"name":"add","arguments":"{}"})");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);

  const auto stream = Call(kChat, "{" + kHi + "," + kTools + R"(,"stream":true})", 1);
  for (const std::string& piece : pieces) backend_.Say(2, piece);
  backend_.End(2, StopReason::kEndToken);
  const std::string text = stream->ReadUntil("[DONE]");
  std::string content;
  Json streamed = Json::array();
  Json reason;
  for (size_t at = text.find("data: {"); at != text.npos; at = text.find("data: {", at + 1)) {
    const Json choice =
        Json::parse(text.substr(at + 6, text.find("\n\n", at) - at - 6))["choices"][0];
    content += choice["delta"].value("content", "");
    for (Json call : choice["delta"].value("tool_calls", Json::array())) {
      EXPECT_EQ(call["index"], streamed.size());
      call.erase("index");
      streamed.push_back(call);
    }
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
  }
  EXPECT_EQ(content, "I add.");
  // The ids are made of the answer's, which tests do not change.
  EXPECT_EQ(streamed, calls);
  EXPECT_EQ(reason, "tool_calls");
}

TEST_F(ToolServiceTest, WhatIsNoCallStaysText) {
  const std::string said = R"( <tool_call>{"name":"sub","arguments":{}}</tool_call> )";
  const auto unknown = Call(kChat, "{" + kHi + "," + kTools + "}", 1);
  backend_.Say(1, said);
  backend_.End(1, StopReason::kEndToken);
  const Json answer = BodyOf(unknown->ReadUntil("}}}"))["choices"][0];
  EXPECT_EQ(answer["message"]["content"], said);
  EXPECT_FALSE(answer["message"].contains("tool_calls"));
  EXPECT_EQ(answer["finish_reason"], "stop");
  // Without tools, or with "none", nobody looks for calls.
  for (const std::string& fields : {std::string(), "," + kTools + R"(,"tool_choice":"none")"}) {
    const size_t index = backend_.num_requests();
    const auto plain = Call(kChat, "{" + kHi + fields + "}", 1);
    EXPECT_EQ(PromptOf(index), "<s>user=hi;");
    const std::string call = R"(<tool_call>{"name":"add"}</tool_call>)";
    backend_.Say(index + 1, call);
    backend_.End(index + 1, StopReason::kEndToken);
    EXPECT_EQ(BodyOf(plain->ReadUntil("}}}"))["choices"][0]["message"]["content"], call);
  }
  // A call that a limit cuts off is no call, and the reason stays.
  const auto cut = Call(kChat, "{" + kHi + "," + kTools + "}", 1);
  backend_.Say(4, R"(<tool_call>{"name":"add","argu)");
  backend_.End(4, StopReason::kLength);
  EXPECT_EQ(BodyOf(cut->ReadUntil("}}}"))["choices"][0]["finish_reason"], "length");
}

TEST_F(ToolServiceTest, CallsAndTheirResultsGoBackToTheModel) {
  const auto client = Call(
      kChat,
      R"({"messages":[{"role":"user","content":"1+1?"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"add",)"
      R"("arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"abcdefghi","content":"2"}]})",
      1);
  EXPECT_THAT(PromptOf(0), HasSubstr(R"(user=1+1?;assistant=!add{"a": 1};tool=2;)"));
  const std::string bad =
      Ask(PostText(kChat, R"({"messages":[{"role":"user","content":"x","tool_calls":[{}]}]})"));
  EXPECT_EQ(BodyOf(bad)["error"]["param"], "messages[0].tool_calls");
  const std::string broken = Ask(PostText(
      kChat,
      R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":7}}]}]})"));
  EXPECT_EQ(BodyOf(broken)["error"]["param"], "messages[0].tool_calls[0].function.arguments");
}

TEST_F(ServiceTest, AModelThatKnowsNoToolsSaysSo) {
  const std::string refused = Ask(PostText(kChat, "{" + kHi + "," + kTools + "}"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(BodyOf(refused)["error"]["code"], "tools_not_supported");
  EXPECT_THAT(refused, HasSubstr("does not know tools"));
}

TEST_F(ServiceTest, TokensThereAndBack) {
  EXPECT_EQ(
      BodyOf(Ask(PostText("/tokenize", R"({"content":"A<|im_end|>","add_special":true})"))).dump(),
      R"({"tokens":[1,70,4]})");
  EXPECT_EQ(BodyOf(Ask(PostText("/tokenize", R"({"content":"é","with_pieces":true})")))["tokens"][0]
                .dump(),
            R"({"id":200,"piece":[195]})");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[70,200]})"))).dump(),
            "{\"content\":\"A\xEF\xBF\xBD\"}");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[]})"))).dump(), R"({"content":""})");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[261]})")))["error"]["param"],
            "tokens");
  EXPECT_EQ(BodyOf(Ask(PostText("/tokenize", R"({"content":5})")))["error"]["param"], "content");
}

TEST_F(ServiceTest, KeysGuardEveryRouteButTheProbes) {
  StartWith({.api_keys = {"key-1"}});
  SetModel();
  for (const RouteRow& row : Routes()) {
    const std::string method = row.is_post ? "POST" : "GET";
    const std::string answer =
        Ask(Head(method, std::string(row.path), row.is_post ? "Content-Length: 2\r\n" : ""));
    EXPECT_THAT(answer, StartsWith(row.is_open ? "HTTP/1.1 200 " : "HTTP/1.1 401 ")) << row.path;
  }
  for (const char* path : {"/nothing", "/v1%2fmodels", "//v1/models", "/v1/models/", "/V1/models",
                           "/v1/models?key=key-1"}) {
    EXPECT_THAT(Ask(Head("GET", path, "")), StartsWith("HTTP/1.1 401 ")) << path;
  }
  EXPECT_THAT(Ask(Head("HEAD", "/v1/models", "")), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask(Head("GET", "/v1/models", "Authorization: Bearer key-1\r\n")),
              StartsWith("HTTP/1.1 200 "));
  // A browser's question before the request comes without the key.
  const std::string preflight = Ask(Head("OPTIONS", kChat, "Origin: https://other.example\r\n"));
  EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(preflight, Not(HasSubstr("Access-Control")));
  EXPECT_THAT(Ask(Head("POST", kChat,
                       "Origin: https://other.example\r\nAuthorization: Bearer key-1\r\n"
                       "Content-Length: 2\r\n")),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Log(), Not(HasSubstr("key-1")));
}

TEST_F(ServiceTest, AllowedPagesSeeEveryAnswer) {
  StartWith({.origins = {.origins = {"https://chat.example"}, .hosts = {}}});
  SetModel();
  const std::string origin = "Origin: https://chat.example\r\n";
  const std::string allow = "Access-Control-Allow-Origin: https://chat.example\r\n";
  EXPECT_THAT(Ask(Head("OPTIONS", kChat, origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("GET", "/v1/models", origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("GET", "/nothing", origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("POST", kChat, origin + "Content-Length: 2\r\n") + "{}"), HasSubstr(allow));
  TestHttpClient client(server_->port());
  const std::string body = "{" + kHi + R"(,"stream":true})";
  ASSERT_TRUE(client.Send(
      Head("POST", kChat, origin + "Content-Length: " + std::to_string(body.size()) + "\r\n") +
      body));
  ASSERT_TRUE(Eventually([&] { return backend_.num_requests() == 1; }));
  backend_.Say(1, "x");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr(allow));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
}

TEST_F(ServiceTest, LoadingThenReadyThenDraining) {
  StartWith({});
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  for (const char* path : {"/readyz", "/health", "/v1/models"}) {
    const std::string answer = Ask(Head("GET", path, ""));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 ")) << path;
    EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n")) << path;
  }
  EXPECT_THAT(Ask(Head("GET", "/metrics", "")), HasSubstr("baton_kv_blocks{state=\"free\"} 0"));
  const std::string loading = Ask(PostText(kChat, "{" + kHi + "}"));
  EXPECT_THAT(loading, StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(BodyOf(loading)["error"]["code"], "loading");
  SetModel();
  EXPECT_THAT(Ask(Head("GET", "/readyz", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("GET", "/metrics", "")), HasSubstr("baton_kv_blocks{state=\"free\"} 7"));
  const auto running = Call(kChat, "{" + kHi + "}", 1);
  service_->Drain();
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("GET", "/readyz", "")), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(BodyOf(Ask(PostText(kChat, "{" + kHi + "}")))["error"]["code"], "draining");
  backend_.Say(1, "last");
  backend_.End(1, StopReason::kEndToken);
  EXPECT_THAT(running->ReadUntil("}}}"), HasSubstr("\"content\":\"last\""));
}

TEST_F(ServiceTest, WhoIsGivenUpByTheEngineIsToldSo) {
  const auto whole = Call(kChat, "{" + kHi + "}", 1);
  const auto stream = Call(kChat, "{" + kHi + R"(,"stream":true})", 1);
  backend_.Say(2, "half");
  backend_.Cancel(1);
  backend_.Cancel(2);
  EXPECT_THAT(whole->ReadUntil("}}"), StartsWith("HTTP/1.1 503 "));
  const std::string text = stream->ReadAll();
  EXPECT_THAT(EventsOf(text).back(), HasSubstr("\"code\":\"draining\""));
  EXPECT_THAT(text, Not(HasSubstr("[DONE]")));
}

}  // namespace
}  // namespace baton
