// The bodies of both kinds of call: what is taken, what is refused, and in whose name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/chat_call.h"
#include "serve/completion_call.h"
#include "serve/json_body.h"
#include "serve/unsupported_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

const CallLimits kLimits{.vocab_size = 100};

ApiResult<ChatCall> Chat(const std::string& fields) {
  const auto json = ParseJsonBody(R"({"messages":[{"role":"user","content":"hi"}])" +
                                  (fields.empty() ? "" : "," + fields) + "}");
  if (!json) return ForwardApi(json);
  return ReadChatCall(*json, kLimits);
}

ApiResult<ChatCall> ChatOf(const std::string& messages) {
  const auto json = ParseJsonBody("{\"messages\":" + messages + "}");
  if (!json) return ForwardApi(json);
  return ReadChatCall(*json, kLimits);
}

ApiResult<CompletionCall> Completion(const std::string& fields) {
  const auto json = ParseJsonBody("{" + fields + "}");
  if (!json) return ForwardApi(json);
  return ReadCompletionCall(*json, kLimits);
}

TEST(ApiCallsTest, DefaultsAreThoseOfTheApi) {
  const auto call = Chat("");
  ASSERT_TRUE(call);
  const SamplingParams& sampling = call->fields.sampling;
  EXPECT_EQ(sampling.temperature, 1.0);
  EXPECT_EQ(sampling.top_p, 1.0);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.0);
  EXPECT_FALSE(sampling.has_penalties());
  EXPECT_EQ(sampling.num_top_logprobs, std::nullopt);
  EXPECT_EQ(call->fields.max_tokens, std::nullopt);
  EXPECT_EQ(call->fields.seed, std::nullopt);
  EXPECT_EQ(call->fields.num_choices, 1);
  EXPECT_FALSE(call->fields.stream);
  EXPECT_TRUE(call->add_generation_prompt);
  const auto completion = Completion(R"("prompt":"x")");
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->fields.max_tokens, 16);
}

