// From the arguments of an attention call to the tasks of an instruction set: what prefill and
// decode do alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/attention_ops.h"
#include "kernels/isa.h"

namespace baton::internal {

// Aborts unless shapes, strides and sequences fit together.
void CheckAttentionArgs(const AttentionArgs& args);

// Scratch of one worker, a multiple of 64.
size_t ScratchBytes(const AttentionShape& shape, int64_t max_rows);

// The task of all rows of a sequence for one KV head, without scratch, for kernels of the table.
// Requires: the rows are few enough for an int.
AttentionTask MakeTask(const KernelTable& table, const AttentionArgs& args,
                       const AttentionSequence& sequence, int64_t kv_head);

}  // namespace baton::internal
