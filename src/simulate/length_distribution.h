// Lengths of prompts and answers, drawn from what a user writes down.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace baton {

// Token counts from 1 to kMaxLength.
class LengthDistribution {
 public:
  static constexpr int64_t kMaxLength = 1 << 24;
  static constexpr size_t kMaxParts = 64;

  // 512                     always so many
  // 100..900                any of them alike
  // lognormal:MEDIAN,SIGMA  a long tail to the right: two thirds lie within a factor of e^SIGMA
  // 64=5,512=3,4096=2       a histogram: lengths and their weights
  // Errors: invalid; the message goes on after an option's name.
  static Result<LengthDistribution> Parse(std::string_view text);

  int64_t Draw(RandomStream& random) const;

 private:
  enum class Kind { kUniform, kLogNormal, kHistogram };
  struct Part {
    int64_t length = 0;
    double weight_up_to = 0;  // of this part and those before it
  };

  Kind kind_ = Kind::kUniform;
  int64_t least_ = 1;
  int64_t most_ = 1;
  double median_ = 1;
  double sigma_ = 0;
  std::vector<Part> parts_;
};

}  // namespace baton
