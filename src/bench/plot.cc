#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

namespace baton {
namespace {

// Units: pixels.
constexpr double kPanelWidth = 340;
constexpr double kPanelHeight = 260;
constexpr double kLeft = 58;      // of a panel, for the labels of the y axis
constexpr double kRight = 18;     // for half of the last label of the x axis
constexpr double kTop = 92;       // title, subtitle and legend
constexpr double kBottom = 52;    // labels of the x axis
constexpr double kPanelTop = 34;  // panel title above its axes
constexpr double kMargin = 12;

// Told apart by people who see colours differently, too; for light and for dark ground.
constexpr std::array<std::string_view, 6> kLight = {"#2a6fbb", "#c4511c", "#2c8a57",
                                                    "#8a4fb0", "#a3842a", "#5f6b75"};
constexpr std::array<std::string_view, 6> kDark = {"#6fb1f5", "#f59a63", "#67cf96",
                                                   "#c99bea", "#e0c465", "#aeb8c0"};

// Text of an element: marks escaped; control bytes and what is not UTF-8 left out.
std::string Escaped(std::string_view text) {
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

// "8,000", "0.25".
std::string NumberText(double number) {
  if (number < 1000) return fmt::format("{:g}", number);
  std::string digits = fmt::format("{:.0f}", number);
  for (size_t end = digits.size(); end > 3;) {
    end -= 3;
    digits.insert(end, 1, ',');
  }
  return digits;
}

// The step of 1, 2 or 5 times a power of ten that cuts `top` into four to eight parts or so.
double TickStep(double top) {
  const double rough = top / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

// A panel's axes: from numbers to pixels.
class Axes {
 public:
  Axes(const PlotPanel& panel, double left) : panel_(panel), left_(left + kLeft) {
    double most = 0;
    for (const PlotSeries& series : panel.series) {
      for (const PlotPoint& point : series.points) {
        xs_.insert(point.x);
        most = std::max({most, point.y, point.limit});
      }
    }
    step_ = TickStep(most > 0 ? most : 1);
    top_ = std::ceil((most > 0 ? most : 1) / step_) * step_;
  }

  double left() const { return left_; }
  double right() const { return left_ + kPanelWidth - kLeft - kRight; }
  double top() const { return kTop + kPanelTop; }
  double bottom() const { return top() + kPanelHeight; }
  const std::set<double>& xs() const { return xs_; }
  double step() const { return step_; }
  double highest() const { return top_; }

  double X(double x) const {
    const double first = Scaled(*xs_.begin());
    const double last = Scaled(*xs_.rbegin());
    const double inset = 12;  // points do not sit on the axis
    if (last <= first) return (left() + right()) / 2;
    return left() + inset + (Scaled(x) - first) / (last - first) * (right() - left() - 2 * inset);
  }
  double Y(double y) const { return bottom() - y / top_ * (bottom() - top()); }

 private:
  double Scaled(double x) const { return panel_.is_log_x ? std::log2(x) : x; }

  const PlotPanel& panel_;
  double left_;
  std::set<double> xs_;
  double step_ = 1;
  double top_ = 1;
};

std::string Line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

struct Label {
  double x;
  double y;
  std::string_view kind;
  std::string_view anchor;  // "start", "middle", "end"
};

std::string Text(const Label& label, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     label.kind, label.x, label.y, label.anchor, Escaped(text));
}

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
      ".limit { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; opacity: 0.75; }\n";
  for (size_t i = 0; i < kLight.size(); ++i) {
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
  for (size_t i = 0; i < kDark.size(); ++i) {
    style += fmt::format(".s{} {{ stroke: {}; }} .d{} {{ fill: {}; }}\n", i, kDark[i], i, kDark[i]);
  }
  return style + "}\n</style>\n";
}

std::string Grid(const PlotPanel& panel, const Axes& axes) {
  std::string svg;
  for (double y = 0; y <= axes.highest() * 1.0001; y += axes.step()) {
    if (y > 0) svg += Line(axes.left(), axes.Y(y), axes.right(), axes.Y(y), "grid");
    svg += Text({axes.left() - 8, axes.Y(y) + 4, "tick", "end"}, NumberText(y));
  }
  svg += Line(axes.left(), axes.bottom(), axes.right(), axes.bottom(), "axis");
  double free_from = -1e9;
  for (const double x : axes.xs()) {
    svg += Line(axes.X(x), axes.bottom(), axes.X(x), axes.bottom() + 4, "axis");
    const std::string text = NumberText(x);
    const double half = 3.6 * static_cast<double>(text.size());
    if (axes.X(x) - half < free_from) continue;  // no room
    svg += Text({axes.X(x), axes.bottom() + 18, "tick", "middle"}, text);
    free_from = axes.X(x) + half + 4;
  }
  svg += Text({(axes.left() + axes.right()) / 2, axes.bottom() + 38, "label", "middle"},
              panel.x_label);
  svg += Text({axes.left() - 8, axes.top() - 12, "label", "end"}, panel.y_label);
  svg += Text({axes.left(), axes.top() - 12, "panel", "start"}, panel.title);
  return svg;
}

// Whether nothing measured stands above this at the same place.
bool IsHighest(const PlotPanel& panel, const PlotPoint& point) {
  for (const PlotSeries& series : panel.series) {
    for (const PlotPoint& other : series.points) {
      if (other.x == point.x && other.y > point.y) return false;
    }
  }
  return true;
}

// A measured line, its points, the values of those that are the highest, and its limit.
std::string Series(const PlotPanel& panel, size_t index, const Axes& axes) {
  const PlotSeries& series = panel.series[index];
  const size_t colour = index % kLight.size();
  std::vector<PlotPoint> points = series.points;
  std::sort(points.begin(), points.end(),
            [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
  std::string limits;
  std::string line;
  std::string marks;
  for (const PlotPoint& point : points) {
    const double x = axes.X(point.x);
    line += fmt::format("{:.1f},{:.1f} ", x, axes.Y(point.y));
    if (point.limit > 0) limits += fmt::format("{:.1f},{:.1f} ", x, axes.Y(point.limit));
    marks += fmt::format("<circle class=\"d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n", colour,
                         x, axes.Y(point.y));
    if (IsHighest(panel, point)) {
      marks += Text({x, axes.Y(point.y) - 9, "value", "middle"},
                    NumberText(point.y < 10 ? std::round(point.y * 10) / 10 : std::round(point.y)));
    }
  }
  std::string svg;
  if (!limits.empty()) {
    svg += fmt::format("<polyline class=\"limit s{}\" points=\"{}\"/>\n", colour, limits);
  }
  svg += fmt::format("<polyline class=\"line s{}\" points=\"{}\"/>\n", colour, line);
  return svg + marks;
}

std::string Legend(const Plot& plot) {
  std::string svg;
  double x = kMargin + kLeft;
  constexpr double kY = 74;
  std::vector<std::string> labels;
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotSeries& series : panel.series) {
      if (std::find(labels.begin(), labels.end(), series.label) == labels.end()) {
        labels.push_back(series.label);
      }
    }
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string_view colour = std::string_view("012345").substr(i % kLight.size(), 1);
    svg += Line(x, kY - 4, x + 22, kY - 4, fmt::format("line s{}", colour));
    svg += fmt::format("<circle class=\"d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n", colour,
                       x + 11, kY - 4);
    svg += Text({x + 29, kY, "label", "start"}, labels[i]);
    x += 52 + 7 * static_cast<double>(labels[i].size());
  }
  if (plot.limit_label.empty()) return svg;
  svg += Line(x, kY - 4, x + 22, kY - 4, "limit axis");
  svg += Text({x + 29, kY, "label", "start"}, plot.limit_label);
  return svg;
}

}  // namespace

std::string PlotAsSvg(const Plot& plot) {
  const double num_panels = static_cast<double>(std::max<size_t>(1, plot.panels.size()));
  const double width = 2 * kMargin + num_panels * kPanelWidth;
  const double height = kTop + kPanelTop + kPanelHeight + kBottom;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n<title>{2}</title>\n",
      width, height, Escaped(plot.title));
  svg += Style();
  svg += fmt::format("<rect class=\"ground\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"8\"/>\n",
                     width, height);
  svg += Text({kMargin + kLeft, 30, "title", "start"}, plot.title);
  svg += Text({kMargin + kLeft, 50, "label", "start"}, plot.subtitle);
  svg += Legend(plot);
  for (size_t i = 0; i < plot.panels.size(); ++i) {
    const PlotPanel& panel = plot.panels[i];
    const bool has_points = std::any_of(panel.series.begin(), panel.series.end(),
                                        [](const PlotSeries& s) { return !s.points.empty(); });
    if (!has_points) continue;
    const Axes axes(panel, kMargin + static_cast<double>(i) * kPanelWidth);
    svg += Grid(panel, axes);
    for (size_t s = 0; s < panel.series.size(); ++s) {
      svg += Series(panel, s, axes);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace baton
