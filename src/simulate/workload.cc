#include "simulate/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/near_match.h"
#include "base/portable_math.h"
#include "simulate/json_value_text.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr double kMaxSeconds = 1e9;
constexpr int64_t kMaxNumber = int64_t{1} << 53;  // of a chat or prefix: exact in any JSON
// Streams that lines do not name come after those they can.
constexpr uint64_t kUnnamedStream = uint64_t{1} << 60;

tl::unexpected<Error> TooMany() {
  return Fail(ErrorCode::kExhausted,
              fmt::format("a workload has at most {} requests", kMaxArrivals));
}

// One line's fields, with the first that is wrong.
class Fields {
 public:
  Fields(const Json& object, size_t line) : object_(object), line_(line) {}

  int64_t Integer(const char* name, std::optional<int64_t> usual, int64_t least, int64_t most) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (!usual) Blame(fmt::format("'{}' is missing", name));
      return usual.value_or(least);
    }
    if (found->is_number_integer() &&
        !(found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(most))) {
      const auto value = found->get<int64_t>();
      if (value >= least && value <= most) return value;
    }
    Blame(fmt::format("'{}' must be a whole number from {} to {}, not {}", name, least, most,
                      JsonValueText(*found)));
    return least;
  }

  double Seconds(const char* name, std::optional<double> usual) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (!usual) Blame(fmt::format("'{}' is missing", name));
      return usual.value_or(0);
    }
    if (found->is_number()) {
      const auto value = found->get<double>();
      if (value >= 0 && value <= kMaxSeconds) return value;
    }
    Blame(fmt::format("'{}' must be seconds from 0 to {}, not {}", name, kMaxSeconds,
                      JsonValueText(*found)));
    return 0;
  }

  bool Has(const char* name) const { return object_.contains(name); }
  void Blame(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  Result<> Finish() {
    for (const auto& [name, value] : object_.items()) {
      if (!error_.empty()) break;
      if (std::ranges::count(known_, name) > 0) continue;
      Blame(fmt::format("'{}' means nothing here; a request has {}{}", JsonNameText(name),
                        fmt::join(known_, ", "), DidYouMean(name, known_)));
    }
    if (error_.empty()) return {};
    return Fail(ErrorCode::kCorrupt, fmt::format("line {}: {}", line_, error_));
  }

 private:
  const Json& object_;
  size_t line_;
  std::vector<std::string> known_;  // fields that were asked for
  std::string error_;
};

// The object of a line. Errors: corrupt, also for a key that stands twice.
Result<Json> ParseObject(std::string_view text, size_t line) {
  const auto fail = [line](const std::string& what) {
    return Fail(ErrorCode::kCorrupt, fmt::format("line {}: {}", line, what));
  };
  std::set<std::string> keys;
  std::string twice;
  try {
    Json object = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
      if (event != Json::parse_event_t::key || depth != 1) return true;
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second) twice = JsonNameText(key);
      return true;
    });
    if (!object.is_object()) return fail("is not a JSON object");
    if (!twice.empty()) return fail(fmt::format("'{}' stands twice", twice));
    return object;
  } catch (const Json::out_of_range&) {
    return fail("has a number that is too large");
  } catch (const Json::exception&) {
    return fail("is not a JSON object");
  }
}

Result<Arrival> ParseLine(std::string_view text, size_t line, size_t index) {
  const Result<Json> object = ParseObject(text, line);
  if (!object) return Forward(object);
  Fields fields(*object, line);
  constexpr int64_t kMaxTokens = LengthDistribution::kMaxLength;
  Arrival arrival;
  arrival.seconds = fields.Seconds("arrival", std::nullopt);
  arrival.prompt_tokens = fields.Integer("prompt_tokens", std::nullopt, 1, kMaxTokens);
  arrival.output_tokens = fields.Integer("output_tokens", std::nullopt, 1, kMaxTokens);
  arrival.prefix = static_cast<uint64_t>(fields.Integer("prefix", 0, 0, kMaxNumber));
  arrival.prefix_tokens = fields.Integer("prefix_tokens", 0, 0, kMaxTokens);
  if (arrival.prefix_tokens > arrival.prompt_tokens) {
    fields.Blame("'prefix_tokens' are a part of 'prompt_tokens', so no more");
  }
  const auto chat = static_cast<uint64_t>(fields.Integer("chat", 0, 0, kMaxNumber));
  arrival.stream = fields.Has("chat") ? chat : kUnnamedStream + index;
  arrival.priority = static_cast<int32_t>(fields.Integer("priority", 0, -1000, 1000));
  if (fields.Has("prefix") && arrival.prefix_tokens == 0) {
    fields.Blame("'prefix' goes with 'prefix_tokens' only");
  }
  if (fields.Has("follows") && index == 0) {
    fields.Blame("'follows' names an earlier request, and this is the first");
  }
  arrival.follows = fields.Integer("follows", -1, 0, static_cast<int64_t>(index) - 1);
  arrival.cancel_after = fields.Seconds("cancel_after", std::numeric_limits<double>::infinity());
  if (Result<> good = fields.Finish(); !good) return Forward(good);
  return arrival;
}

// The turns of a chat: each prompt is all that was said before and a new part.
void AddTurns(const WorkloadOptions& options, Arrival first, RandomStream& random,
              Workload& workload) {
  for (int64_t turn = 0; turn < options.turns; ++turn) {
    Arrival arrival = first;
    if (turn > 0) {
      const Arrival& before = workload.back();
      arrival.follows = std::ssize(workload) - 1;
      arrival.seconds = options.think_seconds;
      arrival.prompt_tokens =
          before.prompt_tokens + before.output_tokens + options.prompt_tokens.Draw(random);
      arrival.output_tokens = options.output_tokens.Draw(random);
    }
    workload.push_back(arrival);
  }
}

}  // namespace

Result<Workload> GenerateWorkload(const WorkloadOptions& options) {
  RandomStream random({.seed = options.seed, .stream = 0x5757});
  Workload workload;
  double now = 0;
  uint64_t chat = 0;
  while (true) {
    const double bursts_per_second = options.rate / static_cast<double>(options.burst);
    now -= Log(1.0 - random.NextUniform()) / bursts_per_second;
    if (now >= options.duration) return workload;
    for (int64_t i = 0; i < options.burst; ++i) {
      if (workload.size() + static_cast<size_t>(options.turns) > kMaxArrivals) return TooMany();
      Arrival first{.seconds = now,
                    .prompt_tokens = options.prompt_tokens.Draw(random),
                    .output_tokens = options.output_tokens.Draw(random),
                    .stream = kUnnamedStream + chat++};
      if (random.NextUniform() < options.prefix_share) {
        first.prefix = random.NextBelow(static_cast<uint64_t>(options.num_prefixes));
        first.prefix_tokens = options.prefix_tokens;
        first.prompt_tokens += options.prefix_tokens;
      }
      first.priority = random.NextUniform() < options.high_share ? 1 : 0;
      AddTurns(options, first, random, workload);
    }
  }
}

Result<Workload> ParseWorkload(std::string_view text) {
  Workload workload;
  size_t line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (workload.size() == kMaxArrivals) return TooMany();
    Result<Arrival> arrival = ParseLine(one, line, workload.size());
    if (!arrival) return Forward(arrival);
    workload.push_back(*arrival);
  }
  return workload;
}

}  // namespace baton
