// Tool calls from the request through the template to the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/test_service.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

// Whether a template knows tools is found out once, when it is read, and not for each request: one
// that shows them in some conversations only is asked about none of them.
TEST_F(ToolServiceTest, NoConversationIsRenderedToFindOut) {
  words_.chat_template = *ChatTemplate::FromSource(
      "{% if messages | length == 1 %}{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
      "Call with <tool_call>{% endif %}{% for m in messages %}{{ m.role }}={{ m.content }};"
      "{% endfor %}");
  const auto one = Call(kChat, "{" + kHi + "," + kTools + "}", 1);
  EXPECT_EQ(PromptOf(0), "<s>[add]Call with <tool_call>user=hi;");
  const auto two = Call(kChat,
                        R"({"messages":[{"role":"system","content":"a"},)"
                        R"({"role":"user","content":"b"}],)" +
                            kTools + "}",
                        1);
  EXPECT_EQ(PromptOf(1), "<s>system=a;user=b;");
}

TEST_F(ServiceTest, AModelThatKnowsNoToolsSaysSo) {
  const std::string refused = Ask(PostText(kChat, "{" + kHi + "," + kTools + "}"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(BodyOf(refused)["error"]["code"], "tools_not_supported");
  EXPECT_THAT(refused, HasSubstr("does not know tools"));
}

}  // namespace
}  // namespace baton
