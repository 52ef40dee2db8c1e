#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <limits>

namespace baton {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

uint8_t ByteAt(std::string_view text, size_t position) {
  return static_cast<uint8_t>(text[position]);
}

// What a lead byte announces: how many bytes follow it, and the range of the first of them (the
// others are 80..BF). Table 3-7 of the Unicode standard.
struct Lead {
  size_t continuation_bytes;
  uint8_t second_low;
  uint8_t second_high;
};

Lead ReadLead(uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {1, 0x80, 0xBF};
  if (lead == 0xE0) return {2, 0xA0, 0xBF};
  if (lead == 0xED) return {2, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {2, 0x80, 0xBF};
  if (lead == 0xF0) return {3, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {3, 0x80, 0xBF};
  if (lead == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step StepUtf8(std::string_view text, size_t position) {
  const uint8_t first = ByteAt(text, position);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = ReadLead(first);
  if (lead.continuation_bytes == 0) return {kReplacement, 1, false};
  // 2, 3 and 4 byte forms keep 5, 4 and 3 bits of the lead byte.
  uint32_t code_point = first & (0x3Fu >> lead.continuation_bytes);
  for (size_t i = 1; i <= lead.continuation_bytes; ++i) {
    if (position + i >= text.size()) return {kReplacement, i, false};
    const uint8_t byte = ByteAt(text, position + i);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {kReplacement, i, false};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {code_point, lead.continuation_bytes + 1, true};
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t ValidUtf8PrefixLength(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const Utf8Step step = StepUtf8(text, position);
    if (!step.valid) break;
    position += step.length;
  }
  return position;
}

bool IsValidUtf8(std::string_view text) {
  return ValidUtf8PrefixLength(text) == text.size();
}

size_t IncompleteUtf8TailLength(std::string_view text) {
  // A start of a character is at most 3 bytes; look for a lead byte among the last 3.
  for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const size_t position = text.size() - length;
    const size_t continuation_bytes = ReadLead(ByteAt(text, position)).continuation_bytes;
    if (continuation_bytes == 0) continue;
    const Utf8Step step = StepUtf8(text, position);
    const bool runs_to_the_end = !step.valid && step.length == length;
    return runs_to_the_end && length <= continuation_bytes ? length : 0;
  }
  return 0;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = StepUtf8(text, position);
    if (step.valid) {
      out.append(text.substr(position, step.length));
    } else {
      AppendUtf8(kReplacement, out);
    }
    position += step.length;
  }
  return out;
}

bool IsUnicodeSpace(uint32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x20 || code_point == 0x85 ||
         code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

Result<std::string> NormalizeNfc(std::string_view text) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Fail(ErrorCode::kExhausted, "text too long to normalise");
  }
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  std::string out;
  if (U_SUCCESS(status)) {
    out.reserve(text.size());
    icu::StringByteSink<std::string> sink(&out);
    nfc->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                       nullptr, status);
  }
  if (U_FAILURE(status)) {
    return Fail(ErrorCode::kInternal,
                std::string("Unicode normalisation failed: ") + u_errorName(status));
  }
  return out;
}

}  // namespace baton
