#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/number_text.h"

namespace baton {
namespace {

constexpr int64_t kShowAfterNs = 1'000'000'000;
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int64_t kFirstLineNs = 10'000'000'000;
constexpr int64_t kLineNs = 30'000'000'000;
constexpr size_t kMostBar = 24;
constexpr size_t kLeastBar = 8;
constexpr size_t kGap = 2;

std::string Bar(double share, size_t columns) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(columns));
  std::string bar(columns, ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < columns) bar[filled] = '>';
  return fmt::format("[{}]", bar);
}

std::string Amount(ProgressUnit unit, int64_t amount) {
  return unit == ProgressUnit::kBytes ? BytesText(static_cast<uint64_t>(amount))
                                      : CountText(amount);
}

double ShareOf(const ProgressMoment& moment) {
  if (moment.total <= 0) return 0;
  return std::clamp(static_cast<double>(moment.done) / static_cast<double>(moment.total), 0.0, 1.0);
}

// What is told of a moment, as far as it is known.
struct Parts {
  std::string head;  // what and share
  std::string amount;
  std::string rate;
  std::string left;
};
Parts PartsOf(const ProgressMoment& moment) {
  const bool tokens = moment.unit == ProgressUnit::kTokens;
  Parts parts{.head = fmt::format("{} {:3.0f} %", moment.what, ShareOf(moment) * 100.0),
              .amount = fmt::format("{} of {}{}", Amount(moment.unit, moment.done),
                                    Amount(moment.unit, moment.total), tokens ? " tokens" : ""),
              .rate = {},
              .left = {}};
  if (moment.done <= 0 || moment.elapsed_seconds <= 0) return parts;
  const double rate = static_cast<double>(moment.done) / moment.elapsed_seconds;
  parts.rate = tokens ? fmt::format("{} tokens/s", TenthsText(rate))
                      : fmt::format("{}/s", BytesText(static_cast<uint64_t>(rate)));
  parts.left = fmt::format(
      "{} left",
      DurationText(std::max(0.0, static_cast<double>(moment.total - moment.done)) / rate));
  return parts;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (!part.empty()) line += (line.empty() ? "" : "  ") + part;
  }
  return line;
}

}  // namespace

std::string RenderProgress(const ProgressMoment& moment) {
  Parts parts = PartsOf(moment);
  const auto columns = static_cast<size_t>(std::max(moment.columns, 1));
  size_t width = 0;
  // Whether another part fits, too; if not, no later one is shown.
  bool is_full = false;
  const auto take = [&](size_t size) {
    const size_t more = size + (width > 0 ? kGap : 0);
    is_full = is_full || width + more >= columns;
    if (!is_full) width += more;
    return !is_full;
  };
  const auto keep = [&](std::string& part) {
    if (!part.empty() && !take(part.size())) part.clear();
  };
  keep(parts.head);
  keep(parts.left);
  std::string bar;
  const bool has_bar = take(kLeastBar + 2);
  keep(parts.amount);
  keep(parts.rate);
  if (has_bar) {
    bar = Bar(ShareOf(moment), std::min(kMostBar, kLeastBar + columns - 1 - width));
  }
  return Join({parts.head, bar, parts.amount, parts.rate, parts.left});
}

std::string ProgressLine(const ProgressMoment& moment) {
  const Parts parts = PartsOf(moment);
  return Join({parts.head, parts.amount, parts.rate, parts.left});
}

Progress::Progress(StatusLine& line, Clock& clock, Options options)
    : line_(line),
      clock_(clock),
      options_(std::move(options)),
      start_ns_(clock.NowNs()),
      next_line_ns_(start_ns_ + kFirstLineNs) {}

Progress::~Progress() {
  Clear();
}

ProgressMoment Progress::MomentAt(int64_t now_ns, int64_t done, int64_t total) const {
  return {.what = options_.what,
          .unit = options_.unit,
          .done = done,
          .total = total,
          .elapsed_seconds = static_cast<double>(now_ns - start_ns_) * 1e-9,
          .columns = options_.columns};
}

void Progress::Update(int64_t done, int64_t total) {
  if (!line_.live() && options_.lines == nullptr) return;
  const int64_t now_ns = clock_.NowNs();
  if (!line_.live()) return UpdateLines(now_ns, done, total);
  if (now_ns - start_ns_ < kShowAfterNs) return;
  if (drawn_ns_.has_value() && now_ns - *drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  line_.Draw(RenderProgress(MomentAt(now_ns, done, total)));
}

void Progress::UpdateLines(int64_t now_ns, int64_t done, int64_t total) {
  if (now_ns < next_line_ns_) return;
  next_line_ns_ = now_ns + kLineNs;
  // Where nobody reads, the work goes on all the same.
  (void)options_.lines->Write(ProgressLine(MomentAt(now_ns, done, total)) + "\n");
}

void Progress::Clear() {
  if (!drawn_ns_.has_value()) return;
  drawn_ns_.reset();
  line_.Clear();
}

}  // namespace baton
