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

std::string_view Noun(ProgressUnit unit) {
  switch (unit) {
    case ProgressUnit::kBytes:
      return "";
    case ProgressUnit::kTokens:
      return " tokens";
    case ProgressUnit::kRequests:
      return " requests";
  }
  return "";
}

std::string Rate(ProgressUnit unit, double rate) {
  switch (unit) {
    case ProgressUnit::kBytes:
      return BytesText(static_cast<uint64_t>(rate)) + "/s";
    case ProgressUnit::kTokens:
      return TenthsText(rate) + " tokens/s";
    case ProgressUnit::kRequests:
      return "";  // the load is called by it, or asks as it is answered
  }
  return "";
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
  Parts parts{.head = fmt::format("{} {:3.0f} %", moment.what, ShareOf(moment) * 100.0),
              .amount = fmt::format("{} of {}{}", Amount(moment.unit, moment.done),
                                    Amount(moment.unit, moment.total), Noun(moment.unit)),
              .rate = {},
              .left = {}};
  double left = moment.least_left_seconds;
  if (moment.done > 0 && moment.elapsed_seconds > 0) {
    const double rate = static_cast<double>(moment.done) / moment.elapsed_seconds;
    parts.rate = Rate(moment.unit, rate);
    left = std::max(left, static_cast<double>(moment.total - moment.done) / rate);
  } else if (left <= 0) {
    return parts;
  }
  parts.left = DurationText(left) + " left";
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

void Progress::Update(int64_t done, int64_t total) {
  UpdateWithLeast(done, total, 0);
}

void Progress::UpdateWithLeast(int64_t done, int64_t total, double least_left_seconds) {
  if (!line_.live() && options_.lines == nullptr) return;
  const int64_t now_ns = clock_.NowNs();
  const ProgressMoment moment = {.what = options_.what,
                                 .unit = options_.unit,
                                 .done = done,
                                 .total = total,
                                 .elapsed_seconds = static_cast<double>(now_ns - start_ns_) * 1e-9,
                                 .least_left_seconds = least_left_seconds,
                                 .columns = options_.columns};
  if (!line_.live()) return WriteLine(now_ns, moment);
  if (now_ns - start_ns_ < kShowAfterNs) return;
  if (drawn_ns_.has_value() && now_ns - *drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  line_.Draw(RenderProgress(moment));
}

void Progress::WriteLine(int64_t now_ns, const ProgressMoment& moment) {
  if (now_ns < next_line_ns_) return;
  next_line_ns_ = now_ns + kLineNs;
  // Where nobody reads, the work goes on all the same.
  (void)options_.lines->Write(ProgressLine(moment) + "\n");
}

void Progress::Clear() {
  if (!drawn_ns_.has_value()) return;
  drawn_ns_.reset();
  line_.Clear();
}

}  // namespace baton
