// What a step of a model has to do at least: multiply-adds and bytes, counted from its sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/precision.h"
#include "model/model.h"
#include "tensor/kv_record.h"

namespace baton {

// Units: multiply-adds, bytes.
struct ModelWork {
  double integer_macs = 0;  // of 8-bit codes; 16-bit inputs count twice
  double float_macs = 0;    // with float weights, and in attention over KvType::kF16
  double bytes = 0;         // weights once a step, keys and values once a row
};

// A run of rows of one sequence in one step.
struct WorkRows {
  int64_t first_position = 0;
  int64_t num_rows = 0;
  int64_t num_logit_rows = 0;
};

// What of the work is a matter of policy.
struct WorkPolicy {
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
};

// The work of one step. Attention counts visible keys only.
ModelWork WorkOfStep(const Model& model, const WorkPolicy& policy,
                     std::span<const WorkRows> sequences);

ModelWork operator+(const ModelWork& a, const ModelWork& b);

// The memory of all matrices that a decode step reads: those of the layers, and the output matrix.
std::vector<std::span<const std::byte>> WeightMemory(const Model& model);

}  // namespace baton
