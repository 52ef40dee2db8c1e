#include "simulate/length_distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "base/portable_math.h"
#include "base/whole_number.h"

namespace baton {
namespace {

constexpr double kMaxSigma = 5;
constexpr double kMaxWeight = 1e12;

std::optional<int64_t> Length(std::string_view text) {
  return WholeIn(text, {.min = 1, .max = LengthDistribution::kMaxLength});
}

// Above 0, at most `most`.
std::optional<double> Positive(std::string_view text, double most) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(number > 0 && number <= most)) return std::nullopt;
  return number;
}

tl::unexpected<Error> Wrong(std::string_view text) {
  return Fail(ErrorCode::kInvalid,
              fmt::format("takes a number of tokens from 1 to {} (512), a range (100..900), "
                          "lognormal:MEDIAN,SIGMA (sigma above 0, at most {}) or a histogram "
                          "(64=5,512=3; weights above 0, at most {}), not '{}'",
                          LengthDistribution::kMaxLength, kMaxSigma, kMaxWeight, text));
}

}  // namespace

Result<LengthDistribution> LengthDistribution::Parse(std::string_view text) {
  LengthDistribution parsed;
  constexpr std::string_view kLogNormalName = "lognormal:";
  if (text.starts_with(kLogNormalName)) {
    const std::string_view numbers = text.substr(kLogNormalName.size());
    const size_t comma = std::min(numbers.find(','), numbers.size());
    const std::optional<double> median =
        Positive(numbers.substr(0, comma), static_cast<double>(kMaxLength));
    const std::optional<double> sigma =
        Positive(comma < numbers.size() ? numbers.substr(comma + 1) : "", kMaxSigma);
    if (!median || !sigma) return Wrong(text);
    parsed.kind_ = Kind::kLogNormal;
    parsed.median_ = *median;
    parsed.sigma_ = *sigma;
    return parsed;
  }
  if (text.find('=') != std::string_view::npos) {
    parsed.kind_ = Kind::kHistogram;
    std::string_view rest = text;
    double sum = 0;
    while (true) {
      const std::string_view part = rest.substr(0, rest.find(','));
      const size_t equals = std::min(part.find('='), part.size());
      const std::optional<int64_t> length = Length(part.substr(0, equals));
      const std::optional<double> weight =
          Positive(equals < part.size() ? part.substr(equals + 1) : "", kMaxWeight);
      if (!length || !weight || parsed.parts_.size() == kMaxParts) return Wrong(text);
      sum += *weight;
      parsed.parts_.push_back({.length = *length, .weight_up_to = sum});
      if (part.size() == rest.size()) return parsed;
      rest.remove_prefix(part.size() + 1);
    }
  }
  const size_t dots = text.find("..");
  const std::optional<int64_t> least = Length(text.substr(0, dots));
  const std::optional<int64_t> most =
      dots == std::string_view::npos ? least : Length(text.substr(dots + 2));
  if (!least || !most || *least > *most) return Wrong(text);
  parsed.least_ = *least;
  parsed.most_ = *most;
  return parsed;
}

int64_t LengthDistribution::Draw(RandomStream& random) const {
  switch (kind_) {
    case Kind::kUniform:
      return least_ +
             static_cast<int64_t>(random.NextBelow(static_cast<uint64_t>(most_ - least_ + 1)));
    case Kind::kLogNormal: {
      const double length = median_ * Exp(sigma_ * random.NextNormal());
      return static_cast<int64_t>(
          std::clamp(std::round(length), 1.0, static_cast<double>(kMaxLength)));
    }
    case Kind::kHistogram: {
      const double drawn = random.NextUniform() * parts_.back().weight_up_to;
      const auto part = std::ranges::upper_bound(parts_, drawn, {}, &Part::weight_up_to);
      return part == parts_.end() ? parts_.back().length : part->length;
    }
  }
  return 1;
}

}  // namespace baton