TEST(ApiCallsTest, EveryFieldArrives) {
  const auto call = Chat(
      R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"repetition_penalty":1.5,
         "frequency_penalty":-2,"presence_penalty":2,"logit_bias":{"99":-100,"0":2.5},"seed":-1,
         "stop":["a","bc"],"max_completion_tokens":9,"n":3,"logprobs":true,"top_logprobs":5,
         "stream":true,"stream_options":{"include_usage":true},"return_progress":true,
         "ignore_eos":true,"user":"somebody","made_up":{"x":[1]},"tools":[],"suffix":null)");
  ASSERT_TRUE(call) << call.error().message;
  const CallFields& fields = call->fields;
  EXPECT_EQ(fields.model, "m");
  EXPECT_EQ(fields.sampling.temperature, 0.5);
  EXPECT_EQ(fields.sampling.top_p, 0.9);
  EXPECT_EQ(fields.sampling.top_k, 7);
  EXPECT_EQ(fields.sampling.min_p, 0.1);
  EXPECT_EQ(fields.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(fields.sampling.frequency_penalty, -2.0);
  EXPECT_EQ(fields.sampling.presence_penalty, 2.0);
  ASSERT_EQ(fields.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(fields.sampling.logit_bias[0].token, 99);
  EXPECT_EQ(fields.sampling.logit_bias[0].bias, -100.0);
  EXPECT_EQ(fields.seed, ~uint64_t{0});
  EXPECT_EQ(fields.stops, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(fields.max_tokens, 9);
  EXPECT_EQ(fields.num_choices, 3);
  EXPECT_EQ(fields.sampling.num_top_logprobs, 5);
  EXPECT_TRUE(fields.stream);
  EXPECT_TRUE(fields.include_usage);
  EXPECT_TRUE(fields.return_progress);
  EXPECT_TRUE(fields.ignore_eos);
  EXPECT_EQ(Chat(R"("seed":18446744073709551615)")->fields.seed, ~uint64_t{0});
  EXPECT_EQ(Chat(R"("stop":"one")")->fields.stops, std::vector<std::string>{"one"});
  EXPECT_EQ(Chat(R"("top_k":-1)")->fields.sampling.top_k, 0);
  EXPECT_EQ(Chat(R"("logprobs":true)")->fields.sampling.num_top_logprobs, 0);
  EXPECT_EQ(Chat(R"("logprobs":false)")->fields.sampling.num_top_logprobs, std::nullopt);
  EXPECT_EQ(Chat(R"("max_tokens":4,"max_completion_tokens":4)")->fields.max_tokens, 4);
  EXPECT_TRUE(Chat(R"("temperature":null,"stop":null,"stream_options":null,"n":null,
                      "logit_bias":null,"max_tokens":null,"model":null,"seed":null)"));
  EXPECT_TRUE(Chat(R"("stop":[],"logit_bias":{},"response_format":{"type":"text"})"));
}

TEST(ApiCallsTest, HowThePromptIsRead) {
  EXPECT_EQ(Chat("")->fields.prefill.mode, PrefillMode::kDefault);
  EXPECT_EQ(Chat(R"("prefill":"dense","sparse":null)")->fields.prefill.mode, PrefillMode::kDense);
  EXPECT_EQ(Chat(R"("prefill":"auto")")->fields.prefill.mode, PrefillMode::kAuto);
  const auto sparse =
      Completion(R"("prompt":"x","prefill":"sparse","sparse":"rule=share:0.15 dense-layers=6,7")");
  ASSERT_TRUE(sparse) << sparse.error().message;
  EXPECT_EQ(sparse->fields.prefill.mode, PrefillMode::kSparse);
  ASSERT_TRUE(sparse->fields.prefill.policy);
  EXPECT_EQ(sparse->fields.prefill.policy->share, 0.15);
  EXPECT_EQ(sparse->fields.prefill.policy->dense_layers, (std::vector<int>{6, 7}));
  EXPECT_FALSE(Chat(R"("prefill":"sparse")")->fields.prefill.policy);
  // The sentence is that of the policy.
  const auto bad = Chat(R"("prefill":"sparse","sparse":"block=96")");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, testing::HasSubstr("block must be 64 or 128 tokens, got 96"));
}

// A field with something wrong, and its name.
struct BadCase {
  std::string fields;
  std::string param;
};

// Every case in both kinds of call.
void ExpectRefused(const std::vector<BadCase>& cases) {
  for (const BadCase& bad : cases) {
    const auto call = Chat(bad.fields);
    ASSERT_FALSE(call) << bad.fields;
    EXPECT_EQ(call.error().status, 400) << bad.fields;
    EXPECT_EQ(call.error().param, bad.param) << call.error().message;
    const auto completion = Completion("\"prompt\":\"x\"," + bad.fields);
    ASSERT_FALSE(completion) << bad.fields;
    EXPECT_EQ(completion.error().param, bad.param);
  }
}

TEST(ApiCallsTest, WrongNumbersAreRefusedByName) {
  ExpectRefused({{R"("prefill":"fast")", "prefill"},
                 {R"("prefill":1)", "prefill"},
                 {R"("sparse":"rule=all")", "sparse"},
                 {R"("prefill":"auto","sparse":"rule=all")", "sparse"},
                 {R"("prefill":"sparse","sparse":5)", "sparse"},
                 {R"("prefill":"sparse","sparse":"")", "sparse"},
                 {R"("prefill":"sparse","sparse":" \n")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=threshold:1.5")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=threshold:-1")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=threshold:nan")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=threshold:2 last=0")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=share:0")", "sparse"},
                 {R"("prefill":"sparse","sparse":"rule=share:1.5")", "sparse"},
                 {R"("prefill":"sparse","sparse":"window=0")", "sparse"},
                 {R"("prefill":"sparse","sparse":"tile=48")", "sparse"},
                 {R"("prefill":"sparse","sparse":"estimate=far:9")", "sparse"}});
  ExpectRefused({
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":1e10)", "temperature"},
      {R"("temperature":"0.5")", "temperature"},
      {R"("temperature":[])", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("top_p":-0.1)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":1e308)", "top_k"},
      {R"("min_p":2)", "min_p"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":-1)", "repetition_penalty"},
      {R"("frequency_penalty":2.1)", "frequency_penalty"},
      {R"("presence_penalty":true)", "presence_penalty"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":1.5)", "n"},
      {R"("n":1000000)", "n"},
      {R"("n":"2")", "n"},
      {R"("best_of":2)", "best_of"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":9223372036854775808)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"},
      {R"("max_completion_tokens":1.5)", "max_completion_tokens"},
      {R"("max_tokens":4,"max_completion_tokens":5)", "max_tokens"},
      {R"("seed":18446744073709551616)", "seed"},
      {R"("seed":"x")", "seed"},
  });
}

