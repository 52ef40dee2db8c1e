#include "cli/run_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.h"
#include "cli/answer_json.h"
#include "cli/answer_stream.h"
#include "cli/cache_option.h"
#include "cli/chat_prompt.h"
#include "cli/chat_template_option.h"
#include "cli/conversation.h"
#include "cli/figures.h"
#include "cli/input.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/note.h"
#include "cli/open_model.h"
#include "cli/prompt_text.h"
#include "cli/same_file.h"
#include "cli/sampling_options.h"

namespace baton {
namespace {

// More would print a page for each token.
constexpr int64_t kMaxTopLogprobs = 100;
// A program on the other side of a pipe has started by then.
constexpr int kInputPatienceMs = 2000;

class RunCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "run",
            .summary = "answer once",
            .usages = {"MODEL [-f FILE]... [-p TEXT] [--system TEXT] [OPTION]...",
                       "MODEL [-] [OPTION]... < TEXT"},
            .description =
                {"Reads a text, asks the model, and writes the answer to standard output while "
                 "it is made. Figures of both phases go to standard error.",
                 "The files come first, in the order given, then standard input if - is among "
                 "the arguments, then the text of -p; an empty line separates them. Together "
                 "they are one user message for the model's chat template. The file, input or "
                 "-p text that stands alone is used as it is. Without any of them, a text that is "
                 "piped in is the prompt.",
                 "The answer is a function of model, prompt, precision and sampling options; "
                 "the seed is 0 unless --seed says otherwise. With --temp 0 it is the most "
                 "probable one, token by token."},
            .examples = {"baton run model.gguf -f report.txt -p 'What were the costs?' --temp 0",
                         "git diff | baton run model.gguf - -p 'Review this change.'"}};
  }

  void Declare(OptionSet& options) override {
    model_.DeclareWithDash(options, "a question goes with -p");
    options.Elsewhere("--prompt-file", "a text is given with -f");
    options.Group("Prompt");
    options.Files({.names = "-f,--file",
                   .value = "FILE",
                   .help = "A text (UTF-8) to put in front; - is standard input; may be "
                           "repeated",
                   .dash_is_input = true},
                  &files_);
    options.Text({.names = "-p,--prompt",
                  .value = "TEXT",
                  .help = "The question; - reads it from standard input",
                  .dash_is_input = true},
                 &question_);
    options.Text({.names = "--system", .value = "TEXT", .help = "A system message"}, &system_);
    chat_template_.Declare(options);
    options.Flag({.names = "--raw",
                  .value = "",
                  .help = "No chat template: the model goes on from the text as it is"},
                 &raw_);
    options.Flag({.names = "--no-special",
                  .value = "",
                  .help = "With --raw: names of special tokens are ordinary text"},
                 &no_special_);
    options.Flag(
        {.names = "--no-bos", .value = "", .help = "With --raw: add no token at the start"},
        &no_bos_);
    sampling_.Declare(options);
    options.Group("Output");
    options.Flag({.names = "--json",
                  .value = "",
                  .help = "Print one JSON object at the end: text, tokens, figures, policy"},
                 &json_);
    options.Integer({.names = "--logprobs",
                     .value = "N",
                     .help = "With --json: log-probabilities of each token and of the N best, of "
                             "the model's own distribution and of the one drawn from"},
                    {.min = 0, .max = kMaxTopLogprobs}, &logprobs_);
    options.Flag({.names = "-q,--quiet", .value = "", .help = "Print no figures"}, &quiet_);
    cache_.Declare(options);
    compute_.Declare(options);
  }

  Result<> Check() override {
    const Result<> model = model_.Check();
    if (!model) return model;
    if (!HasTexts() && question_.has_value() && question_->empty()) {
      return Fail(ErrorCode::kInvalid,
                  "--prompt is empty, and there is no other text; ask something with it, or give a "
                  "text with -f");
    }
    if (raw_ && (system_.has_value() || chat_template_.given())) {
      return Fail(ErrorCode::kInvalid,
                  "--raw leaves out the chat template, so --system and --chat-template cannot be "
                  "used with it");
    }
    if (!raw_ && (no_special_ || no_bos_)) {
      return Fail(ErrorCode::kInvalid, "--no-special and --no-bos go with --raw only");
    }
    if (logprobs_.has_value() && !json_) {
      return Fail(ErrorCode::kInvalid, "--logprobs goes with --json only");
    }
    if (Result<> sound = compute_.Check(); !sound) return sound;
    return sampling_.Check();
  }

  Result<> CheckInput(const Input& in) override {
    if (HasTexts() || question_.has_value()) return {};
    is_piped_ = in.HasText(kInputPatienceMs);
    if (is_piped_) return {};
    return Fail(
        ErrorCode::kInvalid,
        "nothing to answer: ask with -p, give a text with -f, or - for standard input (which "
        "is waited for 2 s only where no - asks for it)");
  }

  Result<> Run(Console& console) override {
    std::vector<std::string> files = files_;
    if (model_.has_dash() || is_piped_) files.emplace_back("-");
    const Result<std::string> text =
        ReadPrompt({.files = files, .question = question_}, console.in);
    if (!text) return Forward(text);
    Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    if (Result<> can_save = cache_.CheckPaths(); !can_save) return can_save;
    const Result<> chosen = chat_template_.Apply(console.in, *load);
    if (!chosen) return chosen;
    if (!raw_) {
      const Result<> has_template = CheckHasChatTemplate(*load);
      if (!has_template) return has_template;
    }
    Result<LoadedModel> model = OpenModel(*load, console);
    if (!model) return Forward(model);
    TellIfInputIsLeft(console);
    GenerationRequest request;
    sampling_.Apply(request);
    request.sampling.num_top_logprobs = logprobs_;
    const Result<> known = CheckVocabulary(model->model->spec().vocab_size);
    if (!known) return known;
    Result<std::vector<TokenId>> prompt = Encode(*text, *model);
    if (!prompt) return Forward(prompt);
    if (prompt->empty()) {
      return Fail(ErrorCode::kInvalid,
                  "the prompt comes to no token at all: this vocabulary drops blanks at the ends "
                  "of a text; add some words");
    }
    const Result<> fits = CheckFitsContext(*prompt, *model);
    if (!fits) return fits;
    request.prompt = std::move(*prompt);
    return compute_.Finish(Answer(request, *model, console), console);
  }

 private:
  bool HasTexts() const { return !files_.empty() || model_.has_dash(); }

  // Not while the model is loaded: by now whoever writes has begun.
  void TellIfInputIsLeft(Console& console) const {
    constexpr const char* kInputFile = "/dev/stdin";
    const auto is_input = [&](const std::string& path) { return IsSameFile(path, kInputFile); };
    if (quiet_ || std::any_of(files_.begin(), files_.end(), is_input)) return;
    if (!console.in.HasText(/*patience_ms=*/0)) return;
    Note("standard input has text that is not read; a - among the arguments adds it to the prompt",
         console);
  }

  Result<> CheckVocabulary(int64_t vocab_size) const {
    if (logprobs_.value_or(0) > vocab_size) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("--logprobs asks for {} tokens; the model's vocabulary has {}",
                              CountText(*logprobs_), CountText(vocab_size)));
    }
    return sampling_.CheckVocabulary(vocab_size);
  }

  Result<std::vector<TokenId>> Encode(const std::string& text, const LoadedModel& model) const {
    if (raw_) {
      return model.tokenizer->Encode(text,
                                     {.add_special = !no_bos_, .parse_special = !no_special_});
    }
    Conversation conversation(system_);
    conversation.AddUser(text);
    const Result<std::string> rendered = RenderChat(model, conversation.messages());
    if (!rendered) return Forward(rendered);
    return conversation.Encode(*rendered, *model.tokenizer);
  }

  Result<> Answer(const GenerationRequest& request, LoadedModel& model, Console& console) {
    Result<Generator> generator = Generator::Make(model);
    if (!generator) return Forward(generator);
    if (Result<> loaded = cache_.Load(*generator, console); !loaded) return loaded;
    return cache_.Save(Generate(request, model, *generator, console), *generator, console);
  }

  Result<> Generate(const GenerationRequest& request, const LoadedModel& model,
                    Generator& generator, Console& console) const {
    AnswerStream stream(console, /*show_text=*/!json_);
    const InterruptScope scope(console.interrupt);
    const Result<GenerationResult> result =
        generator.Generate(request, stream, console.interrupt.requested());
    Result<> written = stream.Finish();
    if (!result) return Forward(result);
    cache_.TellIfUnused(result->figures.cached_tokens, console);
    if (written && json_)
      written = console.out.Write(AnswerJson(request, *result, stream.reading(), model));
    if (!written) return written;
    // What cannot be told on standard error is no reason to fail.
    if (!quiet_ && !json_) (void)console.err.Write("\n" + FiguresText(*result, stream.reading()));
    if (result->stop_reason == StopReason::kCancelled) {
      return Fail(ErrorCode::kCancelled, "stopped by Ctrl-C");
    }
    return {};
  }

  ModelArgument model_;
  ComputeOptions compute_;
  SamplingOptions sampling_;
  std::vector<std::string> files_;
  std::optional<std::string> question_;
  std::optional<std::string> system_;
  ChatTemplateOption chat_template_;
  CacheOption cache_;
  std::optional<int64_t> logprobs_;
  bool is_piped_ = false;  // the prompt stands on standard input, as it stands nowhere else
  bool raw_ = false;
  bool no_special_ = false;
  bool no_bos_ = false;
  bool json_ = false;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() {
  return std::make_unique<RunCommand>();
}

}  // namespace baton
