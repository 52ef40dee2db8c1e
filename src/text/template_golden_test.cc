// Renders other people's chat templates (read from the cache) and compares with the reference:
// golden.json has full digests of renderings by the Transformers library, rendered.json those of
// jinja2 itself for every template at hand (tools/template_vectors.py made it).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/sha256.h"
#include "base/test_paths.h"
#include "text/chat_template.h"
#include "text/template_engine.h"
#include "text/template_json.h"

namespace baton {
namespace {

using nlohmann::ordered_json;
using templates::Value;

constexpr const char* kTemplates = "llama-cpp-models/templates/";
constexpr const char* kSmollm = "smollm2-135m-instruct-q4_1.gguf";
constexpr TemplateLimits kLimits;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ordered_json ReadJson(const std::string& name) {
  return ordered_json::parse(ReadFile(std::string(BATON_TEST_DATA) + "/chat/" + name));
}

Value ToValue(const ordered_json& json) {
  Result<Value> value = TemplateValueFromJson(json);
  EXPECT_TRUE(value.has_value());
  return value.value_or(Value());
}

struct Setting {
  const ordered_json& conversation;
  bool add_generation_prompt;
  bool tools_as_list;
  std::string bos_token;
  std::string eos_token;
};

TemplateInputs MakeInputs(const Setting& setting) {
  ordered_json messages = ordered_json::array();
  for (const ordered_json& given : setting.conversation["messages"]) {
    ordered_json message = ordered_json::object();
    for (const auto& [key, value] : given.items())
      if (!value.is_null()) message[key] = value;
    if (message.contains("reasoning_content")) message["thinking"] = message["reasoning_content"];
    messages.push_back(std::move(message));
  }
  const auto field = [&](const char* name) {
    return setting.conversation.contains(name) ? setting.conversation[name] : ordered_json();
  };
  ordered_json tools = field("tools");
  if (tools.is_null() && setting.tools_as_list) tools = ordered_json::array();
  TemplateInputs inputs;
  inputs.variables = {{"messages", ToValue(messages)},
                      {"tools", ToValue(tools)},
                      {"documents", ToValue(field("documents"))},
                      {"add_generation_prompt", Value::Bool(setting.add_generation_prompt)},
                      {"bos_token", Value::String(setting.bos_token)},
                      {"eos_token", Value::String(setting.eos_token)}};
  if (setting.conversation.contains("extra"))
    for (const auto& [name, value] : setting.conversation["extra"].items())
      inputs.variables.emplace_back(name, ToValue(value));
  inputs.now = CivilTime{.year = 2024, .month = 7, .day = 26, .hour = 14, .minute = 3, .second = 9};
  return inputs;
}

// The chat template in the metadata of the SmolLM2 file, found by its known first words.
std::string SmollmTemplate(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(8U << 20, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  const std::string key = "tokenizer.chat_template";
  const std::size_t at = head.find(key);
  if (at == std::string::npos) return {};
  const std::size_t length_at = at + key.size() + 4;  // behind the value's type
  std::size_t length = 0;
  for (std::size_t i = 8; i-- > 0;)
    length = (length << 8) | static_cast<unsigned char>(head[length_at + i]);
  return head.substr(length_at + 8, length);
}

void CheckGoldenTemplate(const ordered_json& entry, const std::string& source) {
  ASSERT_EQ(Sha256Hex(source), entry["sha256"]) << "another version of the template";
  const Result<Template> parsed = Template::Parse(source);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const ordered_json conversations = ReadJson("conversations.json");
  for (const ordered_json& item : entry["cases"]) {
    const std::string name = item["conversation"];
    SCOPED_TRACE(entry["template"].get<std::string>() + " / " + item.dump());
    const Result<std::string> text =
        parsed->Render(MakeInputs({.conversation = conversations[name],
                                   .add_generation_prompt = item["add_generation_prompt"],
                                   .tools_as_list = item.contains("tools_as_list"),
                                   .bos_token = entry["bos_token"],
                                   .eos_token = entry["eos_token"]}),
                       kLimits);
    if (item.contains("sha256")) {
      ASSERT_TRUE(text.has_value()) << text.error().message;
      EXPECT_EQ(Sha256Hex(*text), item["sha256"]) << *text;
    } else {
      ASSERT_FALSE(text.has_value()) << *text;
      EXPECT_EQ(text.error().code, ErrorCode::kInvalid);
      const std::optional<std::string_view> words = RefusalWords(text.error());
      EXPECT_EQ(words.has_value(), item.contains("raised")) << text.error().message;
      if (words.has_value() && item.contains("raised")) {
        EXPECT_EQ(*words, item["raised"]);
      }
    }
  }
}

TEST(TemplateGolden, TransformersRenderings) {
  const ordered_json golden = ReadJson("golden.json");
  std::size_t cases = 0;
  for (const ordered_json& entry : golden["templates"]) {
    const std::string name = entry["template"];
    if (name == "smollm2-135m-instruct") continue;  // it lies in a model file: the next test
    BATON_CACHED_FILE_OR_SKIP(path, kTemplates + name + ".jinja");
    CheckGoldenTemplate(entry, ReadFile(path));
    cases += entry["cases"].size();
  }
  EXPECT_EQ(cases, 511U);
}

// The templates that read the variable `tools`; the others pass it over.
TEST(TemplateGolden, WhichKnowTools) {
  const std::set<std::string> without = {
      "HuggingFaceTB-SmolLM3-3B", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
      "deepseek-ai-DeepSeek-V3.1", "google-gemma-2-2b-it", "microsoft-Phi-3.5-mini-instruct"};
  const ordered_json golden = ReadJson("golden.json");
  int num_knowing = 0;
  for (const ordered_json& entry : golden["templates"]) {
    const std::string name = entry["template"];
    if (name == "smollm2-135m-instruct") continue;  // it lies in a model file
    BATON_CACHED_FILE_OR_SKIP(path, kTemplates + name + ".jinja");
    const Result<ChatTemplate> read = ChatTemplate::FromSource(ReadFile(path));
    ASSERT_TRUE(read.has_value()) << name << ": " << read.error().message;
    EXPECT_EQ(read->knows_tools(), !without.contains(name)) << name;
    num_knowing += read->knows_tools() ? 1 : 0;
  }
  EXPECT_EQ(num_knowing, 10);
}

TEST(TemplateGolden, TemplateOfTheSmollmFile) {
  BATON_CACHED_FILE_OR_SKIP(path, kSmollm);
  const ordered_json golden = ReadJson("golden.json");
  const std::string source = SmollmTemplate(path);
  bool found = false;
  for (const ordered_json& entry : golden["templates"]) {
    if (entry["template"] != "smollm2-135m-instruct") continue;
    CheckGoldenTemplate(entry, source);
    found = true;
  }
  EXPECT_TRUE(found);
}

// One template of rendered.json: "?" is an error of Python's own, "!..." what the template raised.
void CheckRenderedTemplate(const ordered_json& entry, const ordered_json& all,
                           const ordered_json& conversations, const std::string& source) {
  ASSERT_EQ(Sha256Hex(source), entry["sha256"]) << "another version of the template";
  const Result<Template> parsed = Template::Parse(source);
  ASSERT_TRUE(parsed.has_value()) << entry["file"] << ": " << parsed.error().message;
  const std::size_t digits = all["digits"];
  for (const auto& [name, outcomes] : entry["cases"].items()) {
    for (std::size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(entry["file"].get<std::string>() + " / " + name + " / " + std::to_string(i));
      const Result<std::string> text =
          parsed->Render(MakeInputs({.conversation = conversations[name],
                                     .add_generation_prompt = i != 1,
                                     .tools_as_list = i == 2,
                                     .bos_token = all["bos_token"],
                                     .eos_token = all["eos_token"]}),
                         kLimits);
      const std::string expected = outcomes[i];
      if (text.has_value()) {
        EXPECT_EQ(Sha256Hex(*text).substr(0, digits), expected) << *text;
      } else if (const auto words = RefusalWords(text.error()); words.has_value()) {
        EXPECT_EQ("!" + std::string(*words), expected);
      } else {
        EXPECT_EQ("?", expected) << text.error().message;
      }
    }
  }
}

TEST(TemplateGolden, JinjaRenderingsOfEveryTemplateAtHand) {
  const ordered_json all = ReadJson("rendered.json");
  const ordered_json conversations = ReadJson("conversations.json");
  ASSERT_EQ(all["templates"].size(), 70U);
  for (const ordered_json& entry : all["templates"]) {
    BATON_CACHED_FILE_OR_SKIP(path, kTemplates + entry["file"].get<std::string>());
    CheckRenderedTemplate(entry, all, conversations, ReadFile(path));
  }
}

}  // namespace
}  // namespace baton
