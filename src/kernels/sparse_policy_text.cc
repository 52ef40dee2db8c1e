#include "kernels/sparse_policy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/near_match.h"
#include "base/whole_number.h"
#include "kernels/sparse_policy_limits.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

constexpr size_t kMaxWords = 64;
constexpr size_t kMaxItems = 65536;
constexpr std::string_view kBlanks = " \t\n\r";
constexpr std::string_view kPublished = "published";

// What a policy's words may be: names, and the one that stands alone.
std::vector<std::string> KnownWords() {
  return {"rule",    "estimate",     "energy",      "block",      "tile",
          "sink",    "window",       "last",        "correction", "min",
          "windows", "dense-layers", "dense-heads", "shares",     std::string(kPublished)};
}

// Of a word, which may be long.
constexpr size_t kMaxShownBytes = 60;
std::string Shown(std::string_view word) {
  return word.size() <= kMaxShownBytes ? std::string(word)
                                       : std::string(word.substr(0, kMaxShownBytes)) + "...";
}

tl::unexpected<Error> Wrong(std::string_view name, std::string_view value, std::string_view what) {
  return Fail(ErrorCode::kInvalid,
              fmt::format("the sparse policy's {} takes {}, not '{}'", name, what, Shown(value)));
}

// What a number is called and may be, in the words of ValidatePolicy.
struct Limit {
  std::string field;
  std::string accepted;
};

tl::unexpected<Error> OutOfRange(const Limit& limit, std::string_view value) {
  return Fail(ErrorCode::kInvalid, fmt::format("the sparse policy's {} must be {}, got {}",
                                               limit.field, limit.accepted, Shown(value)));
}

std::string FromTo(int64_t low, int64_t high) {
  return fmt::format("in {}..{}", low, high);
}

