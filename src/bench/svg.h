// The parts that our pictures share: SVG that reads well on light and on dark ground.
//
// Classes of the style: ground, title, panel, label, tick, value (a number with a halo), cell (a
// number on a colour), grid, axis, line, limit; s0 to s5 stroke and d0 to d5 fill in the colours of
// series.
#pragma once

#include <string>
#include <string_view>

namespace baton {

inline constexpr size_t kSvgColours = 6;

// Text of an element: marks escaped; control bytes and what is not UTF-8 left out.
std::string SvgEscaped(std::string_view text);

// Units: pixels.
struct SvgLabel {
  double x;
  double y;
  std::string_view kind;
  std::string_view anchor;  // "start", "middle", "end"
};
std::string SvgText(const SvgLabel& label, std::string_view text);

std::string SvgLine(double x1, double y1, double x2, double y2, std::string_view kind);

// The beginning of a document, with the style and the ground; "</svg>" ends it.
struct SvgFrame {
  double width = 0;
  double height = 0;
  std::string title;
};
std::string SvgHead(const SvgFrame& frame);

}  // namespace baton
