// Turns stored weights into binary32: the reference that every faster decoding is tested against.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace baton {

// Decodes one row of elements, each with the roundings that the format's formula states
// (block_format.h), in scalar code without fused operations.
// Shapes: src: [RowBytes(type, out.size())] bytes, any alignment; out: [num_elements] f32.
// Requires: out.size() is a whole number of blocks; src covers it.
// Errors: kUnavailable if the type is known but not decoded by Baton.
// Memory: none. Threads: any.
Result<void> DequantizeRow(DType type, const std::byte* src, std::span<float> out);

}  // namespace baton
