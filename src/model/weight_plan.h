// Which tensors of a file a model needs, in which role, and of which shape.
//
// The plan follows from the ModelSpec alone. The loader, the memory estimate and `baton inspect`
// all read it, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "kernels/weight_matrix.h"
#include "model/model_spec.h"

namespace baton {

// Matrices [num_outputs, num_inputs] of a layer.
enum class MatrixRole {
  kQuery,
  kKey,
  kValue,
  kAttentionOutput,
  kGate,
  kUp,
  kDown,
};
inline constexpr int kNumMatrixRoles = 7;

// Vectors of a layer. Roles that a layer's spec does not have are empty.
enum class VectorRole {
  kAttentionNorm,
  kQueryNorm,
  kKeyNorm,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kPostAttentionNorm,
  kFeedForwardNorm,
  kPostFeedForwardNorm,
};
inline constexpr int kNumVectorRoles = 9;

// Weights that belong to no layer.
enum class GlobalRole {
  kEmbedding,   // matrix [vocab_size, hidden_size]; also the output head if tied
  kOutput,      // matrix [vocab_size, hidden_size]
  kOutputNorm,  // vector [hidden_size]
};

// One use of a tensor: rows [first_row, first_row + num_rows) of it, in one role. A vector has one
// row.
struct WeightUse {
  static constexpr int kNoLayer = -1;

  std::string tensor_name;
  int layer = kNoLayer;
  int role = 0;  // a GlobalRole if layer is kNoLayer, else a MatrixRole or VectorRole
  bool is_matrix = false;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t tensor_rows = 0;  // all rows of the tensor, more than num_rows if it is fused
};

// Every use of every tensor, in the order in which a step reads them.
std::vector<WeightUse> PlanWeights(const ModelSpec& spec);

// The bytes of one use in the file. Requires: the file fits the plan (FindObstacles found nothing).
WeightSource SourceOf(const GgufFile& file, const WeightUse& use);

// One thing that keeps a file from being loaded.
struct Obstacle {
  ErrorCode code;        // not-found: missing; corrupt: another shape; unavailable: Baton lacks it
  std::string sentence;  // names the tensor
};

// What stands between a file and the plan: tensors that are missing, have another shape or a type
// that Baton does not compute with, and biases that the plan would leave out. Empty if the model
// can be loaded.
std::vector<Obstacle> FindObstacles(const GgufFile& file, const std::vector<WeightUse>& plan);

// Whether the model can be loaded. Errors: the first obstacle, with the file's name and how many
// more there are.
Result<> CheckPlan(const GgufFile& file, const std::vector<WeightUse>& plan);

// Names of the file's tensors that the plan does not use; the loader reports them.
std::vector<std::string_view> UnusedTensors(const GgufFile& file,
                                            const std::vector<WeightUse>& plan);

}  // namespace baton
