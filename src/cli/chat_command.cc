#include "cli/chat_command.h"

#include <fmt/format.h>

#include "base/near_match.h"
#include "base/number_text.h"
#include "cli/answer_stream.h"
#include "cli/cache_option.h"
#include "cli/chat_input.h"
#include "cli/chat_prompt.h"
#include "cli/chat_template_option.h"
#include "cli/conversation.h"
#include "cli/conversation_file.h"
#include "cli/figures.h"
#include "cli/input.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/printable.h"
#include "cli/prompt_text.h"
#include "cli/sampling_options.h"

namespace baton {
namespace {

// Messages quote names and texts from files, of any length and with any bytes.
constexpr size_t kMaxComplaintBytes = 1000;

constexpr std::string_view kChatHelp =
    "/help         this list\n"
    "/reset        forget the conversation\n"
    "/save FILE    write the conversation as JSON\n"
    "/load FILE    go on with a saved conversation\n"
    "/exit         leave (so does Ctrl-D)\n"
    "A line that ends in \\ goes on in the next; \"\"\" opens and closes a message of\n"
    "many lines. Ctrl-C stops an answer, or drops what is half typed.\n";

// One chat, from the opened model to the last line of input.
class ChatSession {
 public:
  struct Options {
    GenerationRequest request;  // all but the prompt
    std::optional<std::string> system;
    std::string document;  // put in front of the first message; may be empty
    bool quiet = false;
  };

  ChatSession(LoadedModel& model, Generator& generator, Console& console, Options options)
      : model_(model),
        generator_(generator),
        console_(console),
        options_(std::move(options)),
        conversation_(options_.system),
        document_(options_.document) {}

  // Errors: what ends the chat: input or output that broke, Ctrl-C where nobody types.
  Result<> Run() {
    const InterruptScope scope(console_.interrupt);
    while (true) {
      const Result<ChatEntry> entry =
          ReadChatEntry(console_.in, console_.interactive ? &console_.out : nullptr);
      if (!entry) return Forward(entry);
      switch (entry->kind) {
        case ChatEntry::Kind::kEnd:
          if (console_.interactive) return console_.out.Write("\n");
          return End();
        case ChatEntry::Kind::kInterrupted:
          console_.interrupt.Clear();
          if (!console_.interactive) return Fail(ErrorCode::kCancelled, "stopped by Ctrl-C");
          Tell("\n(/exit or Ctrl-D leaves)\n");
          break;
        case ChatEntry::Kind::kCommand:
          if (entry->name == "exit" || entry->name == "quit") return End();
          Obey(*entry);
          break;
        case ChatEntry::Kind::kMessage: {
          const Result<> answered = Answer(entry->text);
          if (!answered) return answered;
          break;
        }
      }
    }
  }

  // Whether what is cached, if anything, is of a conversation that was forgotten or replaced. The
  // next answer keeps only what they have in common.
  bool is_cache_left_over() const { return is_cache_left_over_; }

 private:
  // Everything that is not an answer goes to standard error, where it cannot mix with answers.
  void Tell(std::string_view text) { (void)console_.err.Write(text); }
  void Complain(const std::string& message) {
    ++num_failures_;
    Tell(fmt::format("baton chat: {}\n", PrintableEnds(message, kMaxComplaintBytes)));
  }

  // A person has seen what failed; a script looks at the exit status.
  Result<> End() const {
    if (console_.interactive || num_failures_ == 0) return {};
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} of the messages and commands failed, as told above",
                            CountText(num_failures_)));
  }

  void Obey(const ChatEntry& entry) {
    if (entry.name == "help") {
      Tell(kChatHelp);
    } else if (entry.name == "reset") {
      conversation_.Reset();
      is_cache_left_over_ = true;
      document_ = options_.document;
      Tell("The conversation is forgotten.\n");
    } else if (entry.name == "save" || entry.name == "load") {
      if (entry.argument.empty()) {
        Complain(fmt::format("/{} needs the name of a file", entry.name));
      } else if (entry.name == "save") {
        Save(entry.argument);
      } else {
        Load(entry.argument);
      }
    } else {
      const std::vector<std::string> names = {"/help", "/reset", "/save", "/load", "/exit"};
      const std::string hint = DidYouMean("/" + entry.name, names);
      Complain(
          fmt::format("no command '/{}'{} /help lists them; a blank in front makes it a "
                      "message",
                      entry.name, hint.empty() ? std::string(";") : hint));
    }
  }

  void Save(const std::string& path) {
    const Result<> saved = SaveConversation(path, conversation_.messages(), console_.interrupt);
    if (!saved) {
      Complain(saved.error().message);
      return;
    }
    Tell(fmt::format("Saved {} to '{}'.\n",
                     CountOf(std::ssize(conversation_.messages()), "message"), path));
  }

  void Load(const std::string& path) {
    Result<std::vector<ConversationMessage>> messages = LoadConversation(path);
    if (!messages) {
      Complain(messages.error().message);
      return;
    }
    const int64_t num_loaded = std::ssize(*messages);
    conversation_.Replace(std::move(*messages));
    is_cache_left_over_ = true;
    document_.clear();
    Tell(fmt::format("Loaded {}.\n", CountOf(num_loaded, "message")));
  }

  // One turn. A message that cannot be answered is told and dropped; the chat goes on.
  // Errors: output that broke.
  Result<> Answer(std::string message) {
    Result<std::string> text = RequireUtf8(std::move(message), "the message");
    if (!text) {
      Complain(text.error().message);
      return {};
    }
    conversation_.AddUser(JoinTexts({document_, *text}));
    AnswerStream stream(console_, /*show_text=*/true);
    const Result<GenerationResult> result = Generate(stream);
    const Result<> written = stream.Finish();
    console_.interrupt.Clear();
    if (!written) return written;
    if (!result) {
      conversation_.DropLast();
      Complain(result.error().message);
      return {};
    }
    if (!options_.quiet) Tell(FiguresNote(*result, stream.reading()));
    if (result->stop_reason == StopReason::kCancelled && result->tokens.empty()) {
      conversation_.DropLast();
      return {};
    }
    document_.clear();
    std::vector<TokenId> ids;
    ids.reserve(result->tokens.size());
    for (const SampledToken& token : result->tokens) ids.push_back(token.id);
    conversation_.AddAnswer(result->text, ids, *model_.tokenizer);
    return {};
  }

  Result<GenerationResult> Generate(AnswerStream& stream) {
    const Result<std::string> rendered = RenderChat(model_, conversation_.messages());
    if (!rendered) return Forward(rendered);
    Result<std::vector<TokenId>> prompt = conversation_.Encode(*rendered, *model_.tokenizer);
    if (!prompt) return Forward(prompt);
    GenerationRequest request = options_.request;
    const Result<> fits = CheckFitsContext(*prompt, model_);
    if (!fits)
      return Fail(fits.error().code, fits.error().message + ", or /reset the conversation");
    request.prompt = std::move(*prompt);
    Result<GenerationResult> result =
        generator_.Generate(request, stream, console_.interrupt.requested());
    if (result) is_cache_left_over_ = false;
    return result;
  }

  LoadedModel& model_;
  Generator& generator_;
  Console& console_;
  const Options options_;
  Conversation conversation_;
  std::string document_;
  int64_t num_failures_ = 0;
  bool is_cache_left_over_ = false;
};

class ChatCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "chat",
            .summary = "talk in the terminal",
            .usages = {"MODEL [-f FILE]... [--system TEXT] [OPTION]..."},
            .description =
                {"Reads messages line by line and answers each. The conversation stays in the "
                 "cache, so a turn reads only what is new; the figures after each answer show "
                 "how much was cached. Files given with -f stand in front of the first message.",
                 "A line that ends in \\ goes on in the next; \"\"\" opens and closes a message "
                 "of many lines. /help, /reset, /save FILE, /load FILE and /exit are commands; a "
                 "blank in front makes them a message. Ctrl-C stops the answer, not the program, "
                 "and at the prompt drops what is half typed; Ctrl-D leaves. A terminal passes on "
                 "at most 4,095 bytes of a line: longer texts belong in a file.",
                 "Without a terminal, messages are read from standard input until its end, and "
                 "the answers go to standard output."},
            .examples = {"baton chat model.gguf -f notes.txt --system 'Answer briefly.'"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Conversation");
    options.Files({.names = "-f,--file",
                   .value = "FILE",
                   .help = "A text (UTF-8) in front of the first message; may be repeated"},
                  &files_);
    options.Text({.names = "--system", .value = "TEXT", .help = "A system message"}, &system_);
    chat_template_.Declare(options);
    options.Flag({.names = "-q,--quiet", .value = "", .help = "Print no figures"}, &quiet_);
    sampling_.Declare(options);
    cache_.Declare(options);
    compute_.Declare(options);
  }

  Result<> Check() override {
    const Result<> model = model_.Check();
    if (!model) return model;
    for (const std::string& file : files_) {
      if (file != "-") continue;
      return Fail(ErrorCode::kInvalid, "-f takes a file here; standard input holds the messages");
    }
    if (Result<> sound = compute_.Check(); !sound) return sound;
    return sampling_.Check();
  }

  Result<> Run(Console& console) override {
    if (console.interactive) console.in.HoldEcho();
    ChatSession::Options options;
    if (!files_.empty()) {
      Result<std::string> document =
          ReadPrompt({.files = files_, .question = std::nullopt}, console.in);
      if (!document) return Forward(document);
      options.document = std::move(*document);
    }
    sampling_.Apply(options.request);
    options.system = system_;
    options.quiet = quiet_;
    Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    if (Result<> can_save = cache_.CheckPaths(); !can_save) return can_save;
    const Result<> chosen = chat_template_.Apply(console.in, *load);
    if (!chosen) return chosen;
    const Result<> has_template = CheckHasChatTemplate(*load);
    if (!has_template) return has_template;
    Result<LoadedModel> model = OpenModel(*load, console);
    if (!model) return Forward(model);
    const Result<> known = sampling_.CheckVocabulary(model->model->spec().vocab_size);
    if (!known) return known;
    Result<Generator> generator = Generator::Make(*model);
    if (!generator) return Forward(generator);
    if (Result<> loaded = cache_.Load(*generator, console); !loaded) return loaded;
    if (console.interactive) (void)console.err.Write("/help lists the commands; /exit leaves.\n");
    console.in.ReleaseEcho();
    ChatSession session(*model, *generator, console, std::move(options));
    Result<> done = session.Run();
    done = session.is_cache_left_over() ? cache_.Forgo(std::move(done))
                                        : cache_.Save(std::move(done), *generator, console);
    return compute_.Finish(std::move(done), console);
  }

 private:
  ModelArgument model_;
  ComputeOptions compute_;
  SamplingOptions sampling_;
  std::vector<std::string> files_;
  std::optional<std::string> system_;
  ChatTemplateOption chat_template_;
  CacheOption cache_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeChatCommand() {
  return std::make_unique<ChatCommand>();
}

}  // namespace baton