TEST(ApiCallsTest, WrongTypesAreRefusedByName) {
  ExpectRefused({
      {R"("stop":1)", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop":["a",null])", "stop"},
      {R"("stop":{"a":1})", "stop"},
      {R"("logit_bias":{"100":-5})", "logit_bias"},
      {R"("logit_bias":{"-1":5})", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{"01":1})", "logit_bias"},
      {R"("logit_bias":{"99999999999999999999":1})", "logit_bias"},
      {R"("logit_bias":{"12":1e30})", "logit_bias"},
      {R"("logit_bias":{"12":false})", "logit_bias"},
      {R"("logit_bias":{"12":null})", "logit_bias"},
      {R"("logit_bias":[[12,1],[12,1]])", "logit_bias"},
      {R"("logit_bias":[[12]])", "logit_bias"},
      {R"("logit_bias":[12])", "logit_bias"},
      {R"("logit_bias":[["12",[1]]])", "logit_bias"},
      {R"("logit_bias":{"12":[1]})", "logit_bias"},
      {R"("logit_bias":{"12":{"13":1}})", "logit_bias"},
      {R"("logit_bias":7)", "logit_bias"},
      {R"("stream":1)", "stream"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("return_progress":"yes")", "return_progress"},
      {R"("ignore_eos":0)", "ignore_eos"},
      {R"("model":7)", "model"},
      {R"("functions":[{}])", "functions"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":"json")", "response_format"},
      {R"("suffix":"x")", "suffix"},
  });
  const std::string many_stops = Json(std::vector<std::string>(1025, "a")).dump();
  EXPECT_EQ(Chat("\"stop\":" + many_stops).error().param, "stop");
  const std::string long_stop = Json(std::string(70'000, 'a')).dump();
  EXPECT_EQ(Chat("\"stop\":" + long_stop).error().param, "stop");
}

TEST(ApiCallsTest, ToolsAreChecked) {
  const std::pair<const char*, const char*> bad[] = {
      {R"("tools":{})", "tools"},
      {R"("tools":[7])", "tools[0]"},
      {R"("tools":[{"function":{"name":"f"}}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])",
       "tools[0].function.parameters"},
      {R"("tools":[{"type":"function","function":{"name":"f"}},)"
       R"({"type":"function","function":{"name":"f"}}])",
       "tools"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")",
       "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"parallel_tool_calls":false)",
       "parallel_tool_calls"},
  };
  for (const auto& [text, param] : bad) {
    const auto call = Chat(text);
    ASSERT_FALSE(call) << text;
    EXPECT_EQ(call.error().param, param) << text;
    EXPECT_EQ(call.error().status, 400) << text;
  }
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(Chat(tools)->tools.names, std::vector<std::string>{"f"});
  EXPECT_EQ(Chat(tools + R"(,"tool_choice":"auto","parallel_tool_calls":true)")->tools.list.size(),
            1u);
  EXPECT_TRUE(Chat(tools + R"(,"tool_choice":"none")")->tools.names.empty());
  EXPECT_TRUE(Chat(R"("tool_choice":"none","parallel_tool_calls":false)"));
  EXPECT_EQ(Completion("\"prompt\":\"x\"," + tools).error().param, "tools");
}

// A call that is promised and does not come would be worse than a refusal, which says why and what
// to do.
TEST(ApiCallsTest, NobodyIsPromisedACall) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  for (const std::string choice :
       {R"("required")", R"({"type":"function","function":{"name":"f"}})",
        R"({"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}})"}) {
    const auto call = Chat(tools + "\"tool_choice\":" + choice);
    ASSERT_FALSE(call) << choice;
    EXPECT_EQ(call.error().status, 400);
    EXPECT_EQ(call.error().param, "tool_choice");
    EXPECT_EQ(
        call.error().message,
        "'tool_choice' can be \"auto\" or \"none\": answers are not held to a form, so that no "
        "call can be promised; with \"auto\" a message may ask for one")
        << choice;
  }
  EXPECT_EQ(Chat(tools + R"("tool_choice":5)").error().message,
            "'tool_choice' must be \"auto\" or \"none\", not a number");
  EXPECT_EQ(Chat(tools + R"("tool_choice":"any")").error().message,
            "'tool_choice' must be \"auto\" or \"none\", not \"any\"");
  EXPECT_EQ(Chat(tools + "\"tool_choice\":\"" + std::string(9000, 'x') + "\"").error().message,
            "'tool_choice' must be \"auto\" or \"none\"");
}

