// Tables of numbers as colours, and maps of kept blocks: parts of SVG documents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/density.h"

namespace baton {

struct HeatMap {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<std::string> columns = {};
  std::vector<std::string> rows = {};
  std::vector<std::vector<double>> values = {};  // [rows][columns]; NaN stays empty
  double low = 0;                                // of the colours
  double high = 1;
  double cell_width = 30;   // pixels; from 24 on the numbers stand in their cells
  double cell_height = 24;  // pixels
  int decimals = 2;         // of the numbers
};

// A part of a document, with its upper left corner at 0, 0, and its size in pixels.
struct SvgPart {
  std::string svg;
  double width = 0;
  double height = 0;
};

SvgPart HeatMapPart(const HeatMap& map);

// Tiles downwards, blocks to the right: always kept, chosen, dropped. `policy` tells apart the
// first two.
SvgPart KeptMapPart(const KeptMap& map, const SparsePolicy& policy);

// A document of parts below each other.
struct SvgPage {
  std::string title;
  std::string subtitle;
  std::vector<SvgPart> parts;
};
std::string PageAsSvg(const SvgPage& page);

}  // namespace baton
