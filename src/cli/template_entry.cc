#include "cli/template_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/chat_template_option.h"
#include "cli/local_time.h"
#include "cli/model_argument.h"
#include "cli/template_command.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf.h"
#include "text/chat_template.h"

namespace baton {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

// A file or standard input, with a name for messages.
Result<NamedText> ReadNamed(const std::string& path, Input& standard_input) {
  Result<std::string> text = ReadTextOrInput(path, standard_input);
  if (!text) return Forward(text);
  return NamedText{.name = path == "-" ? std::string("standard input") : "'" + path + "'",
                   .text = *std::move(text)};
}

class TemplateCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "template",
            .summary = "the prompt that a chat template makes of messages",
            .usages = {"MODEL --messages FILE [--chat-template NAME|FILE] [OPTION]...",
                       "--template FILE --messages FILE [OPTION]..."},
            .description =
                {"Renders a chat template, a model's own or one from a file, and prints the "
                 "prompt with nothing added. The template is given messages, tools, documents, "
                 "bos_token, eos_token, add_generation_prompt and the variables of --var; a "
                 "model's tokens are known, for a template from a file --bos and --eos name "
                 "them."},
            .examples = {"echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | baton template "
                         "model.gguf --messages -"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    chat_template_.Declare(options);
    options.File({.names = "--template",
                  .value = "FILE",
                  .help = "Render this template, without a model",
                  .dash_is_input = true},
                 &template_file_);
    options.Group("What to render");
    options.File({.names = "--messages",
                  .value = "FILE",
                  .help = "JSON: a list of messages, or an object with messages and, if need be, "
                          "tools, documents and extra variables; - is standard input",
                  .dash_is_input = true},
                 &messages_file_);
    options.File({.names = "--tools",
                  .value = "FILE",
                  .help = "JSON: a list of tools",
                  .dash_is_input = true},
                 &tools_file_);
    options.Flag({.names = "--no-generation-prompt",
                  .value = "",
                  .help = "Do not open the assistant's turn at the end"},
                 &no_generation_prompt_);
    options.Flag({.names = "--continue",
                  .value = "",
                  .help = "End with the last message, the assistant's, left open"},
                 &continue_final_message_);
    options.Flag({.names = "--adapt",
                  .value = "",
                  .help = "Bring contents and tool calls into the shapes that the template "
                          "reads, as run and chat do"},
                 &adapt_);
    options.Text({.names = "--bos", .value = "TEXT", .help = "bos_token"}, &bos_);
    options.Text({.names = "--eos", .value = "TEXT", .help = "eos_token"}, &eos_);
    options.Parsed({.names = "--now",
                    .value = "TIME",
                    .help = "Time for templates that print it: 2024-07-26 or 2024-07-26T14:03:09 "
                            "(default: now)"},
                   [this](const std::string& given) { return TakeNow(given); });
    options.ParsedEach(
        {.names = "--var", .value = "NAME=JSON", .help = "Another variable; may be repeated"},
        [this](const std::string& given) { return TakeVariable(given); });
  }

  Result<> Check() override {
    if (!messages_file_.has_value()) {
      return Fail(ErrorCode::kInvalid, "name the messages: --messages FILE");
    }
    if (template_file_.has_value() && model_.given()) {
      return Fail(ErrorCode::kInvalid, "a MODEL and --template exclude each other");
    }
    if (template_file_.has_value() && chat_template_.given()) {
      return Fail(ErrorCode::kInvalid, "--chat-template goes with a MODEL, not with --template");
    }
    if (continue_final_message_ && no_generation_prompt_) {
      return Fail(ErrorCode::kInvalid,
                  "--continue opens no new turn, so --no-generation-prompt has nothing to do; "
                  "leave it out");
    }
    if (template_file_.has_value()) return {};
    if (!model_.given()) {
      return Fail(ErrorCode::kInvalid, "name a model file, MODEL, or a template, --template FILE");
    }
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    Result<NamedText> messages = ReadNamed(*messages_file_, console.in);
    if (!messages) return Forward(messages);
    TemplateCommandOptions options = {
        .template_text = {},
        .messages = *std::move(messages),
        .tools = std::nullopt,
        .add_generation_prompt = !no_generation_prompt_ && !continue_final_message_,
        .continue_final_message = continue_final_message_,
        .adapt_shapes = adapt_,
        .bos_token = bos_.value_or(""),
        .eos_token = eos_.value_or(""),
        .now = now_.value_or(LocalTimeNow()),
        .variables = variables_};
    if (tools_file_.has_value()) {
      Result<NamedText> tools = ReadNamed(*tools_file_, console.in);
      if (!tools) return Forward(tools);
      options.tools = *std::move(tools);
    }
    const Result<> read = template_file_.has_value() ? ReadTemplate(console.in, options)
                                                     : ReadModel(console.in, options);
    if (!read) return read;
    const Result<std::string> prompt = RenderTemplateCommand(options);
    if (!prompt) return Forward(prompt);
    return console.out.Write(*prompt);
  }

