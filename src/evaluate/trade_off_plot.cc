#include "evaluate/trade_off_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/svg.h"

namespace baton {
namespace {

// Units: pixels.
constexpr double kPanelWidth = 430;
constexpr double kPanelHeight = 300;
constexpr double kLeft = 64;      // of a panel, for the labels of the y axis
constexpr double kRight = 20;     // of a panel
constexpr double kTop = 104;      // title, subtitle, panel titles
constexpr double kBottom = 56;    // labels of the x axis
constexpr double kLineStep = 17;  // of the list of labels
constexpr double kDecades = 3;    // at most, below the largest loss

// The axes of all panels: the same, so that they can be compared.
class Axes {
 public:
  explicit Axes(const TradeOffPlot& plot) {
    double most = 0;
    double least = HUGE_VAL;
    for (const TradeOffPanel& panel : plot.panels) {
      for (const TradeOffPoint& point : panel.points) {
        highest_cost_ = std::max(highest_cost_, point.cost);
        if (std::isfinite(point.loss)) most = std::max(most, point.loss);
        if (point.loss > 0) least = std::min(least, point.loss);
      }
    }
    if (most <= 0) most = 1;
    least = std::clamp(least, most * std::pow(10.0, -kDecades), most);
    top_ = std::ceil(std::log10(most) + 0.05);
    bottom_ = std::min(std::floor(std::log10(least) - 0.05), top_ - 1);
    highest_cost_ = std::ceil(highest_cost_ * 5 + 0.25) / 5;
  }

  static double Left(size_t panel) { return static_cast<double>(panel) * kPanelWidth + kLeft; }
  static double Right(size_t panel) {
    return static_cast<double>(panel + 1) * kPanelWidth - kRight;
  }
  double X(size_t panel, double cost) const {
    return Left(panel) + cost / highest_cost_ * (Right(panel) - Left(panel));
  }
  double Y(double loss) const {
    const double place = loss > 0 ? std::clamp(std::log10(loss), bottom_, top_) : bottom_;
    return kTop + (top_ - place) / (top_ - bottom_) * kPanelHeight;
  }
  double highest_cost() const { return highest_cost_; }
  double top() const { return top_; }  // log10 of the loss
  double bottom() const { return bottom_; }

 private:
  double highest_cost_ = 0;
  double top_ = 0;
  double bottom_ = -1;
};

std::string Grid(const TradeOffPlot& plot, const Axes& axes, size_t panel) {
  const double left = Axes::Left(panel);
  const double right = Axes::Right(panel);
  const double bottom = kTop + kPanelHeight;
  std::string svg;
  for (double power = axes.bottom(); power <= axes.top() + 0.01; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double loss = factor * std::pow(10.0, power);
      if (std::log10(loss) > axes.top() + 0.01) continue;
      svg += SvgLine(left, axes.Y(loss), right, axes.Y(loss), "grid");
      svg += SvgText({left - 8, axes.Y(loss) + 4, "tick", "end"}, fmt::format("{:g}", loss));
    }
  }
  for (double cost = 0; cost <= axes.highest_cost() + 0.01; cost += 0.2) {
    const double x = axes.X(panel, cost);
    svg += SvgLine(x, bottom, x, bottom + 4, "axis");
    svg += SvgText({x, bottom + 18, "tick", "middle"}, fmt::format("{:.1f}", cost));
  }
  svg += SvgLine(left, bottom, right, bottom, "axis");
  svg += SvgText({(left + right) / 2, bottom + 38, "label", "middle"}, plot.x_label);
  return svg + SvgText({left, kTop - 14, "panel", "start"}, plot.panels[panel].title);
}

// Places the number of a point where no other one's is, as far as it can.
std::string Numbers(const TradeOffPanel& panel, const Axes& axes, size_t index) {
  struct Place {
    double x;
    double y;
  };
  std::vector<Place> taken;
  std::string svg;
  for (size_t i = 0; i < panel.points.size(); ++i) {
    const Place at = {axes.X(index, panel.points[i].cost), axes.Y(panel.points[i].loss)};
    Place best = {at.x, at.y - 9};
    double best_room = -1;
    for (const Place& by : {Place{0, -9}, Place{12, 4}, Place{-12, 4}, Place{0, 18}, Place{14, -9},
                            Place{-14, -9}, Place{14, 16}, Place{-14, 16}}) {
      double room = 20;
      for (const Place& other : taken) {
        room = std::min(room, std::hypot(at.x + by.x - other.x, at.y + by.y - other.y));
      }
      for (size_t k = 0; k < panel.points.size(); ++k) {
        const double x = axes.X(index, panel.points[k].cost);
        const double y = axes.Y(panel.points[k].loss);
        room = std::min(room, std::hypot(at.x + by.x - x, at.y + by.y - 4 - y) + 6);
      }
      if (room <= best_room + 0.5) continue;
      best_room = room;
      best = {at.x + by.x, at.y + by.y};
    }
    taken.push_back(best);
    svg += SvgText({best.x, best.y, "value", "middle"}, fmt::format("{}", i + 1));
  }
  return svg;
}

std::string Panel(const TradeOffPlot& plot, const Axes& axes, size_t index) {
  const TradeOffPanel& panel = plot.panels[index];
  const std::vector<size_t> front = ParetoFront(panel.points);
  std::string svg = Grid(plot, axes, index);
  std::string line;
  for (const size_t i : front) {
    line += fmt::format("{:.1f},{:.1f} ", axes.X(index, panel.points[i].cost),
                        axes.Y(panel.points[i].loss));
  }
  svg += fmt::format("<polyline class=\"line s0\" points=\"{}\"/>\n", line);
  for (size_t i = 0; i < panel.points.size(); ++i) {
    const bool is_front = std::find(front.begin(), front.end(), i) != front.end();
    svg += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                       is_front ? "d0" : "d1", axes.X(index, panel.points[i].cost),
                       axes.Y(panel.points[i].loss));
  }
  return svg + Numbers(panel, axes, index);
}

}  // namespace

std::vector<size_t> ParetoFront(const std::vector<TradeOffPoint>& points) {
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return points[a].cost != points[b].cost ? points[a].cost < points[b].cost
                                            : points[a].loss < points[b].loss;
  });
  std::vector<size_t> front;
  for (const size_t i : order) {
    if (front.empty() || points[i].loss < points[front.back()].loss) front.push_back(i);
  }
  return front;
}

std::string TradeOffAsSvg(const TradeOffPlot& plot) {
  const size_t num_panels = std::max<size_t>(1, plot.panels.size());
  const size_t num_labels = plot.panels.empty() ? 0 : plot.panels[0].points.size();
  const double list_top = kTop + kPanelHeight + kBottom;
  std::string svg = SvgHead({.width = static_cast<double>(num_panels) * kPanelWidth,
                             .height = list_top + 12 + kLineStep * static_cast<double>(num_labels),
                             .title = plot.title});
  svg += SvgText({kLeft, 30, "title", "start"}, plot.title);
  svg += SvgText({kLeft, 52, "label", "start"}, plot.subtitle);
  if (num_labels > 0) {
    const Axes axes(plot);
    for (size_t i = 0; i < plot.panels.size(); ++i) svg += Panel(plot, axes, i);
  }
  for (size_t i = 0; i < num_labels; ++i) {
    const double y = list_top + 12 + kLineStep * static_cast<double>(i);
    svg += SvgText({kLeft - 8, y, "label", "end"}, fmt::format("{}", i + 1));
    svg += SvgText({kLeft + 4, y, "label", "start"}, plot.panels[0].points[i].label);
  }
  return svg + "</svg>\n";
}

}  // namespace baton
