#include "base/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace baton {

namespace {

// `end`: of the whole digits.
std::string Grouped(std::string number, size_t end) {
  const size_t first = number.starts_with('-') ? 1 : 0;
  while (end > first + 3) {
    end -= 3;
    number.insert(end, 1, ',');
  }
  return number;
}

// `parts`: of one; the quotient of two whole numbers is the double nearest to its decimal.
double Rounded(double value, double parts) {
  // Above it doubles have no such parts.
  constexpr double kMaxParts = 9e15;
  const double scaled = value * parts;
  return std::abs(scaled) < kMaxParts ? std::round(scaled) / parts : value;
}

}  // namespace

std::string CountText(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  return Grouped(digits, digits.size());
}

std::string CountOf(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", CountText(count), noun, count == 1 ? "" : "s");
}

std::string TenthsText(double amount) {
  if (!std::isfinite(amount)) return "?";
  const std::string digits = fmt::format("{:.1f}", amount);
  return Grouped(digits, digits.size() - 2);
}

std::string BytesText(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double amount = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  // 1023.95 would print as 1024.0 of the smaller unit.
  while (amount >= 1023.95 && unit + 1 < kUnits.size()) {
    amount /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 3.6e8) return "years";
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string FloatJson(float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string("null");
}

std::string DoubleJson(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string("null");
}

double ReportedSeconds(double seconds) {
  return Rounded(seconds, 1e9);
}

double ReportedRate(double per_second) {
  return Rounded(per_second, 1e3);
}

}  // namespace baton
