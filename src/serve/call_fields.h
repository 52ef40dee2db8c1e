// The fields that chat and completions have in common.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/generation.h"
#include "serve/api_error.h"

namespace baton {

// Limits of what one call may ask for.
struct CallLimits {
  static constexpr int64_t kMaxChoices = 128;  // of all prompts together
  static constexpr int64_t kMaxTopLogprobs = 100;
  // Log-probabilities of all prompts' tokens and their alternatives in one answer.
  static constexpr int64_t kMaxPromptLogprobs = 4 << 20;
  static constexpr int64_t kMaxStops = 1024;
  static constexpr int64_t kMaxStopBytes = 64 << 10;  // together
  static constexpr int64_t kMaxTokens = int64_t{1} << 40;

  int64_t vocab_size = 0;
};

// Plain data, checked. Defaults are those of the OpenAI API: the model's own distribution.
struct CallFields {
  std::optional<std::string> model = std::nullopt;
  // But for the seed; num_top_logprobs is set by the kind of call.
  SamplingParams sampling = {};
  std::optional<uint64_t> seed = std::nullopt;  // nothing: another one each time
  std::optional<int64_t> max_tokens = std::nullopt;
  std::vector<std::string> stops = {};
  bool ignore_eos = false;
  PrefillWish prefill = {};
  int64_t num_choices = 1;
  bool stream = false;
  bool include_usage = false;
  bool return_progress = false;
};

// Reads them. Fields that nobody knows are left alone.
// Errors: 400 with the field's name: a wrong type or range; a token that the vocabulary lacks; what
// Baton does not have (best_of beyond n, functions, response formats), so that nobody waits for it.
ApiResult<CallFields> ReadCallFields(const nlohmann::ordered_json& body, const CallLimits& limits);

// The seed of a choice: choices of one prompt draw from streams of their own, the first from the
// seed's own.
uint64_t SeedOfChoice(uint64_t seed, int64_t choice);

}  // namespace baton
