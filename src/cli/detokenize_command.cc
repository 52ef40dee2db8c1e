#include "cli/detokenize_command.h"

#include "cli/model_argument.h"
#include "cli/open_model.h"
#include "cli/token_ids.h"

namespace baton {
namespace {

class DetokenizeCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "detokenize",
        .summary = "token ids to text",
        .usages = {"MODEL [-] [--no-special] < IDS"},
        .description =
            {"Reads token ids from standard input (a - says so, but need not be there), a JSON "
             "list ([1, 2]) or numbers "
             "between blanks (1 2), and writes the bytes that they spell, with nothing added. A "
             "file that holds only a vocabulary will do."},
        .examples = {"echo 504 2365 | baton detokenize model.gguf"}};
  }

  void Declare(OptionSet& options) override {
    model_.DeclareWithDash(options, "the ids come from standard input");
    options.Group("Decoding");
    options.Flag({.names = "--no-special",
                  .value = "",
                  .help = "Leave out special tokens instead of writing their names"},
                 &no_special_);
    for (const char* const name : {"-f", "--file", "--ids"}) {
      options.Elsewhere(
          name, "detokenize reads the ids from standard input: baton detokenize MODEL < FILE");
    }
  }

  Result<> Check() override { return model_.Check(); }

  Result<> Run(Console& console) override {
    const Result<Tokenizer> tokenizer = OpenTokenizer(model_.path());
    if (!tokenizer) return Forward(tokenizer);
    const Result<std::string> text = console.in.ReadAll(kMaxInputBytes);
    if (!text) return Forward(text);
    const Result<std::vector<TokenId>> ids = ParseTokenIds(*text, "standard input");
    if (!ids) return Forward(ids);
    const Result<> known =
        CheckTokenIds(*ids, static_cast<int64_t>(tokenizer->size()), "standard input");
    if (!known) return known;
    const Result<std::string> decoded =
        tokenizer->Decode(*ids, {.skip_special = no_special_, .starts_text = true});
    if (!decoded) return Forward(decoded);
    return console.out.Write(*decoded);
  }

 private:
  ModelArgument model_;
  bool no_special_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDetokenizeCommand() {
  return std::make_unique<DetokenizeCommand>();
}

}  // namespace baton
