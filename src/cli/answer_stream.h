// Shows a generation while it runs: progress of the prefill, then the answer's text.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "cli/console.h"
#include "cli/figures.h"
#include "cli/progress.h"
#include "engine/generator.h"

namespace baton {

// Writes text to console.out as it becomes certain. If writing fails, the generation is asked to
// stop, as by Ctrl-C, and `written` tells why.
class AnswerStream final : public GenerationObserver {
 public:
  // `show_text` false: only progress. Requires: `console` outlives the stream.
  AnswerStream(Console& console, bool show_text);

  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override;
  void OnToken(const SampledToken& token) override;
  void OnText(std::string_view text) override;

  // Ends the answer's last line, unless nothing was shown or it ended already; then as `written`.
  Result<> Finish();

  // How far the prompt was read.
  const PromptReading& reading() const { return reading_; }

  // The first failure to write.
  const Result<>& written() const { return written_; }

 private:
  Console& console_;
  const bool show_text_;
  Progress progress_;
  int64_t start_ns_;
  PromptReading reading_;
  bool line_is_open_ = false;
  Result<> written_;
};

}  // namespace baton