std::vector<std::string_view> Split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (parts.size() <= kMaxItems) {
    const size_t end = text.find(mark);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

// What is too small for the type is 0.
template <typename T>
NumberReading ReadReal(std::string_view text, T& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return NumberReading::kNone;
  if (error == std::errc()) return NumberReading::kNumber;
  number = 0;
  const double nearest = std::strtod(std::string(text).c_str(), nullptr);
  return std::abs(nearest) < 1 ? NumberReading::kNumber : NumberReading::kBeyond;
}

// One word after another onto a policy.
class Reader {
 public:
  explicit Reader(const SparsePolicy& base) : policy_(base) {}

  Result<> Take(std::string_view name, std::string_view value) {
    if (name == "rule") return Rule(value);
    if (name == "estimate") return Estimate(value);
    if (name == "energy") return Energy(value);
    if (name == "block") {
      return Whole(name, value, {"block", "64 or 128 tokens"}, policy_.block_tokens);
    }
    if (name == "tile" && value == "auto") return Set(policy_.tile_positions, 0);
    if (name == "tile" && value == "0") return Wrong(name, value, "'auto' or a power of two");
    if (name == "tile") {
      const std::string accepted =
          fmt::format("a power of two in 1..{} positions, or 'auto' for one by the group size",
                      kMaxTilePositions);
      return Whole(name, value, {"tile", accepted}, policy_.tile_positions);
    }
    const std::string tokens = FromTo(0, kMaxPolicyTokens);
    if (name == "sink") return Whole(name, value, {"sink tokens", tokens}, policy_.sink_tokens);
    if (name == "window") {
      const Limit limit = {"window tokens", FromTo(1, kMaxPolicyTokens)};
      return Whole(name, value, limit, policy_.window_tokens);
    }
    if (name == "last") return Whole(name, value, {"last tiles", tokens}, policy_.last_tiles);
    if (name == "min") {
      return Whole(name, value, {"least prompt tokens", tokens}, policy_.min_prompt_tokens);
    }
    if (name == "correction") return Word(name, value, {"on", "off"}, policy_.has_correction);
    if (name == "windows")
      return Word(name, value, {"sparse", "dense"}, policy_.has_sparse_windows);
    if (name == "dense-layers") return Layers(value);
    if (name == "dense-heads") return Heads(value);
    if (name == "shares") return Shares(value);
    const std::vector<std::string> known = KnownWords();
    return Fail(ErrorCode::kInvalid,
                fmt::format("the sparse policy has no '{}'; it has {}{}", Shown(name),
                            fmt::join(known, ", "), DidYouMean(name, known)));
  }

  const SparsePolicy& policy() const { return policy_; }

 private:
  template <typename T>
  static Result<> Set(T& field, T value) {
    field = value;
    return {};
  }

  template <typename T>
  static Result<> Whole(std::string_view name, std::string_view value, const Limit& limit,
                        T& field) {
    const NumberReading reading = ReadWhole(value, field);
    if (reading == NumberReading::kNone) return Wrong(name, value, "a whole number");
    if (reading == NumberReading::kBeyond) return OutOfRange(limit, value);
    return {};
  }

  struct Choice {
    std::string_view yes;
    std::string_view no;
  };
  static Result<> Word(std::string_view name, std::string_view value, const Choice& choice,
                       bool& field) {
    if (value != choice.yes && value != choice.no) {
      return Wrong(name, value, fmt::format("'{}' or '{}'", choice.yes, choice.no));
    }
    field = value == choice.yes;
    return {};
  }

  Result<> Rule(std::string_view value) {
    constexpr std::string_view kWhat =
        "'threshold:ALPHA', 'share:SHARE', 'share:SHARE,LEAST', 'all' or 'none'";
    const size_t mark = value.find(':');
    const std::string_view kind = value.substr(0, mark);
    const std::string_view rest =
        mark == std::string_view::npos ? std::string_view() : value.substr(mark + 1);
    if (value == "all") return Set(policy_.rule, SelectionRule::kAll);
    if (value == "none") return Set(policy_.rule, SelectionRule::kNone);
    if (kind == "threshold") return Threshold(rest, value, kWhat);
    if (kind == "share") return ShareRule(rest, value, kWhat);
    return Wrong("rule", value, kWhat);
  }

  Result<> Threshold(std::string_view alpha, std::string_view value, std::string_view what) {
    const NumberReading reading = ReadReal(alpha, policy_.alpha);
    if (reading == NumberReading::kNone) return Wrong("rule", value, what);
    // Energies are shares of the greatest one: beyond 1 lies none, and all are at least 0.
    const bool is_within = policy_.alpha > 0.0f && policy_.alpha <= 1.0f;
    if (reading == NumberReading::kBeyond || !is_within) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy's alpha must be above 0 and at most 1, got {}; "
                              "'rule=none' chooses no block, 'rule=all' every one",
                              Shown(alpha)));
    }
    return Set(policy_.rule, SelectionRule::kThreshold);
  }

  Result<> ShareRule(std::string_view rest, std::string_view value, std::string_view what) {
    const std::vector<std::string_view> parts = Split(rest, ',');
    if (parts.size() > 2) return Wrong("rule", value, what);
    const NumberReading share = ReadReal(parts[0], policy_.share);
    const NumberReading least =
        parts.size() == 2 ? ReadWhole(parts[1], policy_.min_blocks) : NumberReading::kNumber;
    if (share == NumberReading::kNone || least == NumberReading::kNone)
      return Wrong("rule", value, what);
    if (share == NumberReading::kBeyond)
      return OutOfRange({"share", "above 0 and at most 1"}, parts[0]);
    if (least == NumberReading::kBeyond) {
      const std::string accepted = FromTo(0, std::numeric_limits<int>::max());
      return OutOfRange({"least number of chosen blocks", accepted}, parts[1]);
    }
    return Set(policy_.rule, SelectionRule::kShare);
  }

  Result<> Estimate(std::string_view value) {
    if (value == "mean") return Set(policy_.estimate, BlockEstimate::kMean);
    const std::string_view count = value.starts_with("far:") ? value.substr(4) : "";
    const NumberReading reading = ReadWhole(count, policy_.num_estimates);
    if (reading == NumberReading::kNone) return Wrong("estimate", value, "'mean' or 'far:COUNT'");
    if (reading == NumberReading::kBeyond) {
      return OutOfRange({"estimates per block", FromTo(2, kMaxFarKeys + 1)}, count);
    }
    return Set(policy_.estimate, BlockEstimate::kFar);
  }

  Result<> Energy(std::string_view value) {
    if (value == "estimates") return Set(policy_.energy, BlockEnergy::kEstimates);
    if (value == "true") return Set(policy_.energy, BlockEnergy::kTrue);
    const std::string_view seed = value.starts_with("random:") ? value.substr(7) : "";
    const NumberReading reading = ReadWhole(seed, policy_.energy_seed);
    if (reading == NumberReading::kNone) {
      return Wrong("energy", value, "'estimates', 'random:SEED' or 'true'");
    }
    if (reading == NumberReading::kBeyond) {
      const std::string accepted = fmt::format("in 0..{}", std::numeric_limits<uint64_t>::max());
      return OutOfRange({"seed of energy=random", accepted}, seed);
    }
    return Set(policy_.energy, BlockEnergy::kRandom);
  }

  // What layers and KV heads in lists may be.
  static std::string Places() { return FromTo(0, kMaxPolicyEntries); }

  Result<> Layers(std::string_view value) {
    policy_.dense_layers.clear();
    if (value.empty()) return {};
    for (const std::string_view item : Split(value, ',')) {
      const NumberReading reading = ReadWhole(item, policy_.dense_layers.emplace_back());
      if (reading == NumberReading::kNone) {
        return Wrong("dense-layers", value, "layers with commas between them");
      }
      if (reading == NumberReading::kBeyond) return OutOfRange({"dense layer", Places()}, item);
    }
    return {};
  }

  Result<> Heads(std::string_view value) {
    policy_.dense_heads.clear();
    if (value.empty()) return {};
    for (const std::string_view item : Split(value, ',')) {
      const std::vector<std::string_view> parts = Split(item, ':');
      DenseHead& head = policy_.dense_heads.emplace_back();
      const NumberReading layer = ReadWhole(parts[0], head.layer);
      const NumberReading kv_head = ReadWhole(parts.back(), head.kv_head);
      if (parts.size() != 2 || layer == NumberReading::kNone || kv_head == NumberReading::kNone) {
        return Wrong("dense-heads", value, "LAYER:HEAD with commas between them");
      }
      if (layer == NumberReading::kBeyond)
        return OutOfRange({"dense head's layer", Places()}, parts[0]);
      if (kv_head == NumberReading::kBeyond)
        return OutOfRange({"dense KV head", Places()}, parts[1]);
    }
    return {};
  }

  Result<> Shares(std::string_view value) {
    policy_.shares.clear();
    if (value.empty()) return {};
    for (const std::string_view item : Split(value, ',')) {
      const std::vector<std::string_view> parts = Split(item, ':');
      OwnShare& own = policy_.shares.emplace_back();
      // Only a layer without a head stands for all heads.
      const bool has_head = parts.size() == 3;
      const NumberReading layer = ReadWhole(parts[0], own.layer);
      const NumberReading kv_head =
          has_head ? ReadWhole(parts[1], own.kv_head) : NumberReading::kNumber;
      const NumberReading share = ReadReal(parts.back(), own.share);
      if (parts.size() < 2 || parts.size() > 3 || layer == NumberReading::kNone ||
          kv_head == NumberReading::kNone || share == NumberReading::kNone) {
        return Wrong("shares", value, "LAYER:SHARE or LAYER:HEAD:SHARE with commas between them");
      }
      if (layer == NumberReading::kBeyond)
        return OutOfRange({"layer with a share", Places()}, parts[0]);
      const std::string of_layer = fmt::format("of layer {}", own.layer);
      // -1 would stand for all heads.
      if (kv_head == NumberReading::kBeyond || (has_head && own.kv_head < 0)) {
        return OutOfRange({"KV head with a share " + of_layer, Places()}, parts[1]);
      }
      if (share == NumberReading::kBeyond)
        return OutOfRange({"share " + of_layer, "in 0..1"}, parts.back());
    }
    return {};
  }

  SparsePolicy policy_;
};

