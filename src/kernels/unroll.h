// BATON_UNROLL before a loop with constant bounds: unroll it completely, under either compiler. A
// loop over an array of accumulators that is not fully unrolled keeps the array in memory. (The
// portable build keeps it there anyway.)
#pragma once

#if defined(BATON_ISA_PORTABLE)
#define BATON_UNROLL
#elif defined(__clang__)
#define BATON_UNROLL _Pragma("unroll")
#else
#define BATON_UNROLL _Pragma("GCC unroll 16")
#endif
