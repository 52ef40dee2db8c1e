#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "bench/svg.h"

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

std::string Grid(const PlotPanel& panel, const Axes& axes) {
  std::string svg;
  for (double y = 0; y <= axes.highest() * 1.0001; y += axes.step()) {
    if (y > 0) svg += SvgLine(axes.left(), axes.Y(y), axes.right(), axes.Y(y), "grid");
    svg += SvgText({axes.left() - 8, axes.Y(y) + 4, "tick", "end"}, NumberText(y));
  }
  svg += SvgLine(axes.left(), axes.bottom(), axes.right(), axes.bottom(), "axis");
  double free_from = -1e9;
  for (const double x : axes.xs()) {
    svg += SvgLine(axes.X(x), axes.bottom(), axes.X(x), axes.bottom() + 4, "axis");
    const std::string text = NumberText(x);
    const double half = 3.6 * static_cast<double>(text.size());
    if (axes.X(x) - half < free_from) continue;  // no room
    svg += SvgText({axes.X(x), axes.bottom() + 18, "tick", "middle"}, text);
    free_from = axes.X(x) + half + 4;
  }
  svg += SvgText({(axes.left() + axes.right()) / 2, axes.bottom() + 38, "label", "middle"},
                 panel.x_label);
  svg += SvgText({axes.left() - 8, axes.top() - 12, "label", "end"}, panel.y_label);
  svg += SvgText({axes.left(), axes.top() - 12, "panel", "start"}, panel.title);
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
  const size_t colour = index % kSvgColours;
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
      marks +=
          SvgText({x, axes.Y(point.y) - 9, "value", "middle"},
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
    const std::string_view colour = std::string_view("012345").substr(i % kSvgColours, 1);
    svg += SvgLine(x, kY - 4, x + 22, kY - 4, fmt::format("line s{}", colour));
    svg += fmt::format("<circle class=\"d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n", colour,
                       x + 11, kY - 4);
    svg += SvgText({x + 29, kY, "label", "start"}, labels[i]);
    x += 52 + 7 * static_cast<double>(labels[i].size());
  }
  if (plot.limit_label.empty()) return svg;
  svg += SvgLine(x, kY - 4, x + 22, kY - 4, "limit axis");
  svg += SvgText({x + 29, kY, "label", "start"}, plot.limit_label);
  return svg;
}

}  // namespace

std::string PlotAsSvg(const Plot& plot) {
  const double num_panels = static_cast<double>(std::max<size_t>(1, plot.panels.size()));
  const double width = 2 * kMargin + num_panels * kPanelWidth;
  const double height = kTop + kPanelTop + kPanelHeight + kBottom;
  std::string svg = SvgHead({.width = width, .height = height, .title = plot.title});
  svg += SvgText({kMargin + kLeft, 30, "title", "start"}, plot.title);
  svg += SvgText({kMargin + kLeft, 50, "label", "start"}, plot.subtitle);
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
