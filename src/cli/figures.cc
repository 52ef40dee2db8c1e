#include "cli/figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/number_text.h"
#include "cli/printable.h"
#include "engine/prefill_report_json.h"

namespace baton {
namespace {

constexpr size_t kMaxStopBytes = 60;

std::string EndText(const GenerationResult& result) {
  std::string text(StopReasonName(result.stop_reason));
  if (!result.stopped_by.empty()) {
    text += fmt::format(" '{}'", Printable(result.stopped_by, kMaxStopBytes));
  }
  return text;
}

std::string TokensText(int64_t count) {
  return fmt::format("{} token{}", CountText(count), count == 1 ? "" : "s");
}

// ", 12.3 tokens/s", or nothing.
std::string RateText(const std::optional<double>& tokens_per_second) {
  if (!tokens_per_second.has_value()) return {};
  return fmt::format(", {} tokens/s", TenthsText(*tokens_per_second));
}

std::optional<double> Rate(int64_t tokens, double seconds) {
  if (tokens <= 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(tokens) / seconds;
}

// What became of a prompt that was not read to its end: "stopped after 64 of 2,744 tokens".
std::string StoppedText(const AnswerFigures& figures) {
  if (figures.reading.tokens == 0) return "nothing was read";
  const int64_t wanted = figures.counted.prompt_tokens - figures.counted.cached_tokens;
  return fmt::format("stopped after {} of {}", CountText(figures.reading.tokens),
                     TokensText(wanted)) +
         RateText(figures.prefill_tokens_per_second);
}

// ", sparse (43.1% of blocks read)", ", dense", or nothing where nobody asked.
std::string PolicyNote(const GenerationFigures& counted) {
  if (!counted.prefill_policy) return {};
  if (!counted.prefill) return ", " + *counted.prefill_policy;
  return fmt::format(", sparse ({:.1f}% of blocks read)", 100 * PrefillDensity(*counted.prefill));
}

using Reported = double (*)(double);

nlohmann::ordered_json OrNull(const std::optional<double>& value, Reported reported) {
  return value.has_value() ? nlohmann::ordered_json(reported(*value)) : nlohmann::ordered_json();
}

}  // namespace

AnswerFigures FiguresOf(const GenerationFigures& figures, const PromptReading& reading) {
  AnswerFigures answer = {.counted = figures,
                          .reading = reading,
                          .first_token_seconds = std::nullopt,
                          .prefill_tokens_per_second = std::nullopt,
                          .decode_seconds = std::nullopt,
                          .decode_tokens_per_second = std::nullopt};
  if (figures.first_token_seconds > 0) {
    answer.reading = {.tokens = figures.prompt_tokens - figures.cached_tokens,
                      .seconds = figures.prefill_seconds};
    answer.first_token_seconds = figures.first_token_seconds;
    answer.decode_seconds = figures.decode_seconds;
    answer.decode_tokens_per_second = Rate(figures.generated_tokens - 1, figures.decode_seconds);
  }
  answer.prefill_tokens_per_second = Rate(answer.reading.tokens, answer.reading.seconds);
  return answer;
}

std::string FiguresText(const GenerationResult& result, const PromptReading& reading) {
  const AnswerFigures figures = FiguresOf(result.figures, reading);
  const GenerationFigures& counted = figures.counted;
  std::string text =
      fmt::format("prompt   {}, of which {} cached\n", TokensText(counted.prompt_tokens),
                  CountText(counted.cached_tokens));
  if (figures.first_token_seconds.has_value()) {
    text += fmt::format("prefill  {} tokens/s, first token after {:.2f} s\n",
                        TenthsText(figures.prefill_tokens_per_second.value_or(0)),
                        *figures.first_token_seconds);
  } else {
    text += fmt::format("prefill  {}\n", StoppedText(figures));
  }
  if (counted.prefill) {
    text += fmt::format("sparse   {:.1f}% of the past's blocks read\n",
                        100 * PrefillDensity(*counted.prefill));
  }
  if (counted.prefill_policy) text += fmt::format("policy   {}\n", *counted.prefill_policy);
  text += fmt::format("decode   {}{}\n", TokensText(counted.generated_tokens),
                      RateText(figures.decode_tokens_per_second));
  text +=
      fmt::format("memory   {} of KV cache\n", BytesText(static_cast<uint64_t>(counted.kv_bytes)));
  text += fmt::format("stop     {}\n", EndText(result));
  return text;
}

std::string FiguresNote(const GenerationResult& result, const PromptReading& reading) {
  const AnswerFigures figures = FiguresOf(result.figures, reading);
  const GenerationFigures& counted = figures.counted;
  const std::string prefill =
      figures.first_token_seconds.has_value()
          ? fmt::format("first token {:.2f} s, prefill {} tokens/s", *figures.first_token_seconds,
                        TenthsText(figures.prefill_tokens_per_second.value_or(0)))
          : StoppedText(figures);
  return fmt::format("[prompt {}, {} cached; {}{};\n {}{}; {}]\n",
                     TokensText(counted.prompt_tokens), CountText(counted.cached_tokens), prefill,
                     PolicyNote(counted), TokensText(counted.generated_tokens),
                     RateText(figures.decode_tokens_per_second), EndText(result));
}

nlohmann::ordered_json FiguresJson(const GenerationFigures& counted, const PromptReading& reading) {
  const AnswerFigures figures = FiguresOf(counted, reading);
  return {{"prompt_tokens", counted.prompt_tokens},
          {"cached_tokens", counted.cached_tokens},
          {"prefill_tokens", figures.reading.tokens},
          {"generated_tokens", counted.generated_tokens},
          {"first_token_seconds", OrNull(figures.first_token_seconds, ReportedSeconds)},
          {"prefill_seconds", ReportedSeconds(figures.reading.seconds)},
          {"prefill_tokens_per_second", OrNull(figures.prefill_tokens_per_second, ReportedRate)},
          {"decode_seconds", OrNull(figures.decode_seconds, ReportedSeconds)},
          {"decode_tokens_per_second", OrNull(figures.decode_tokens_per_second, ReportedRate)},
          {"kv_bytes", counted.kv_bytes},
          {"sparse_prefill", counted.prefill ? PrefillReportJson(*counted.prefill) : nullptr}};
}

}  // namespace baton
