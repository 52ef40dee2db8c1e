#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number_text.h"

namespace baton {
namespace {

constexpr int64_t kShowAfterNs = 1'000'000'000;
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarColumns = 24;

std::string Bar(double share) {
  const int filled = static_cast<int>(share * kBarColumns);
  std::string bar(static_cast<size_t>(kBarColumns), ' ');
  for (int i = 0; i < filled; ++i) bar[static_cast<size_t>(i)] = '=';
  if (filled < kBarColumns) bar[static_cast<size_t>(filled)] = '>';
  return fmt::format("[{}]", bar);
}

std::string Amount(ProgressUnit unit, int64_t amount) {
  return unit == ProgressUnit::kBytes ? BytesText(static_cast<uint64_t>(amount))
                                      : CountText(amount);
}

}  // namespace

std::string RenderProgress(const ProgressMoment& moment) {
  const double share =
      moment.total <= 0
          ? 0.0
          : std::clamp(static_cast<double>(moment.done) / static_cast<double>(moment.total), 0.0,
                       1.0);
  const bool tokens = moment.unit == ProgressUnit::kTokens;
  std::array<std::string, 5> parts = {
      fmt::format("{} {:3.0f} %", moment.what, share * 100.0),
      Bar(share),
      fmt::format("{} of {}{}", Amount(moment.unit, moment.done), Amount(moment.unit, moment.total),
                  tokens ? " tokens" : ""),
      std::string(),
      std::string(),
  };
  if (moment.done > 0 && moment.elapsed_seconds > 0) {
    const double rate = static_cast<double>(moment.done) / moment.elapsed_seconds;
    parts[3] = tokens ? fmt::format("{} tokens/s", TenthsText(rate))
                      : fmt::format("{}/s", BytesText(static_cast<uint64_t>(rate)));
    parts[4] = fmt::format("{} left",
                           DurationText(static_cast<double>(moment.total - moment.done) / rate));
  }
  std::string line;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const size_t length = line.size() + part.size() + (line.empty() ? 0 : 2);
    if (length >= static_cast<size_t>(std::max(moment.columns, 1))) break;
    if (!line.empty()) line += "  ";
    line += part;
  }
  return line;
}

Progress::Progress(StatusLine& line, Clock& clock, Options options)
    : line_(line), clock_(clock), options_(std::move(options)), start_ns_(clock.NowNs()) {}

Progress::~Progress() {
  Clear();
}

void Progress::Update(int64_t done, int64_t total) {
  if (!line_.live()) return;
  const int64_t now_ns = clock_.NowNs();
  if (now_ns - start_ns_ < kShowAfterNs) return;
  if (drawn_ns_.has_value() && now_ns - *drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  line_.Draw(RenderProgress({.what = options_.what,
                             .unit = options_.unit,
                             .done = done,
                             .total = total,
                             .elapsed_seconds = static_cast<double>(now_ns - start_ns_) * 1e-9,
                             .columns = options_.columns}));
}

void Progress::Clear() {
  if (!drawn_ns_.has_value()) return;
  drawn_ns_.reset();
  line_.Clear();
}

}  // namespace baton
