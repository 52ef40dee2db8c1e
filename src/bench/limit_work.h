// Work at a limit of the machine: the yardstick to time beside other work.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/kernel_context.h"

namespace baton {

// Work, and how much of it one run does, all threads together.
struct LimitWork {
  std::function<void()> run;
  double amount = 0;
};

// Fused multiply-adds of binary32 in registers. Units of amount: multiply-adds.
// Memory: refers to what `context` refers to, which outlives the work.
LimitWork FloatLimitWork(const KernelContext& context);

// Multiply-adds of 8-bit integers in registers, by the instructions that the kernels of quantized
// weights use. Units and memory as above.
LimitWork IntegerLimitWork(const KernelContext& context);

// Reads memory once, in order, shared out over the threads in pieces. Of each span what is left
// after whole units of 512 bytes is passed over. Units of amount: bytes.
// Memory: refers to the spans' bytes, too.
LimitWork ReadLimitWork(const KernelContext& context,
                        std::vector<std::span<const std::byte>> memory);

// Reads a part of `memory` again and again, as from a cache: each thread has its own `bytes` of it.
// Requires: bytes is a multiple of 512; memory holds that much for each thread.
LimitWork ReadNearLimitWork(const KernelContext& context, std::span<const std::byte> memory,
                            size_t bytes);

}  // namespace baton
