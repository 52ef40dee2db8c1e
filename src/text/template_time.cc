// The calendar (weekdays, ISO weeks), the conversions of strftime one by one, and the reader of
// written times.
#include "text/template_time.h"

#include <array>
#include <charconv>
#include <optional>

namespace baton {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<int, 12> kDaysBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

bool IsLeap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int DaysIn(int year, int month) {
  constexpr std::array<int, 12> kDaysOf = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDaysOf[static_cast<std::size_t>(month - 1)] + (month == 2 && IsLeap(year) ? 1 : 0);
}

// Days since the year began, from 0.
int DayOfYear(const CivilTime& t) {
  return kDaysBefore[static_cast<std::size_t>(t.month - 1)] + t.day - 1 +
         (t.month > 2 && IsLeap(t.year) ? 1 : 0);
}

// Sunday is 0.
int DayOfWeek(const CivilTime& t) {
  const int y = t.year - 1;
  // 1 January of the year 1 was a Monday.
  return (1 + y * 365 + y / 4 - y / 100 + y / 400 + DayOfYear(t)) % 7;
}

struct WeekYear {
  int year;
  int week;
};

WeekYear IsoWeek(const CivilTime& t) {
  const int monday_based = (DayOfWeek(t) + 6) % 7;
  const int week = (DayOfYear(t) - monday_based + 10) / 7;
  const auto weeks_in = [](int year) {
    const int first = DayOfWeek(CivilTime{.year = year, .month = 1, .day = 1});
    return first == 4 || (first == 3 && IsLeap(year)) ? 53 : 52;
  };
  if (week < 1) return {t.year - 1, weeks_in(t.year - 1)};
  if (week > weeks_in(t.year)) return {t.year + 1, 1};
  return {t.year, week};
}

struct Number {
  int value;
  int width;
  char pad = '0';
};

// The flag '-' drops padding, '_' pads with blanks, '0' with zeros (GNU's extensions).
std::string Padded(const Number& number, char flag) {
  const char pad = flag == '_' ? ' ' : flag == '0' ? '0' : number.pad;
  std::string text = std::to_string(number.value);
  while (flag != '-' && static_cast<int>(text.size()) < number.width)
    text.insert(text.begin(), pad);
  return text;
}

// Formats that a conversion stands for.
std::optional<std::string_view> Composite(char conversion) {
  switch (conversion) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'r':
      return "%I:%M:%S %p";
    case 'R':
      return "%H:%M";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return std::nullopt;
  }
}

// Names, signs and what has no flags.
std::optional<std::string> Word(const CivilTime& t, char conversion) {
  const std::string_view day = kDays[static_cast<std::size_t>(DayOfWeek(t))];
  const std::string_view month = kMonths[static_cast<std::size_t>(t.month - 1)];
  switch (conversion) {
    case 'a':
      return std::string(day.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'f':
      return "000000";
    case 'n':
      return "\n";
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 't':
      return "\t";
    case 'z':
    case 'Z':
      return "";
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

std::optional<Number> NumberOf(const CivilTime& t, char conversion) {
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (conversion) {
    case 'C':
      return Number{t.year / 100, 2};
    case 'd':
      return Number{t.day, 2};
    case 'e':
      return Number{t.day, 2, ' '};
    case 'g':
      return Number{IsoWeek(t).year % 100, 2};
    case 'G':
      return Number{IsoWeek(t).year, 1};
    case 'H':
      return Number{t.hour, 2};
    case 'I':
      return Number{hour12, 2};
    case 'j':
      return Number{DayOfYear(t) + 1, 3};
    case 'k':
      return Number{t.hour, 2, ' '};
    case 'l':
      return Number{hour12, 2, ' '};
    case 'm':
      return Number{t.month, 2};
    case 'M':
      return Number{t.minute, 2};
    case 'S':
      return Number{t.second, 2};
    case 'u':
      return Number{DayOfWeek(t) == 0 ? 7 : DayOfWeek(t), 1};
    case 'U':
      return Number{(DayOfYear(t) + 7 - DayOfWeek(t)) / 7, 2};
    case 'V':
      return Number{IsoWeek(t).week, 2};
    case 'w':
      return Number{DayOfWeek(t), 1};
    case 'W':
      return Number{(DayOfYear(t) + 7 - (DayOfWeek(t) + 6) % 7) / 7, 2};
    case 'y':
      return Number{t.year % 100, 2};
    case 'Y':
      return Number{t.year, 1};
    default:
      return std::nullopt;
  }
}

// A conversion that is none stays as it is written.
std::string Convert(const CivilTime& t, char conversion, char flag) {
  if (const auto format = Composite(conversion)) return templates::FormatTime(t, *format);
  if (auto word = Word(t, conversion)) return *std::move(word);
  if (const auto number = NumberOf(t, conversion)) return Padded(*number, flag);
  return flag == 0 ? std::string{'%', conversion} : std::string{'%', flag, conversion};
}

}  // namespace

Result<CivilTime> ParseCivilTime(std::string_view text) {
  CivilTime t;
  std::size_t at = 0;
  bool valid = text.size() == 10 || text.size() == 19;
  const auto read = [&](std::size_t digits, int* value, std::string_view separators) {
    if (!valid || at + digits > text.size()) {
      valid = false;
      return;
    }
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + digits, *value);
    valid = error == std::errc() && end == begin + digits && *begin != '-';
    at += digits;
    if (at < text.size()) valid = valid && separators.find(text[at++]) != std::string_view::npos;
  };
  read(4, &t.year, "-");
  read(2, &t.month, "-");
  read(2, &t.day, "T ");
  if (text.size() == 19) {
    read(2, &t.hour, ":");
    read(2, &t.minute, ":");
    read(2, &t.second, "");
  }
  valid = valid && t.year >= 1 && t.month >= 1 && t.month <= 12 && t.day >= 1 &&
          t.day <= DaysIn(t.year, t.month) && t.hour < 24 && t.minute < 60 && t.second < 60;
  if (!valid)
    return Fail(ErrorCode::kInvalid,
                "not a time: write it as 2024-07-26 or 2024-07-26T14:03:09, got '" +
                    std::string(text) + "'");
  return t;
}

namespace templates {

std::string FormatTime(const CivilTime& time, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    char flag = 0;
    if (i + 2 < format.size() &&
        (format[i + 1] == '-' || format[i + 1] == '_' || format[i + 1] == '0'))
      flag = format[++i];
    out += Convert(time, format[++i], flag);
  }
  return out;
}

}  // namespace templates
}  // namespace baton
