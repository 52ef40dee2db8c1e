#include "evaluate/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/number_text.h"
#include "base/rng.h"
#include "evaluate/log_sum_exp.h"
#include "evaluate/logit_distance.h"
#include "evaluate/prompt_reader.h"

namespace baton {
namespace {

constexpr std::array<std::string_view, 16> kNames = {
    "Lisbon", "Oslo",   "Cairo",   "Quito",  "Dublin", "Havana", "Tunis", "Prague",
    "Manila", "Berlin", "Nairobi", "Athens", "Warsaw", "Lima",   "Seoul", "Vienna"};

constexpr std::array<std::string_view, 12> kFiller = {
    "The road along the river is wide and quiet.",
    "Most of the houses here are built of grey stone.",
    "A cat sat on the wall and looked at the rain.",
    "In the evening the shops close one after another.",
    "Somebody had left a bicycle in front of the bakery.",
    "The clock of the station is five minutes slow.",
    "Bread, milk and apples are on the list for tomorrow.",
    "Clouds come in from the west and move on over the hills.",
    "The path behind the school leads to an old garden.",
    "On Sundays a band plays in the park until noon.",
    "The train was late again, and nobody was surprised.",
    "Children throw small flat stones over the water."};

// Tokens before a place in which the end of a line is looked for.
constexpr int64_t kLineReach = 128;

struct Needle {
  std::string statement;
  std::string question;
  std::string answer;
};

Needle MakeNeedle(const NeedlePlace& place, uint64_t seed) {
  RandomStream random({.seed = seed,
                       .stream = static_cast<uint64_t>(place.length) << 24 |
                                 static_cast<uint64_t>(place.depth) << 16 |
                                 static_cast<uint64_t>(place.trial)});
  const std::string_view name = kNames[random.NextBelow(kNames.size())];
  const uint64_t code = 1000 + random.NextBelow(9000);
  return {.statement = fmt::format("\nThe secret code of {} is {}.\n", name, code),
          .question = fmt::format("\nThe secret code of {} is", name),
          .answer = fmt::format(" {}", code)};
}

Result<std::vector<TokenId>> TokensOf(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, {.add_special = false, .parse_special = false});
}

// The question's tokens and the answer's, as they are when both stand together.
struct Asked {
  std::vector<TokenId> question;
  std::vector<TokenId> answer;
};

Result<Asked> AskedOf(const Tokenizer& tokenizer, const Needle& needle) {
  const Result<std::vector<TokenId>> question = TokensOf(tokenizer, needle.question);
  if (!question) return Forward(question);
  const Result<std::vector<TokenId>> both = TokensOf(tokenizer, needle.question + needle.answer);
  if (!both) return Forward(both);
  const auto split =
      std::mismatch(both->begin(), both->end(), question->begin(), question->end()).first;
  return Asked{.question = {both->begin(), split}, .answer = {split, both->end()}};
}

// The place after the last line's end shortly before `place`, or the place itself.
int64_t AfterLine(const Tokenizer& tokenizer, std::span<const TokenId> tokens, int64_t place) {
  for (int64_t i = place; i > std::max<int64_t>(0, place - kLineReach); --i) {
    const TokenId id = tokens[static_cast<size_t>(i) - 1];
    if (tokenizer.DecodedPiece(id, {}, false).ends_with('\n')) return i;
  }
  return place;
}

// What one run says of the answer.
struct Answer {
  bool is_found = true;
  double log_probability = 0;
};

// Reads prompts and keeps count of what is read.
class NeedleRun {
 public:
  NeedleRun(LoadedModel& model, PromptReader reader, const NeedleOptions& options,
            const TokenProgress& progress, const std::atomic<bool>& cancel)
      : model_(&model), reader_(std::move(reader)), progress_(progress), cancel_(cancel) {
    for (const int64_t length : options.lengths) {
      total_ += length * std::ssize(options.depths) * options.num_trials *
                (std::ssize(options.policies) + 1);
    }
  }

  Result<Answer> Read(const NeedlePrompt& prompt, const SparsePolicy* policy) {
    const int64_t end = std::ssize(prompt.tokens);
    std::vector<int64_t> positions;
    for (int64_t i = prompt.num_answer_tokens; i > 0; --i) positions.push_back(end - i - 1);
    Answer answer;
    const Result<double> read = reader_.Read(
        {.tokens = prompt.tokens, .policy = policy, .positions = positions},
        [&](int64_t position, std::span<const float> logits) {
          const TokenId right = prompt.tokens[static_cast<size_t>(position) + 1];
          answer.is_found = answer.is_found && LikeliestToken(logits) == right;
          answer.log_probability += static_cast<double>(logits[static_cast<size_t>(right)]) -
                                    LogSumExp(logits, *model_->pool, partials_);
        },
        [&](int64_t done) {
          if (progress_) progress_(before_ + done, total_);
        },
        cancel_);
    if (!read) return Forward(read);
    before_ += end;
    return answer;
  }

