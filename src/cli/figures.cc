#include "cli/figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/number_text.h"
#include "cli/printable.h"

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

}  // namespace

double PrefillTokensPerSecond(const GenerationFigures& figures) {
  const int64_t computed = figures.prompt_tokens - figures.cached_tokens;
  return figures.prefill_seconds > 0 ? static_cast<double>(computed) / figures.prefill_seconds : 0;
}

double DecodeTokensPerSecond(const GenerationFigures& figures) {
  const bool any = figures.decode_seconds > 0 && figures.generated_tokens > 1;
  return any ? static_cast<double>(figures.generated_tokens - 1) / figures.decode_seconds : 0;
}

std::string FiguresText(const GenerationResult& result) {
  const GenerationFigures& figures = result.figures;
  std::string text = fmt::format(
      "prompt   {} tokens, of which {} cached\n"
      "prefill  {:.1f} tokens/s, first token after {:.2f} s\n",
      CountText(figures.prompt_tokens), CountText(figures.cached_tokens),
      PrefillTokensPerSecond(figures), figures.first_token_seconds);
  text += fmt::format("decode   {} tokens, {:.1f} tokens/s\n", CountText(figures.generated_tokens),
                      DecodeTokensPerSecond(figures));
  text +=
      fmt::format("memory   {} of KV cache\n", BytesText(static_cast<uint64_t>(figures.kv_bytes)));
  text += fmt::format("stop     {}\n", EndText(result));
  return text;
}

std::string FiguresLine(const GenerationResult& result) {
  const GenerationFigures& figures = result.figures;
  return fmt::format(
      "[prompt {} tokens, {} cached; first token {:.2f} s, prefill {:.1f} tokens/s; {} tokens, "
      "{:.1f} tokens/s; {}]\n",
      figures.prompt_tokens, figures.cached_tokens, figures.first_token_seconds,
      PrefillTokensPerSecond(figures), figures.generated_tokens, DecodeTokensPerSecond(figures),
      EndText(result));
}

nlohmann::ordered_json FiguresJson(const GenerationFigures& figures) {
  return {{"prompt_tokens", figures.prompt_tokens},
          {"cached_tokens", figures.cached_tokens},
          {"generated_tokens", figures.generated_tokens},
          {"first_token_seconds", figures.first_token_seconds},
          {"prefill_seconds", figures.prefill_seconds},
          {"prefill_tokens_per_second", PrefillTokensPerSecond(figures)},
          {"decode_seconds", figures.decode_seconds},
          {"decode_tokens_per_second", DecodeTokensPerSecond(figures)},
          {"kv_bytes", figures.kv_bytes}};
}

}  // namespace baton
