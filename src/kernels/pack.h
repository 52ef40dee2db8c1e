// Repacking of weights from the blocks of a model file to panels, and back to numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/panel.h"

namespace baton {

// The bytes of one panel of `num_inputs` inputs: a whole number of lines.
int64_t PanelBytes(PanelType type, int64_t num_inputs);

// Up to 16 neighbouring rows of a matrix in a model file.
struct PanelSource {
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;
  int num_rows = 0;
  int64_t num_inputs = 0;
};

// Writes one panel. Requires: `panel` has PanelBytes, zeroed; num_inputs is a whole number of the
// type's blocks. Threads: any. Memory: none.
void PackPanel(PanelType type, const PanelSource& source, uint8_t* panel);

// Decodes one row of a panel, with the roundings of tensor/dequantize.h.
// Shapes: out: [num_inputs] f32. Requires: 0 <= row < 16.
void UnpackPanelRow(PanelType type, const uint8_t* panel, int row, std::span<float> out);

}  // namespace baton
