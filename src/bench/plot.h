// Line plots as SVG: panels side by side, readable on light and on dark ground.
#pragma once

#include <string>
#include <vector>

namespace baton {

// A measured point, and the limit that belongs to it (0 for none). Finite, y and limit >= 0.
struct PlotPoint {
  double x = 0;
  double y = 0;
  double limit = 0;
};

struct PlotSeries {
  std::string label;
  std::vector<PlotPoint> points;  // any order
};

// The y axis begins at 0. A label stands at each x that has a point; on a logarithmic axis all x
// are above 0.
struct PlotPanel {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  bool is_log_x = false;
  std::vector<PlotSeries> series = {};
};

struct Plot {
  std::string title;
  std::string subtitle;
  std::vector<PlotPanel> panels;                     // with series of the same labels and order
  std::string limit_label = "limit of the machine";  // for the legend; empty: there are no limits
};

// One SVG document. Series have a colour each, in all panels the same, and a legend; limits are
// dashed. Texts may hold anything; what XML cannot hold is left out.
std::string PlotAsSvg(const Plot& plot);

}  // namespace baton
