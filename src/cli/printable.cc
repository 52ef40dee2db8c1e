#include "cli/printable.h"

#include <fmt/format.h>

#include "text/unicode.h"

namespace baton {
namespace {

// C0, DEL, and C1: a terminal may obey U+009B like ESC [.
bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

}  // namespace

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string printable;
  size_t position = 0;
  while (position < text.size()) {
    const Utf8Step step = StepUtf8(text, position);
    if (position + step.length > max_bytes) return printable + "...";
    const std::string_view bytes = text.substr(position, step.length);
    position += step.length;
    if (bytes == "\n") {
      printable += "\\n";
    } else if (bytes == "\t") {
      printable += "\\t";
    } else if (step.valid && !IsControl(step.code_point)) {
      printable += bytes;
    } else {
      for (const char byte : bytes) {
        printable += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
      }
    }
  }
  return printable;
}

std::string PrintableEnds(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return Printable(text, max_bytes);
  size_t end = text.size() - max_bytes / 3;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return Printable(text, max_bytes - max_bytes / 3) + Printable(text.substr(end), max_bytes);
}

}  // namespace baton
