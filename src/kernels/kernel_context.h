// What every kernel call needs besides its operands.
#pragma once

#include "kernels/isa.h"
#include "threads/pool.h"

namespace baton {

// The instruction set and the threads of a computation. Neither changes a bit of any result.
// Memory: refers to both; they outlive it.
struct KernelContext {
  const KernelTable& table;
  ThreadPool& pool;
};

}  // namespace baton
