#include "bench/svg.h"

#include <fmt/format.h>

#include <array>

namespace baton {
namespace {

// Told apart by people who see colours differently, too; for light and for dark ground.
constexpr std::array<std::string_view, kSvgColours> kLight = {"#2a6fbb", "#c4511c", "#2c8a57",
                                                              "#8a4fb0", "#a3842a", "#5f6b75"};
constexpr std::array<std::string_view, kSvgColours> kDark = {"#6fb1f5", "#f59a63", "#67cf96",
                                                             "#c99bea", "#e0c465", "#aeb8c0"};

std::string Style() {
  std::string style =
      "<style>\n"
      "text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; "
      "font-size: 12px; fill: #4a5157; }\n"
      ".ground { fill: #ffffff; }\n"
      ".title { font-size: 17px; font-weight: 600; fill: #16191c; }\n"
      ".panel { font-size: 13px; font-weight: 600; fill: #16191c; }\n"
      ".value { font-size: 11px; fill: #16191c; stroke: #ffffff; stroke-width: 3px; "
      "stroke-linejoin: round; paint-order: stroke; }\n"
      ".grid { stroke: #e4e7ea; stroke-width: 1; }\n"
      ".axis { stroke: #8c959d; stroke-width: 1; }\n"
      ".line { fill: none; stroke-width: 2; stroke-linejoin: round; }\n"
      ".cell { font-size: 11px; }\n"
      ".limit { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; opacity: 0.75; }\n";
  for (size_t i = 0; i < kSvgColours; ++i) {
    style +=
        fmt::format(".s{} {{ stroke: {}; }} .d{} {{ fill: {}; }}\n", i, kLight[i], i, kLight[i]);
  }
  style +=
      "@media (prefers-color-scheme: dark) {\n"
      "text { fill: #b3bbc2; }\n"
      ".ground { fill: #14171a; }\n"
      ".title, .panel, .value { fill: #eef1f3; }\n"
      ".value { stroke: #14171a; }\n"
      ".grid { stroke: #2a3035; }\n"
      ".axis { stroke: #6c757d; }\n";
  for (size_t i = 0; i < kSvgColours; ++i) {
    style += fmt::format(".s{} {{ stroke: {}; }} .d{} {{ fill: {}; }}\n", i, kDark[i], i, kDark[i]);
  }
  return style + "}\n</style>\n";
}

}  // namespace

std::string SvgEscaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const size_t length = c < 0x80 ? 1 : c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 ? 3 : 2;
    const bool is_start = c < 0x80 || (c >= 0xC2 && c < 0xF5);
    bool is_whole = is_start && i + length <= text.size();
    for (size_t k = 1; is_whole && k < length; ++k) {
      is_whole = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    }
    if (!is_whole || c < 0x20 || c == 0x7F) {
      ++i;
      continue;
    }
    // Surrogates and the two last code points of the plane are no characters of XML.
    const std::string_view character = text.substr(i, length);
    const bool is_surrogate = c == 0xED && static_cast<unsigned char>(text[i + 1]) >= 0xA0;
    const bool is_overlong = (c == 0xE0 && static_cast<unsigned char>(text[i + 1]) < 0xA0) ||
                             (c == 0xF0 && static_cast<unsigned char>(text[i + 1]) < 0x90) ||
                             (c == 0xF4 && static_cast<unsigned char>(text[i + 1]) > 0x8F);
    const bool is_no_character = character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
    i += length;
    if (is_surrogate || is_overlong || is_no_character) continue;
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += character;
    }
  }
  return out;
}

std::string SvgText(const SvgLabel& label, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     label.kind, label.x, label.y, label.anchor, SvgEscaped(text));
}

std::string SvgLine(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

std::string SvgHead(const SvgFrame& frame) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n<title>{2}</title>\n",
      frame.width, frame.height, SvgEscaped(frame.title));
  svg += Style();
  return svg + fmt::format("<rect class=\"ground\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"8\"/>\n",
                           frame.width, frame.height);
}

}  // namespace baton
