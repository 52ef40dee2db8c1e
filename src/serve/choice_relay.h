// Hands what the engine tells of one choice over to the I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generation.h"
#include "serve/answer.h"

namespace baton {

// Threads: the engine's.
class ChoiceRelay final : public RequestObserver {
 public:
  // Requires: `host` outlives it.
  ChoiceRelay(std::shared_ptr<Answer> answer, int64_t choice, AnswerHost& host);

  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override;
  void OnPrompt(std::vector<SampledToken> tokens) override;
  void OnToken(const SampledToken& token) override;
  void OnText(std::string_view text) override;
  void OnDone(Result<GenerationResult> result) override;

 private:
  void HandOver();

  const std::shared_ptr<Answer> answer_;
  const int64_t choice_;
  AnswerHost& host_;
  const int64_t prompt_tokens_;
  std::string text_;
  std::vector<SampledToken> tokens_;
  int64_t last_token_ns_ = 0;
  int64_t last_progress_ns_ = 0;
};

}  // namespace baton