 private:
  Result<> TakeNow(const std::string& given) {
    const Result<CivilTime> time = ParseCivilTime(given);
    if (!time) {
      return Fail(ErrorCode::kInvalid,
                  "takes a time like 2024-07-26 or 2024-07-26T14:03:09, not '" + given + "'");
    }
    now_ = *time;
    return {};
  }

  Result<> TakeVariable(const std::string& given) {
    Result<TemplateVariable> variable = ParseTemplateVariable(given);
    if (!variable) return Forward(variable);
    for (const TemplateVariable& other : variables_) {
      if (other.first != variable->first) continue;
      return Fail(ErrorCode::kInvalid, "sets '" + other.first + "' twice");
    }
    variables_.push_back(*std::move(variable));
    return {};
  }

  Result<> ReadTemplate(Input& standard_input, TemplateCommandOptions& options) const {
    Result<NamedText> named = ReadNamed(*template_file_, standard_input);
    if (!named) return Forward(named);
    options.template_text = std::move(named->text);
    return {};
  }

  // The template of --chat-template, else the file's own.
  Result<std::string> TemplateOf(const GgufFile& file, Input& standard_input) const {
    LoadOptions chosen;
    if (Result<> applied = chat_template_.Apply(standard_input, chosen); !applied) {
      return Forward(applied);
    }
    if (chosen.chat_template_text) return *chosen.chat_template_text;
    if (chosen.chat_template_name) {
      const Result<ChatTemplate> builtin = ChatTemplate::Builtin(*chosen.chat_template_name);
      if (!builtin) return Forward(builtin);
      return builtin->source();
    }
    if (!file.Has(kTemplateKey)) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("{}: has no chat template; name one with --chat-template ({})",
                              model_.path(), fmt::join(ChatTemplate::BuiltinNames(), ", ")));
    }
    const Result<std::string_view> text = file.GetString(kTemplateKey);
    if (!text) return Forward(text);
    return std::string(*text);
  }

  // Takes template and special tokens from the model file.
  Result<> ReadModel(Input& standard_input, TemplateCommandOptions& options) const {
    const Result<GgufFile> file = GgufFile::Open(model_.path());
    if (!file) return Forward(file);
    Result<std::string> text = TemplateOf(*file, standard_input);
    if (!text) return Forward(text);
    options.template_text = *std::move(text);
    if (bos_.has_value() && eos_.has_value()) return {};
    const Result<Tokenizer> tokenizer = TokenizerFromGguf(*file);
    if (!tokenizer) return Forward(tokenizer);
    const auto piece = [&](TokenId id) {
      return tokenizer->IsToken(id) ? std::string(tokenizer->Piece(id)) : std::string();
    };
    options.bos_token = bos_.value_or(piece(tokenizer->bos()));
    options.eos_token = eos_.value_or(piece(tokenizer->eos()));
    return {};
  }

  ModelArgument model_;
  ChatTemplateOption chat_template_;
  std::optional<std::string> template_file_;
  std::optional<std::string> messages_file_;
  std::optional<std::string> tools_file_;
  bool no_generation_prompt_ = false;
  bool continue_final_message_ = false;
  bool adapt_ = false;
  std::optional<std::string> bos_;
  std::optional<std::string> eos_;
  std::optional<CivilTime> now_;
  std::vector<TemplateVariable> variables_;
};

}  // namespace

std::unique_ptr<Command> MakeTemplateCommand() {
  return std::make_unique<TemplateCommand>();
}

}  // namespace baton
