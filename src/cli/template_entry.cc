#include "cli/template_entry.h"

#include "cli/local_time.h"
#include "cli/model_argument.h"
#include "cli/template_command.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf.h"

namespace baton {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::string PathOf(const std::string& path) {
  return path == "-" ? "/dev/stdin" : path;
}

class TemplateCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "template",
            .summary = "the prompt that a chat template makes of messages",
            .usages = {"MODEL --messages FILE [OPTION]...",
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
    model_.Declare(options, /*also_dash=*/false);
    options.Text({.names = "--template",
                  .value = "FILE",
                  .help = "Render this template instead of a model's"},
                 &template_file_);
    options.Group("What to render");
    options.Text({.names = "--messages",
                  .value = "FILE",
                  .help = "JSON: a list of messages, or an object with messages and, if need be, "
                          "tools, documents and extra variables; - is standard input"},
                 &messages_file_);
    options.Text({.names = "--tools", .value = "FILE", .help = "JSON: a list of tools"},
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
    options.Text({.names = "--now",
                  .value = "TIME",
                  .help = "Time for templates that print it: 2024-07-26 or 2024-07-26T14:03:09 "
                          "(default: now)"},
                 &now_);
    options.Texts(
        {.names = "--var", .value = "NAME=JSON", .help = "Another variable; may be repeated"},
        &variables_);
  }

  Result<> Check() override {
    if (!messages_file_.has_value()) {
      return Fail(ErrorCode::kInvalid, "name the messages: --messages FILE");
    }
    if (template_file_.has_value() && model_.given()) {
      return Fail(ErrorCode::kInvalid, "a MODEL and --template exclude each other");
    }
    if (template_file_.has_value()) return {};
    if (!model_.given()) {
      return Fail(ErrorCode::kInvalid, "name a model file, MODEL, or a template, --template FILE");
    }
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    TemplateCommandOptions options = {
        .template_text = std::nullopt,
        .template_file = template_file_,
        .messages_file = PathOf(*messages_file_),
        .tools_file = tools_file_,
        .add_generation_prompt = !no_generation_prompt_ && !continue_final_message_,
        .continue_final_message = continue_final_message_,
        .adapt_shapes = adapt_,
        .bos_token = bos_.value_or(""),
        .eos_token = eos_.value_or(""),
        .now = now_,
        .clock = LocalTimeNow(),
        .variables = variables_};
    if (!template_file_.has_value()) {
      const Result<> read = ReadModel(options);
      if (!read) return read;
    }
    const Result<std::string> prompt = RenderTemplateCommand(options);
    if (!prompt) return Forward(prompt);
    return console.out.Write(*prompt);
  }

 private:
  // Takes template and special tokens from the model file.
  Result<> ReadModel(TemplateCommandOptions& options) const {
    const Result<GgufFile> file = GgufFile::Open(model_.path());
    if (!file) return Forward(file);
    if (!file->Has(kTemplateKey)) {
      return Fail(ErrorCode::kNotFound,
                  model_.path() + ": has no chat template; render one with --template FILE");
    }
    const Result<std::string_view> text = file->GetString(kTemplateKey);
    if (!text) return Forward(text);
    options.template_text = std::string(*text);
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
  std::optional<std::string> template_file_;
  std::optional<std::string> messages_file_;
  std::optional<std::string> tools_file_;
  bool no_generation_prompt_ = false;
  bool continue_final_message_ = false;
  bool adapt_ = false;
  std::optional<std::string> bos_;
  std::optional<std::string> eos_;
  std::optional<std::string> now_;
  std::vector<std::string> variables_;
};

}  // namespace

std::unique_ptr<Command> MakeTemplateCommand() {
  return std::make_unique<TemplateCommand>();
}

}  // namespace baton
