// Small templates of our own, each with what jinja2 makes of it (tools/template_vectors.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/template_engine.h"
#include "text/template_json.h"

namespace baton {
namespace {

using nlohmann::ordered_json;

ordered_json ReadJson(const std::string& name) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/chat/" + name);
  return ordered_json::parse(file);
}

TemplateInputs SnippetInputs() {
  TemplateInputs inputs;
  const ordered_json variables = ReadJson("snippet_variables.json");
  for (const auto& [name, json] : variables.items()) {
    Result<templates::Value> value = TemplateValueFromJson(json);
    EXPECT_TRUE(value.has_value());
    inputs.variables.emplace_back(name, std::move(*value));
  }
  inputs.now = CivilTime{.year = 2024, .month = 7, .day = 26, .hour = 14, .minute = 3, .second = 9};
  return inputs;
}

void CheckSnippet(const ordered_json& snippet, const TemplateInputs& inputs) {
  SCOPED_TRACE(snippet["template"].get<std::string>());
  const Result<Template> parsed = Template::Parse(snippet["template"].get<std::string>());
  if (!parsed.has_value()) {
    EXPECT_TRUE(snippet.contains("syntax_error")) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("line "), std::string::npos);
    EXPECT_NE(parsed.error().message.find("column "), std::string::npos);
    return;
  }
  const Result<std::string> text = parsed->Render(inputs, TemplateLimits{});
  EXPECT_FALSE(snippet.contains("syntax_error")) << snippet["syntax_error"];
  if (!text.has_value()) {
    const auto words = RefusalWords(text.error());
    EXPECT_EQ(words.has_value(), snippet.contains("raised")) << text.error().message;
    if (words.has_value() && snippet.contains("raised")) {
      EXPECT_EQ(*words, snippet["raised"]);
    }
    EXPECT_FALSE(snippet.contains("text")) << text.error().message;
    return;
  }
  ASSERT_TRUE(snippet.contains("text")) << "gave " << *text << " instead of " << snippet.dump();
  EXPECT_EQ(*text, snippet["text"]);
}

TEST(TemplateSnippets, RenderAsJinjaDoes) {
  const ordered_json snippets = ReadJson("snippets.json");
  const TemplateInputs inputs = SnippetInputs();
  EXPECT_GT(snippets.size(), 250U);
  for (const ordered_json& snippet : snippets) CheckSnippet(snippet, inputs);
}

}  // namespace
}  // namespace baton