TEST(ApiCallsTest, WhatChangesTheAnswerAndCannotBeDoneIsRefusedByName) {
  std::vector<std::string> names;
  for (const UnsupportedField& field : UnsupportedFields()) {
    const std::string name(field.name);
    names.push_back(name);
    const std::string start = "\"" + name + "\":";
    ExpectRefused({{start + R"({"type":"object"})", name},
                   {start + "0.125", name},
                   {start + R"("some")", name},
                   {start + R"(["some"])", name}});
    for (const char* none : {"null", "[]", R"("")"}) EXPECT_TRUE(Chat(start + none)) << name;
    const std::string off = field.off.empty() ? "null" : std::string(field.off);
    EXPECT_TRUE(Chat(start + off)) << name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  ExpectRefused({{R"("min_tokens":5)", "min_tokens"},
                 {R"("stop_token_ids":[2])", "stop_token_ids"},
                 {R"("structured_outputs":{"choice":["yes","no"]})", "structured_outputs"},
                 {R"("skip_special_tokens":false)", "skip_special_tokens"},
                 {R"("prompt_logprobs":0)", "prompt_logprobs"},
                 {R"("use_beam_search":true)", "use_beam_search"}});
}

TEST(ApiCallsTest, AnEmptyStopIsCalledSo) {
  EXPECT_THAT(Chat(R"("stop":"")").error().message, testing::EndsWith("number 0 is an empty one"));
  EXPECT_THAT(Chat(R"("stop":["a",""])").error().message,
              testing::EndsWith("number 1 is an empty one"));
  EXPECT_THAT(Chat(R"("max_tokens":100000000000000000000)").error().message,
              testing::HasSubstr("must be from 0 to"));
}

TEST(ApiCallsTest, ManyBiasesTakeLittleTime) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  }
  const auto json = ParseJsonBody("{\"prompt\":\"x\",\"logit_bias\":{" + text + "}}");
  ASSERT_TRUE(json) << json.error().message;
  const auto call = ReadCompletionCall(*json, {.vocab_size = 50'000});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->fields.sampling.logit_bias.size(), 50'000u);
  EXPECT_EQ(call->fields.sampling.logit_bias[49'999].token, 49'999);
  const auto pairs = Completion(R"("prompt":"x","logit_bias":[[12,1.5],[3,-100]])");
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->fields.sampling.logit_bias[0].bias, 1.5);
  // Elsewhere an object has few keys.
  EXPECT_FALSE(ParseJsonBody("{\"prompt\":\"x\",\"metadata\":{" + text + "}}"));
}

TEST(ApiCallsTest, ChatHasItsOwnFields) {
  const std::vector<BadCase> cases = {
      {R"("logprobs":5)", "logprobs"},
      {R"("top_logprobs":5)", "top_logprobs"},
      {R"("logprobs":false,"top_logprobs":5)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":1000000)", "top_logprobs"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
      {R"("add_generation_prompt":1)", "add_generation_prompt"},
  };
  for (const BadCase& bad : cases) {
    const auto call = Chat(bad.fields);
    ASSERT_FALSE(call) << bad.fields;
    EXPECT_EQ(call.error().param, bad.param);
  }
  EXPECT_FALSE(Chat(R"("continue_final_message":true)")->add_generation_prompt);
}

