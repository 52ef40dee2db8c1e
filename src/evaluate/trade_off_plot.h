// Cost against loss, as SVG: what lies to the left of and below all others is worth choosing.
#pragma once

#include <string>
#include <vector>

namespace baton {

struct TradeOffPoint {
  std::string label;
  double cost = 0;  // finite, >= 0
  double loss =
      0;  // on a logarithmic axis; what is below a thousandth of the largest is drawn there
};

struct TradeOffPanel {
  std::string title = {};
  std::vector<TradeOffPoint> points = {};  // the same labels in the same order in all panels
};

struct TradeOffPlot {
  std::string title = {};
  std::string subtitle = {};
  std::string x_label = {};
  std::vector<TradeOffPanel> panels = {};
};

// The points that no other beats: none has less loss at no more cost, or less cost at no more loss.
// Returns indices by ascending cost; of equal points the first.
std::vector<size_t> ParetoFront(const std::vector<TradeOffPoint>& points);

// One SVG document: panels side by side, points with numbers, the front as a line, and a list of
// the labels by number.
std::string TradeOffAsSvg(const TradeOffPlot& plot);

}  // namespace baton
