// Answers from call to last byte: real connections, scripted tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/test_service.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
