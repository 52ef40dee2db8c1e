// Decode attention: few new rows per sequence, their past spread over threads in segments.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/attention.h"
#include "kernels/kernel_context.h"

namespace baton {

// Bytes of AttentionArgs::workspace for DecodeAttention of these sequences, in any layer.
size_t DecodeAttentionWorkspaceBytes(const AttentionShape& shape,
                                     std::span<const AttentionSequence> sequences, int num_threads);

// Writes the attention output of every row of every sequence; other rows of out stay as they are.
// Requires: see AttentionArgs; q and out do not overlap. num_rows of each sequence is at most
// kMaxDecodeRows.
// Threads: tasks are (sequence, KV head, segment of 1,024 keys); a second loop merges the segments
// if a sequence has more than one.
// Memory: allocates nothing.
void DecodeAttention(const KernelContext& context, const AttentionArgs& args);

// Rows of one sequence that decode takes: more are prefill's work.
inline constexpr int kMaxDecodeRows = 64;

}  // namespace baton
