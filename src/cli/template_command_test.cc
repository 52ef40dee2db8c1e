#include "cli/template_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{{ mood }}"
    "{% if add_generation_prompt %}[{{ strftime_now('%d %B %Y') }}]{% endif %}";

NamedText Json(std::string text) {
  return {.name = "'m.json'", .text = std::move(text)};
}

TEST(TemplateCommand, RendersAListOfMessagesWithAllOptions) {
  TemplateCommandOptions options;
  options.template_text = kTemplate;
  options.messages = Json(R"([{"role":"user","content":"hé"}])");
  options.tools = Json(R"([{"name":"f"}])");
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.now = {.year = 2024, .month = 7, .day = 26};
  options.variables = {ParseTemplateVariable(R"(mood="calm")").value()};
  const Result<std::string> text = RenderTemplateCommand(options);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, "<s>user: hé</s>\n[{\"name\": \"f\"}]calm[26 July 2024]");
  options.add_generation_prompt = false;
  options.tools.reset();
  options.variables.clear();
  EXPECT_EQ(RenderTemplateCommand(options), "<s>user: hé</s>\n");
}

TEST(TemplateCommand, ReadsAWholeConversationFromOneObject) {
  TemplateCommandOptions options;
  options.template_text = kTemplate;
  options.messages = Json(R"({"messages":[{"role":"user","content":"a"}],"tools":[1],)"
                          R"("extra":{"mood":"glad"}})");
  options.add_generation_prompt = false;
  EXPECT_EQ(RenderTemplateCommand(options), "user: a\n[1]glad");
}

TEST(TemplateCommand, NamesTheTextThatIsWrong) {
  const auto error_of = [](const std::string& messages) {
    TemplateCommandOptions options;
    options.template_text = "{{ messages }}";
    options.messages = Json(messages);
    return RenderTemplateCommand(options).error().message;
  };
  EXPECT_EQ(error_of("[{]"), "'m.json': not valid JSON: it goes wrong at line 1, column 3");
  EXPECT_THAT(error_of("{}"), StartsWith("'m.json' must hold a list of messages"));
  EXPECT_THAT(error_of(R"({"messages": [], "extra": {"tools": []}})"),
              StartsWith("'m.json': \"extra\" cannot set 'tools'"));
  EXPECT_THAT(error_of(R"({"messages": [], "extra": 1})"),
              StartsWith("'m.json': \"extra\" must be an object"));
}

TEST(TemplateCommand, SaysWhereATemplateIsWrong) {
  TemplateCommandOptions options;
  options.messages = Json("[]");
  options.template_text = "{{ x";
  EXPECT_THAT(RenderTemplateCommand(options).error().message, HasSubstr("line 1, column 1"));
}

TEST(ParseTemplateVariable, RefusesWhatIsNoneAndWhatWouldHaveNoEffect) {
  for (const char* text :
       {"novalue", "=1", "x=unquoted", "x=", "x={", "messages=1", "tools=[]", "documents=[]",
        "bos_token=\"\"", "eos_token=\"\"", "add_generation_prompt=true"}) {
    EXPECT_FALSE(ParseTemplateVariable(text).has_value()) << text;
  }
  EXPECT_EQ(ParseTemplateVariable("a=1=2").error().message.substr(0, 19), "takes JSON for 'a':");
}

}  // namespace
}  // namespace baton