 private:
  LoadedModel* model_;
  PromptReader reader_;
  const TokenProgress& progress_;
  const std::atomic<bool>& cancel_;
  std::vector<double> partials_;
  int64_t before_ = 0;
  int64_t total_ = 0;
};

void Add(const Answer& answer, NeedleCell& cell) {
  const double sum = cell.log_probability * cell.trials + answer.log_probability;
  ++cell.trials;
  cell.found += answer.is_found ? 1 : 0;
  cell.log_probability = sum / cell.trials;
}

Result<> CheckOptions(const NeedleOptions& options, const LoadedModel& model) {
  if (options.lengths.empty() || options.depths.empty()) {
    return Fail(ErrorCode::kInvalid, "there must be at least one length and one depth");
  }
  for (const int64_t depth : options.depths) {
    if (depth >= 0 && depth <= 100) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("a depth must be in 0..100 percent, got {}", depth));
  }
  if (options.num_trials < 1 || options.num_trials > NeedleLimits::kMaxTrials) {
    return Fail(ErrorCode::kInvalid, fmt::format("trials must be in 1..{}, got {}",
                                                 NeedleLimits::kMaxTrials, options.num_trials));
  }
  for (const SparsePolicy& policy : options.policies) {
    Result<> valid = ValidatePolicyFor(policy, PolicyModelOf(model.model->spec()));
    if (!valid) return valid;
  }
  return {};
}

NeedleGrid EmptyGrid(const NeedleOptions& options) {
  return NeedleGrid(options.lengths.size(), std::vector<NeedleCell>(options.depths.size()));
}

}  // namespace

Result<NeedlePrompt> MakeNeedlePrompt(const Tokenizer& tokenizer,
                                      std::span<const TokenId> text_tokens,
                                      const NeedlePlace& place, uint64_t seed) {
  const Needle needle = MakeNeedle(place, seed);
  const Result<std::vector<TokenId>> statement = TokensOf(tokenizer, needle.statement);
  if (!statement) return Forward(statement);
  const Result<Asked> asked = AskedOf(tokenizer, needle);
  if (!asked) return Forward(asked);
  const bool has_bos = tokenizer.adds_bos() && tokenizer.bos() != kNoToken;
  const int64_t text_size = place.length - (has_bos ? 1 : 0) - std::ssize(*statement) -
                            std::ssize(asked->question) - std::ssize(asked->answer);
  if (place.length < NeedleLimits::kMinLength || text_size < 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("a prompt with a needle must have at least {} tokens, got {}",
                            NeedleLimits::kMinLength, place.length));
  }
  if (text_size > std::ssize(text_tokens)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the text has {}, too few for prompts of {}; give a longer text "
                            "or smaller lengths",
                            CountOf(std::ssize(text_tokens), "token"), CountText(place.length)));
  }
  const std::span<const TokenId> text = text_tokens.first(static_cast<size_t>(text_size));
  const int64_t at = AfterLine(tokenizer, text, text_size * place.depth / 100);
  NeedlePrompt prompt;
  if (has_bos) prompt.tokens.push_back(tokenizer.bos());
  const auto middle = text.begin() + at;
  prompt.tokens.insert(prompt.tokens.end(), text.begin(), middle);
  prompt.needle_position = std::ssize(prompt.tokens);
  prompt.tokens.insert(prompt.tokens.end(), statement->begin(), statement->end());
  prompt.tokens.insert(prompt.tokens.end(), middle, text.end());
  prompt.tokens.insert(prompt.tokens.end(), asked->question.begin(), asked->question.end());
  prompt.tokens.insert(prompt.tokens.end(), asked->answer.begin(), asked->answer.end());
  prompt.num_answer_tokens = std::ssize(asked->answer);
  return prompt;
}

std::string FillerText(int64_t num_bytes, uint64_t seed) {
  RandomStream random({.seed = seed, .stream = 0});
  std::string text;
  while (std::ssize(text) < num_bytes) {
    text += kFiller[random.NextBelow(kFiller.size())];
    text += random.NextBelow(6) == 0 ? '\n' : ' ';
  }
  return text;
}

Result<NeedleResult> MeasureNeedles(LoadedModel& model, const NeedleOptions& options,
                                    const TokenProgress& progress,
                                    const std::atomic<bool>& cancel) {
  if (Result<> valid = CheckOptions(options, model); !valid) return Forward(valid);
  const Result<std::vector<TokenId>> text = TokensOf(*model.tokenizer, options.text);
  if (!text) return Forward(text);
  const int64_t longest = *std::max_element(options.lengths.begin(), options.lengths.end());
  Result<PromptReader> reader = PromptReader::Make(model, longest);
  if (!reader) return Forward(reader);
  NeedleRun run(model, *std::move(reader), options, progress, cancel);
  NeedleResult result = {
      .dense = EmptyGrid(options),
      .policies = std::vector<NeedleGrid>(options.policies.size(), EmptyGrid(options))};
  for (size_t l = 0; l < options.lengths.size(); ++l) {
    for (size_t d = 0; d < options.depths.size(); ++d) {
      for (int trial = 0; trial < options.num_trials; ++trial) {
        const Result<NeedlePrompt> prompt = MakeNeedlePrompt(
            *model.tokenizer, *text,
            {.length = options.lengths[l], .depth = options.depths[d], .trial = trial},
            options.seed);
        if (!prompt) return Forward(prompt);
        Result<Answer> answer = run.Read(*prompt, nullptr);
        if (!answer) return Forward(answer);
        Add(*answer, result.dense[l][d]);
        for (size_t p = 0; p < options.policies.size(); ++p) {
          answer = run.Read(*prompt, &options.policies[p]);
          if (!answer) return Forward(answer);
          Add(*answer, result.policies[p][l][d]);
        }
      }
    }
  }
  return result;
}

}  // namespace baton
