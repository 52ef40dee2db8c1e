// The layer from conversations to prompts: the entries C-01 to C-05 and X-03 of the list of inputs
// on which other engines failed, and the built-in templates.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/test_paths.h"

namespace baton {
namespace {

using templates::Value;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr TemplateLimits kLimits;

Value Json(std::string_view text) {
  Result<Value> value = TemplateValueFromJsonText(text);
  EXPECT_TRUE(value.has_value()) << text;
  return value.value_or(Value());
}

ChatTemplate Make(std::string_view source) {
  Result<ChatTemplate> made = ChatTemplate::FromSource(source);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

ChatTemplateInputs Conversation(std::string_view messages) {
  ChatTemplateInputs inputs;
  inputs.messages = Json(messages);
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  return inputs;
}

Result<std::string> Adapted(const ChatTemplate& chat, std::string_view messages) {
  return chat.RenderAdapted(Conversation(messages), kLimits);
}

void ExpectRefused(const Result<std::string>& result, std::string_view words) {
  ASSERT_FALSE(result.has_value()) << *result;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(result.error().message, HasSubstr(std::string(words)));
  EXPECT_THAT(result.error().message, Not(HasSubstr("/")));  // no paths
}

constexpr std::string_view kStrict =
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user and assistant') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if not messages %}{{ raise_exception('No messages') }}{% endif %}";

constexpr std::string_view kValid = R"([{"role":"user","content":"hi"}])";

TEST(ChatTemplateC01, RefusalsCarryTheTemplatesOwnWords) {
  const ChatTemplate chat = Make(kStrict);
  for (int round = 0; round < 5; ++round) {
    const Result<std::string> system =
        Adapted(chat, R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])");
    ExpectRefused(system, "System role not supported");
    EXPECT_EQ(RefusalWords(system.error()), "System role not supported");
    ExpectRefused(Adapted(chat, R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])"),
                  "Roles must alternate user and assistant");
    ExpectRefused(Adapted(chat, R"([{"role":"assistant","content":"a"}])"), "Roles must alternate");
    ExpectRefused(Adapted(chat, "[]"), "No messages");
    ExpectRefused(Adapted(chat, R"([{"role":"critic","content":"a"}])"), "Roles must alternate");
    // Content null is a message without content.
    EXPECT_EQ(Adapted(chat, R"([{"role":"user","content":null}])"), "[user]");
  }
  EXPECT_EQ(Adapted(chat, kValid), "[user]hi");
  ExpectRefused(Adapted(chat, R"([{"role":1}])"), "messages[0]");
  ExpectRefused(Adapted(chat, R"(["x"])"), "messages[0]");
  ExpectRefused(Adapted(chat, R"({"role":"user"})"), "list of objects");
}

TEST(ChatTemplateC01, RefusalsDoNotDisturbRendersBesideThem) {
  const ChatTemplate chat = Make(kStrict);
  std::vector<std::string> valid(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < valid.size(); ++t) {
    threads.emplace_back([&chat, &out = valid[t]] {
      for (int i = 0; i < 50; ++i) {
        (void)Adapted(chat, "[]").has_value();
        out = Adapted(chat, kValid).value_or("failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : valid) EXPECT_EQ(text, "[user]hi");
}

TEST(ChatTemplateTest, KnowsToolsIfItShowsTheirNames) {
  const std::string messages = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_FALSE(Make(messages).knows_tools());
  EXPECT_FALSE(Make("{% if tools %}You have tools.{% endif %}" + messages).knows_tools());
  EXPECT_TRUE(Make("{{ tools | tojson }}" + messages).knows_tools());
  EXPECT_TRUE(
      Make("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}" + messages).knows_tools());
  // Whatever it says where there are none, and whatever conversation it wants.
  EXPECT_TRUE(Make("{% if not tools %}{{ raise_exception('tools!') }}{% endif %}{{ tools }}")
                  .knows_tools());
  EXPECT_TRUE(Make("{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}"
                   "{% endif %}{{ tools }}")
                  .knows_tools());
  EXPECT_TRUE(Make("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
                   "{% endif %}{{ tools }}")
                  .knows_tools());
  EXPECT_TRUE(Make("{% for t in tools or [] %}{% for n, p in t.function.parameters.properties.items"
                   "() %}{{ t.function.name }}({{ n }}: {{ p.type }}){% endfor %}{% endfor %}")
                  .knows_tools());
}

std::string ToolCall(std::string_view arguments) {
  return R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[)"
         R"({"id":"call12345","type":"function","function":{"name":"f","arguments":)" +
         std::string(arguments) + "}}]}]";
}

constexpr std::string_view kPrintsArguments =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
    "<{{ c.function.arguments }}>{% endfor %}{% endfor %}";
constexpr std::string_view kLoopsOverArguments =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
    "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}"
    "{% endfor %}{% endfor %}";
constexpr std::string_view kWritesArgumentsAsJson =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
    "{{ c.function | tojson }}{% endfor %}{% endfor %}";

TEST(ChatTemplateC02, ToolCallArgumentsAsStringOrObjectRenderEqually) {
  const ChatTemplate prints = Make(kPrintsArguments);
  const ChatTemplate loops = Make(kLoopsOverArguments);
  const ChatTemplate writes = Make(kWritesArgumentsAsJson);
  EXPECT_EQ(prints.arguments_shape(), ArgumentsShape::kString);
  EXPECT_EQ(loops.arguments_shape(), ArgumentsShape::kObject);
  EXPECT_EQ(writes.arguments_shape(), ArgumentsShape::kObject);
  const std::string as_string = ToolCall(R"("{\"town\":\"Oslo\",\"n\":2}")");
  const std::string as_object = ToolCall(R"({"town":"Oslo","n":2})");
  for (const std::string& messages : {as_string, as_object}) {
    EXPECT_EQ(Adapted(prints, messages), R"(q<{"town": "Oslo", "n": 2}>)");
    EXPECT_EQ(Adapted(loops, messages), "qtown=Oslo;n=2;");
    EXPECT_EQ(Adapted(writes, messages),
              R"(q{"name": "f", "arguments": {"town": "Oslo", "n": 2}})");
  }
}

TEST(ChatTemplateC02, BrokenAndOddArgumentsFollowOneRule) {
  const ChatTemplate prints = Make(kPrintsArguments);
  const ChatTemplate loops = Make(kLoopsOverArguments);
  for (const ChatTemplate& chat : {prints, loops}) {
    ExpectRefused(Adapted(chat, ToolCall(R"("{\"town\":\"Os")")), "messages[1]");
    ExpectRefused(Adapted(chat, ToolCall(R"("[1,2]")")), "messages[1]");
    ExpectRefused(Adapted(chat, ToolCall("7")), "messages[1]");
  }
  EXPECT_EQ(Adapted(prints, ToolCall(R"("")")), "q<{}>");
  EXPECT_EQ(Adapted(loops, ToolCall(R"("")")), "q");
}

TEST(ChatTemplateC04, ContentIsAdaptedToStringsAndToParts) {
  const ChatTemplate strings = Make("{% for m in messages %}<{{ m.content }}>{% endfor %}");
  const ChatTemplate parts = Make("{% for m in messages %}<{{ m.content[0].text }}>{% endfor %}");
  EXPECT_EQ(strings.content_shape(), ContentShape::kString);
  EXPECT_EQ(parts.content_shape(), ContentShape::kParts);
  for (const ChatTemplate& chat : {strings, parts}) {
    EXPECT_EQ(Adapted(chat, R"([{"role":"user","content":"ab"}])"), "<ab>");
    EXPECT_EQ(Adapted(chat, R"([{"role":"user","content":[{"type":"text","text":"ab"},)"
                            R"({"type":"text","text":"cd"}]}])"),
              "<abcd>");
    EXPECT_EQ(Adapted(chat, R"([{"role":"user","content":[]}])"), "<>");
    ExpectRefused(Adapted(chat, R"([{"role":"user","content":[{"type":"image_url"}]}])"),
                  "messages[0]: content parts of type \"image_url\"");
    ExpectRefused(Adapted(chat, R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0]");
    ExpectRefused(Adapted(chat, R"([{"role":"user","content":["x"]}])"), "messages[0]");
    ExpectRefused(Adapted(chat, R"([{"role":"user","content":5}])"), "messages[0]");
  }
}

constexpr std::string_view kPlain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
constexpr std::string_view kTrims =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

ChatTemplateInputs Continued(std::string_view last) {
  ChatTemplateInputs inputs;
  inputs.messages = MessagesValue(
      {{"user", "Q"}, {"assistant", "same"}, {"user", "Q2"}, {"assistant", std::string(last)}});
  inputs.add_generation_prompt = false;
  inputs.continue_final_message = true;
  return inputs;
}

TEST(ChatTemplateC05, PromptEndsWithExactlyTheGivenContent) {
  for (const std::string_view source : {kPlain, kTrims}) {
    const ChatTemplate chat = Make(source);
    for (const std::string last : {"Sure, it is ", "1.\n", "", "same", "assistant", "Q2"}) {
      EXPECT_EQ(chat.RenderAdapted(Continued(last), kLimits),
                "<|user|>Q<|end|><|assistant|>same<|end|><|user|>Q2<|end|><|assistant|>" + last);
    }
  }
}

TEST(ChatTemplateC05, WrongUsesAreRefused) {
  const ChatTemplate chat = Make(kPlain);
  ChatTemplateInputs both = Continued("x");
  both.add_generation_prompt = true;
  ExpectRefused(chat.RenderAdapted(both, kLimits), "exclude each other");
  ChatTemplateInputs user = Continued("x");
  user.messages = MessagesValue({{"user", "Q"}});
  ExpectRefused(chat.RenderAdapted(user, kLimits), "assistant");
  ChatTemplateInputs none = Continued("x");
  none.messages = MessagesValue({});
  ExpectRefused(chat.RenderAdapted(none, kLimits), "assistant");
  const ChatTemplate first_only = Make("{{ messages[0].content }}");
  ExpectRefused(first_only.RenderAdapted(Continued("x"), kLimits), "does not show");
}

TEST(ChatTemplateX03, TemplatesReachNothingButTheirData) {
  const std::vector<std::string> hostile = {
      "{{ ''.__class__.__mro__ }}",
      "{{ ''.__class__.__base__.__subclasses__() }}",
      "{{ cycler.__init__.__globals__ }}",
      "{{ self._x.y }}",
      "{{ messages.append(1) }}",
      "{{ messages[0].update({'role': 'x'}) }}",
      "{{ messages[0].pop('role') }}",
      "{% set messages[0] = 5 %}",
      "{% import 'os' as os %}",
      "{% include '/etc/passwd' %}",
      "{% extends 'base' %}",
      "{{ range(10000000) }}",
      "{{ 'x' * 1000000000 }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
      "{% endfor %}{{ ns.x }}",
      "{{ '%100000000d' % 1 }}",
      "{{ 'x'.center(100000000000) }}",
      "{{ [1] * 1000000000 }}",
      "{{ 2 ** 100000 }}",
      "{{ messages | tojson(indent=100000000) | tojson(indent='" + std::string(200, ' ') + "') }}",
      "{{ " + std::string(100000, '(') + "1",
      "{{ " + std::string(100000, '-') + "1 }}",
      "{{ 1" +
          [] {
            std::string s;
            for (int i = 0; i < 20000; ++i) s += "+1";
            return s;
          }() +
          " }}",
      std::string(10UL << 20, 'x'),
  };
  for (const std::string& source : hostile) {
    SCOPED_TRACE(source.substr(0, 80));
    const Result<ChatTemplate> chat = ChatTemplate::FromSource(source);
    if (!chat.has_value()) continue;
    ChatTemplateInputs inputs = Conversation(kValid);
    const Result<std::string> out = chat->RenderAsGiven(inputs, kLimits);
    EXPECT_FALSE(out.has_value()) << out->substr(0, 100);
    // The request is as it was.
    EXPECT_TRUE(templates::Equal(inputs.messages, Json(kValid)));
  }
}

TEST(ChatTemplateBuiltin, UnknownNamesAreRefusedWithTheList) {
  const Result<ChatTemplate> none = ChatTemplate::Builtin("chat-ml");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  for (const std::string_view name : ChatTemplate::BuiltinNames())
    EXPECT_THAT(none.error().message, HasSubstr(std::string(name)));
  EXPECT_FALSE(ChatTemplate::Builtin("").has_value());
}

TEST(ChatTemplateBuiltin, FormatsAsTheirModelsDocumentThem) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"chatml",
       "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
       "A<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
      {"gemma",
       "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
       "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n"},
      {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
      {"llama3",
       "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user"
       "<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA"
       "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>"
       "assistant<|end_header_id|>\n\n"},
      {"mistral", "<s>[INST]S\n\nU[/INST]A</s>[INST]V[/INST]"},
      {"phi3",
       "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n"
       "<|assistant|>\n"},
      {"vicuna", "S\n\nUSER: U\nASSISTANT: A</s>\nUSER: V\nASSISTANT:"},
      {"zephyr",
       "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\nV</s>\n"
       "<|assistant|>\n"},
  };
  EXPECT_EQ(expected.size(), ChatTemplate::BuiltinNames().size());
  for (const auto& [name, text] : expected) {
    SCOPED_TRACE(name);
    const Result<ChatTemplate> chat = ChatTemplate::Builtin(name);
    ASSERT_TRUE(chat.has_value()) << chat.error().message;
    ChatTemplateInputs inputs;
    inputs.messages =
        MessagesValue({{"system", "S"}, {"user", "U"}, {"assistant", "A"}, {"user", "V"}});
    inputs.bos_token = "<s>";
    inputs.eos_token = "</s>";
    EXPECT_EQ(chat->RenderAdapted(inputs, kLimits), text);
    EXPECT_EQ(chat->content_shape(), ContentShape::kString);
  }
}

// The built-in of a family renders as the template that a model of the family ships.
TEST(ChatTemplateBuiltin, AgreesWithTheTemplatesOfModels) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"gemma", "google-gemma-2-2b-it"},
      {"phi3", "microsoft-Phi-3.5-mini-instruct"},
      {"mistral", "mistralai-Mistral-Nemo-Instruct-2407"}};
  for (const auto& [name, model] : pairs) {
    SCOPED_TRACE(name);
    BATON_CACHED_FILE_OR_SKIP(path, "llama-cpp-models/templates/" + model + ".jinja");
    std::ifstream file(path, std::ios::binary);
    std::ostringstream source;
    source << file.rdbuf();
    const ChatTemplate theirs = Make(source.str());
    const Result<ChatTemplate> ours = ChatTemplate::Builtin(name);
    ASSERT_TRUE(ours.has_value());
    ChatTemplateInputs inputs;
    inputs.messages = MessagesValue({{"user", "One"}, {"assistant", "Two"}, {"user", "Three"}});
    inputs.bos_token = "<bos>";
    inputs.eos_token = "<eos>";
    const Result<std::string> text = theirs.RenderAsGiven(inputs, kLimits);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(ours->RenderAsGiven(inputs, kLimits), *text);
  }
}

TEST(TemplateValueFromJsonText, BrokenJsonIsToldByLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON: it ends too early, at line 1, column 1"},
      {"[1,\n2", "not valid JSON: it ends too early, at line 2, column 2"},
      {"[1,\n  x]", "not valid JSON: it goes wrong at line 2, column 3"},
      {"[\"\xC3\xA9\", }", "not valid JSON: it goes wrong at line 1, column 7"},
      {"{\"a\": 1} 2", "not valid JSON: it goes wrong at line 1, column 10"},
      {"[1e999]", "not valid JSON: a number is too large"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Value> value = TemplateValueFromJsonText(text);
    ASSERT_FALSE(value.has_value()) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(value.error().message, message) << text;
  }
}

}  // namespace
}  // namespace baton
