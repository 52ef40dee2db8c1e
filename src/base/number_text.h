// Numbers as people and machines read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baton {

// Digits in groups of three: "12,345". For amounts; ids, positions and what an option takes stay as
// they are typed.
std::string CountText(int64_t count);

// A count and what is counted, by the word for one: "1 thread", "1,024 threads".
std::string CountOf(int64_t count, std::string_view noun);

// As CountText, with one digit behind the point: "1,101.7". What is not finite: "?".
std::string TenthsText(double amount);

// Bytes in the largest binary unit that is not above them: "512 B", "94.7 MiB".
std::string BytesText(uint64_t bytes);

// A rough span of time: "4.2 s", "1 min 05 s", "2 h 10 min". Negative or not finite: "?".
std::string DurationText(double seconds);

// The shortest decimal that reads back to the same binary32; "null" if it is not finite, as JSON
// has no other word for it.
std::string FloatJson(float value);

// The same for binary64.
std::string DoubleJson(double value);

// What reports for programs say of a span of time, whole nanoseconds, and of a rate, whole
// thousandths, so that no digits come from how they were computed: 0.000112927, 333.333. Units:
// seconds; per second.
double ReportedSeconds(double seconds);
double ReportedRate(double per_second);

}  // namespace baton