TEST(ApiCallsTest, MessagesAreChecked) {
  const std::vector<BadCase> cases = {
      {"null", "messages"},
      {"[]", "messages"},
      {"{}", "messages"},
      {"\"hi\"", "messages"},
      {"[1]", "messages[0]"},
      {"[null]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":null,"content":"x"}])", "messages[0].role"},
      {R"([{"role":1,"content":"x"}])", "messages[0].role"},
      {R"([{"role":"critic","content":"x"}])", "messages[0].role"},
      {R"([{"role":"<|im_start|>","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user","content":"x"},{"role":"user","content":null}])", "messages[1].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":{"text":"x"}}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"text","text":"a"},
           {"type":"image_url","image_url":{"url":"http://x/y"}}]}])",
       "messages[0].content[1].type"},
  };
  for (const BadCase& bad : cases) {
    const auto call = ChatOf(bad.fields);
    ASSERT_FALSE(call) << bad.fields;
    EXPECT_EQ(call.error().status, 400);
    EXPECT_EQ(call.error().param, bad.param) << bad.fields;
  }
  EXPECT_FALSE(ParseJsonBody("{}").has_value() && ReadChatCall(*ParseJsonBody("{}"), kLimits));
  const auto call = ChatOf(
      R"([{"role":"developer","content":"d"},{"role":"assistant","content":null,"tool_calls":[]},
          {"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->messages[0]["role"], "system");
}

TEST(ApiCallsTest, PromptsComeInFourForms) {
  const auto prompts = [](const std::string& prompt) {
    return Completion("\"prompt\":" + prompt)->prompts;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(prompts("\"x\""), std::vector<CompletionPrompt>({std::string("x")}));
  EXPECT_EQ(prompts("[1,99]"), std::vector<CompletionPrompt>({Ids{1, 99}}));
  EXPECT_EQ(prompts(R"(["x","y"])"),
            std::vector<CompletionPrompt>({std::string("x"), std::string("y")}));
  EXPECT_EQ(prompts("[[1],[2,3]]"), std::vector<CompletionPrompt>({Ids{1}, Ids{2, 3}}));
  const std::vector<BadCase> cases = {
      {"null", "prompt"},
      {"[]", "prompt"},
      {"[[]]", "prompt[0]"},
      {"5", "prompt"},
      {"{}", "prompt"},
      {"[-1]", "prompt"},
      {"[100]", "prompt"},
      {"[2147483648]", "prompt"},
      {"[1.5]", "prompt"},
      {"[1,\"x\"]", "prompt"},
      {"[\"x\",1]", "prompt"},
      {"[\"x\",[1]]", "prompt"},
      {"[true]", "prompt"},
      {"[[1],[\"x\"]]", "prompt[1]"},
      {"[[1],[100]]", "prompt[1]"},
      {"[null]", "prompt"},
  };
  for (const BadCase& bad : cases) {
    const auto call = Completion("\"prompt\":" + bad.fields);
    ASSERT_FALSE(call) << bad.fields;
    EXPECT_EQ(call.error().param, bad.param) << bad.fields;
  }
  const std::string many = Json(std::vector<std::string>(65, "x")).dump();
  EXPECT_TRUE(Completion("\"prompt\":" + many));
  EXPECT_EQ(Completion("\"n\":2,\"prompt\":" + many).error().param, "prompt");
  EXPECT_EQ(Completion(R"("prompt":"x","logprobs":true)").error().param, "logprobs");
  EXPECT_EQ(Completion(R"("prompt":"x","logprobs":101)").error().param, "logprobs");
  EXPECT_EQ(Completion(R"("prompt":"x","logprobs":0)")->fields.sampling.num_top_logprobs, 0);
  EXPECT_TRUE(Completion(R"("prompt":"x","echo":true,"logprobs":0)")->echo);
  EXPECT_EQ(Completion(R"("prompt":"x","echo":1)").error().param, "echo");
}

TEST(ApiCallsTest, ChoicesHaveStreamsOfTheirOwn) {
  EXPECT_EQ(SeedOfChoice(7, 0), 7u);
  EXPECT_NE(SeedOfChoice(7, 1), SeedOfChoice(7, 2));
  EXPECT_NE(SeedOfChoice(7, 1), SeedOfChoice(8, 1));
  EXPECT_EQ(SeedOfChoice(7, 1), SeedOfChoice(7, 1));
}

}  // namespace
}  // namespace baton
