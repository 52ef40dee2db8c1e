#include "cli/answer_stream.h"

#include "text/unicode.h"

namespace baton {

AnswerStream::AnswerStream(Console& console, bool show_text)
    : console_(console),
      show_text_(show_text),
      progress_(console.status, console.clock,
                {.what = "Reading the prompt",
                 .unit = ProgressUnit::kTokens,
                 .columns = console.columns}),
      start_ns_(console.clock.NowNs()) {}

void AnswerStream::OnPrefill(int64_t done_tokens, int64_t total_tokens) {
  reading_ = {.tokens = done_tokens,
              .seconds = static_cast<double>(console_.clock.NowNs() - start_ns_) * 1e-9};
  progress_.Update(done_tokens, total_tokens);
}

void AnswerStream::OnToken(const SampledToken&) {
  progress_.Clear();
}

void AnswerStream::OnText(std::string_view text) {
  progress_.Clear();
  if (!show_text_ || text.empty() || !written_) return;
  // What is no character would be garbage in a terminal and in a file of text.
  written_ = console_.out.Write(ReplaceInvalidUtf8(text));
  line_is_open_ = !text.ends_with('\n');
  if (!written_) console_.interrupt.Request();
}

Result<> AnswerStream::Finish() {
  progress_.Clear();
  if (line_is_open_ && written_) written_ = console_.out.Write("\n");
  line_is_open_ = false;
  return written_;
}

}  // namespace baton