// A word without a value.
tl::unexpected<Error> NoSuchWord(std::string_view word, bool is_later) {
  if (word == kPublished && is_later) {
    return Fail(ErrorCode::kInvalid,
                "the sparse policy's 'published' replaces what stands before it: put it in front");
  }
  const std::vector<std::string> known = KnownWords();
  return Fail(ErrorCode::kInvalid,
              fmt::format("the sparse policy is words 'name=value' with blanks between them, not "
                          "'{}'; it has {}{}",
                          Shown(word), fmt::join(known, ", "), DidYouMean(word, known)));
}

// Shares that change nothing are a mistake.
Result<> CheckSharesAreUsed(const SparsePolicy& policy) {
  if (policy.shares.empty()) return {};
  if (policy.rule != SelectionRule::kShare) {
    return Fail(ErrorCode::kInvalid,
                "the sparse policy's shares are of 'rule=share:S', and its rule is another: take "
                "that rule, or leave 'shares' out");
  }
  for (const OwnShare& own : policy.shares) {
    if (!IsDenseHead(policy, {.layer = own.layer, .kv_head = own.kv_head})) continue;
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("the sparse policy's layer {}{} has a share and is dense: leave it out "
                    "of one of the lists",
                    own.layer, own.kv_head < 0 ? "" : fmt::format(", KV head {},", own.kv_head)));
  }
  return {};
}

}  // namespace

SparsePolicy DefaultSparsePolicy() {
  return {.rule = SelectionRule::kShare,
          .share = 0.25,
          .estimate = BlockEstimate::kFar,
          .num_estimates = 4,
          .sink_tokens = 64,
          .window_tokens = 256};
}

Result<SparsePolicy> ParsePolicy(std::string_view text, const SparsePolicy& base) {
  Reader reader(base);
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(kBlanks), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (word == kPublished && seen.empty()) {
      reader = Reader(SparsePolicy());
      seen.insert(word);
      continue;
    }
    const size_t mark = word.find('=');
    if (mark == std::string_view::npos) {
      return NoSuchWord(word, !seen.empty());
    }
    const std::string_view name = word.substr(0, mark);
    if (!seen.insert(name).second || seen.size() > kMaxWords) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy names '{}' twice", Shown(name)));
    }
    if (Result<> taken = reader.Take(name, word.substr(mark + 1)); !taken) return Forward(taken);
  }
  if (Result<> valid = ValidatePolicy(reader.policy()); !valid) return Forward(valid);
  if (seen.contains("shares")) {
    if (Result<> used = CheckSharesAreUsed(reader.policy()); !used) return Forward(used);
  }
  return reader.policy();
}

}  // namespace baton
