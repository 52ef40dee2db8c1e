#include "cli/tokenize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/number_text.h"
#include "cli/model_argument.h"
#include "cli/open_model.h"

namespace baton {
namespace {

std::string IdsText(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}", id);
  }
  return text + "\n";
}

std::string IdsJson(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
  for (const TokenId id : ids) pieces.push_back(std::string(tokenizer.Piece(id)));
  const nlohmann::ordered_json json = {
      {"count", ids.size()}, {"ids", ids}, {"pieces", std::move(pieces)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int64_t Count(std::string_view text, std::string_view word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

// Parts of the text that the ids do not spell: what has no piece becomes the unknown token, or
// U+FFFD.
int64_t CountLost(std::string_view text, const Tokenizer& tokenizer) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  const Result<std::vector<TokenId>> ids =
      tokenizer.Encode(text, {.add_special = false, .parse_special = false});
  if (!ids) return 0;
  // Ordinary text makes no control token, so what stands for no text is the unknown one.
  const auto unknown =
      std::count_if(ids->begin(), ids->end(), [&](TokenId id) { return tokenizer.IsControl(id); });
  const Result<std::string> spelled = tokenizer.Decode(*ids, {.skip_special = true});
  if (!spelled) return unknown;
  return unknown + std::max<int64_t>(0, Count(*spelled, kReplacement) - Count(text, kReplacement));
}

class TokenizeCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "tokenize",
            .summary = "text to token ids",
            .usages = {"MODEL [-] [--json] [--no-special] [--no-bos] < TEXT"},
            .description =
                {"Reads text from standard input (a - says so, but need not be there) and prints "
                 "the ids of its tokens, "
                 "separated by blanks. The names of special tokens in the text mean "
                 "the tokens, and the tokens that the model wants at the start and the "
                 "end are added. A file that holds only a vocabulary will do. Bytes "
                 "that are not UTF-8 are encoded one by one. Some vocabularies have no piece for "
                 "some characters or bytes; those are lost, and a note on standard "
                 "error counts them."},
            .examples = {"printf 'Hello, world' | baton tokenize model.gguf"}};
  }

  void Declare(OptionSet& options) override {
    model_.DeclareWithDash(options, "the text comes from standard input");
    options.Group("Encoding");
    options.Flag({.names = "--no-special",
                  .value = "",
                  .help = "Take the names of special tokens in the text for ordinary text"},
                 &no_special_);
    options.Flag({.names = "--no-bos",
                  .value = "",
                  .help = "Add no token at the start (or the end) of the text"},
                 &no_bos_);
    options.Flag({.names = "--json",
                  .value = "",
                  .help = "Print one JSON object: count, ids, pieces (the text of each token; "
                          "parts of characters show as U+FFFD)"},
                 &json_);
    for (const char* const name : {"-f", "--file", "-p", "--prompt", "--text"}) {
      options.Elsewhere(name,
                        "tokenize reads the text from standard input: baton tokenize MODEL < FILE");
    }
  }

  Result<> Check() override { return model_.Check(); }

  Result<> Run(Console& console) override {
    const Result<Tokenizer> tokenizer = OpenTokenizer(model_.path());
    if (!tokenizer) return Forward(tokenizer);
    const Result<std::string> text = console.in.ReadAll(kMaxInputBytes);
    if (!text) return Forward(text);
    const Result<std::vector<TokenId>> ids =
        tokenizer->Encode(*text, {.add_special = !no_bos_, .parse_special = !no_special_});
    if (!ids) return Forward(ids);
    const int64_t num_lost = CountLost(*text, *tokenizer);
    if (num_lost > 0) {
      // A note that cannot be written stops nothing.
      (void)console.err.Write(fmt::format(
          "baton: note: this vocabulary has no token for {} of the text's characters or bytes; {} "
          "cannot be had back from the ids\n",
          CountText(num_lost), num_lost == 1 ? "it" : "they"));
    }
    return console.out.Write(json_ ? IdsJson(*ids, *tokenizer) : IdsText(*ids));
  }

 private:
  ModelArgument model_;
  bool no_special_ = false;
  bool no_bos_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand() {
  return std::make_unique<TokenizeCommand>();
}

}  // namespace baton
