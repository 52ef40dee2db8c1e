// The options of run and chat that say how tokens are chosen and when to stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/option_set.h"
#include "engine/generator.h"

namespace baton {

// What these commands do unless told otherwise: lively, without the unlikely tail. The seed is
// fixed, so that the same command gives the same answer.
struct SamplingDefaults {
  static constexpr double kTemperature = 0.7;
  static constexpr int64_t kTopK = 40;
  static constexpr double kTopP = 0.95;
  static constexpr double kMinP = 0.05;
  static constexpr int64_t kSeed = 0;
};

class SamplingOptions {
 public:
  void Declare(OptionSet& options);
  // Errors: invalid (too many or too long texts for --stop).
  Result<> Check();
  // Whether the tokens that are named are in the vocabulary. Errors: invalid.
  Result<> CheckVocabulary(int64_t vocab_size) const;
  // Fills what the options say into a request. Requires: Check succeeded.
  void Apply(GenerationRequest& request) const;

 private:
  void DeclareDraws(OptionSet& options);
  void DeclareAdjustments(OptionSet& options);  // of logits, before a token is drawn
  void DeclareEnd(OptionSet& options);
  Result<> AddStop(const std::string& text);
  Result<> AddBias(const std::string& text);

  std::optional<double> temperature_;
  std::optional<int64_t> top_k_;
  std::optional<double> top_p_;
  std::optional<double> min_p_;
  std::optional<double> repeat_penalty_;
  std::optional<int64_t> repeat_last_n_;
  std::optional<double> frequency_penalty_;
  std::optional<double> presence_penalty_;
  std::vector<LogitBias> biases_;
  std::optional<int64_t> seed_;
  std::optional<int64_t> max_tokens_;
  std::vector<std::string> stops_;
  bool ignore_end_ = false;
};

}  // namespace baton
