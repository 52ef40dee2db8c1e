#include "cli/template_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace baton {
namespace {

class TemplateCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("baton_") + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_;
};

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{{ mood }}"
    "{% if add_generation_prompt %}[{{ strftime_now('%d %B %Y') }}]{% endif %}";

TEST_F(TemplateCommandTest, RendersAListOfMessagesWithAllOptions) {
  TemplateCommandOptions options;
  options.template_file = Write("t.jinja", kTemplate);
  options.messages_file = Write("m.json", R"([{"role":"user","content":"hé"}])");
  options.tools_file = Write("tools.json", R"([{"name":"f"}])");
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.now = "2024-07-26";
  options.variables = {R"(mood="calm")"};
  const Result<std::string> text = RenderTemplateCommand(options);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, "<s>user: hé</s>\n[{\"name\": \"f\"}]calm[26 July 2024]");
  options.add_generation_prompt = false;
  options.tools_file.reset();
  options.variables.clear();
  EXPECT_EQ(RenderTemplateCommand(options), "<s>user: hé</s>\n");
}

TEST_F(TemplateCommandTest, ReadsAWholeConversationFromOneObject) {
  TemplateCommandOptions options;
  options.template_text = kTemplate;
  options.messages_file =
      Write("m.json", R"({"messages":[{"role":"user","content":"a"}],"tools":[1],)"
                      R"("extra":{"mood":"glad"}})");
  options.add_generation_prompt = false;
  EXPECT_EQ(RenderTemplateCommand(options), "user: a\n[1]glad");
}

TEST_F(TemplateCommandTest, SaysWhatIsWrong) {
  TemplateCommandOptions options;
  options.messages_file = Write("m.json", "[]");
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.template_file = (folder_ / "absent.jinja").string();
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kNotFound);
  options.template_file = folder_.string();
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.template_file = Write("t.jinja", "{{ x");
  EXPECT_NE(RenderTemplateCommand(options).error().message.find("line 1, column 1"),
            std::string::npos);
  options.template_file = Write("t.jinja", "{{ messages }}");
  options.variables = {"novalue"};
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.variables = {"x=unquoted"};
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.variables.clear();
  options.now = "yesterday";
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.now = "2023-02-29";
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.now.reset();
  options.messages_file = Write("m.json", "[{]");
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
  options.messages_file = Write("m.json", "{}");
  EXPECT_EQ(RenderTemplateCommand(options).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace baton
