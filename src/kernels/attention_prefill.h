// Prefill attention: many new rows per sequence, each tile of them over its whole past.
#pragma once

#include <cstddef>

#include "kernels/attention.h"
#include "kernels/kernel_context.h"

namespace baton {

// Bytes of AttentionArgs::workspace for PrefillAttention, for any number of rows and sequences.
size_t PrefillAttentionWorkspaceBytes(const AttentionShape& shape, int num_threads);

// Writes the attention output of every row of every sequence; other rows of out stay as they are.
// Requires: see AttentionArgs; q and out do not overlap.
// Threads: tasks are (sequence, KV head, tile of rows), or for a few rows with a long past those of
// DecodeAttention.
// Memory: allocates nothing.
void PrefillAttention(const KernelContext& context, const AttentionArgs& args);

}  // namespace baton
