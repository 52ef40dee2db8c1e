#include "bench/model_work.h"

#include <algorithm>

namespace baton {
namespace {

// Before a layer's attention, and after it.
constexpr MatrixRole kRolesBefore[] = {MatrixRole::kQuery, MatrixRole::kKey, MatrixRole::kValue};
constexpr MatrixRole kRolesAfter[] = {MatrixRole::kAttentionOutput, MatrixRole::kGate,
                                      MatrixRole::kUp, MatrixRole::kDown};
static_assert(std::size(kRolesBefore) + std::size(kRolesAfter) == kNumMatrixRoles);

void AddMatrix(const WeightMatrix& matrix, Precision precision, double rows, ModelWork& work) {
  if (rows == 0) return;
  const double macs =
      static_cast<double>(matrix.num_outputs()) * static_cast<double>(matrix.num_inputs()) * rows;
  if (!IsQuantized(matrix.panel_type())) {
    work.float_macs += macs;
  } else {
    work.integer_macs += precision == Precision::kExact ? 2 * macs : macs;
  }
  work.bytes += static_cast<double>(matrix.bytes());
}

// Sum over the rows of the keys that each sees.
double VisiblePairs(const WorkRows& rows, int64_t window) {
  double pairs = 0;
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    const int64_t visible = rows.first_position + i + 1;
    pairs += static_cast<double>(window > 0 ? std::min(visible, window) : visible);
  }
  return pairs;
}

}  // namespace

ModelWork operator+(const ModelWork& a, const ModelWork& b) {
  return {.integer_macs = a.integer_macs + b.integer_macs,
          .float_macs = a.float_macs + b.float_macs,
          .bytes = a.bytes + b.bytes};
}

ModelWork WorkOfStep(const Model& model, const WorkPolicy& policy,
                     std::span<const WorkRows> sequences) {
  const ModelSpec& spec = model.spec();
  double rows = 0;
  double logit_rows = 0;
  for (const WorkRows& sequence : sequences) {
    rows += static_cast<double>(sequence.num_rows);
    logit_rows += static_cast<double>(sequence.num_logit_rows);
  }
  const KvRecord record = {.head_dim = spec.head_dim, .type = policy.kv_type};
  const double token_bytes = static_cast<double>(record.StatisticsOffsetBytes()) / kBlockTokens *
                             static_cast<double>(spec.num_kv_heads);
  ModelWork work;
  for (int i = 0; i < spec.num_layers(); ++i) {
    for (const MatrixRole role : kRolesBefore) {
      AddMatrix(model.layer(i).matrix(role), policy.precision, rows, work);
    }
    // After the last layer's keys and values only rows with logits matter.
    const bool is_last = i + 1 == spec.num_layers();
    for (const MatrixRole role : kRolesAfter) {
      AddMatrix(model.layer(i).matrix(role), policy.precision, is_last ? logit_rows : rows, work);
    }
    if (is_last && logit_rows == 0) continue;
    const int64_t window = spec.layers[static_cast<size_t>(i)].sliding_window;
    for (const WorkRows& sequence : sequences) {
      const double pairs = VisiblePairs(sequence, window);
      const double macs = pairs * 2 * static_cast<double>(spec.query_size());
      (policy.kv_type == KvType::kQ8 ? work.integer_macs : work.float_macs) += macs;
      // The rows of a chunk share one reading of what all see.
      const int64_t end = sequence.first_position + sequence.num_rows;
      const int64_t read = window > 0 ? std::min(end, window + sequence.num_rows - 1) : end;
      work.bytes += static_cast<double>(read) * token_bytes;
    }
  }
  AddMatrix(model.output(), policy.precision, logit_rows, work);
  return work;
}

std::vector<std::span<const std::byte>> WeightMemory(const Model& model) {
  std::vector<std::span<const std::byte>> memory;
  const auto add = [&memory](const WeightMatrix& matrix) {
    memory.emplace_back(reinterpret_cast<const std::byte*>(matrix.panel(0)), matrix.bytes());
  };
  for (int i = 0; i < model.spec().num_layers(); ++i) {
    for (const MatrixRole role : kRolesBefore) add(model.layer(i).matrix(role));
    for (const MatrixRole role : kRolesAfter) add(model.layer(i).matrix(role));
  }
  add(model.output());
  return memory;
}

}  // namespace baton
