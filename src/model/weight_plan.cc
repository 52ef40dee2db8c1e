#include "model/weight_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton {
namespace {

class Planner {
 public:
  explicit Planner(const ModelSpec& spec) : spec_(spec) {}

  std::vector<WeightUse> Plan() {
    Global(GlobalRole::kEmbedding, "token_embd.weight", true, spec_.vocab_size);
    for (layer_ = 0; layer_ < spec_.num_layers(); ++layer_) {
      Attention(spec_.layers[layer_]);
      FeedForward(spec_.layers[layer_]);
    }
    Global(GlobalRole::kOutputNorm, "output_norm.weight", false, 1);
    if (!spec_.has_tied_output) {
      Global(GlobalRole::kOutput, "output.weight", true, spec_.vocab_size);
    }
    return std::move(uses_);
  }

 private:
  void Global(GlobalRole role, std::string_view name, bool is_matrix, int64_t num_rows) {
    uses_.push_back({.tensor_name = std::string(name),
                     .role = static_cast<int>(role),
                     .is_matrix = is_matrix,
                     .num_rows = num_rows,
                     .num_columns = spec_.hidden_size,
                     .tensor_rows = num_rows});
  }

  std::string Name(std::string_view suffix) const {
    return fmt::format("blk.{}.{}", layer_, suffix);
  }

  void Vector(VectorRole role, std::string_view suffix, int64_t size) {
    uses_.push_back({.tensor_name = Name(suffix),
                     .layer = layer_,
                     .role = static_cast<int>(role),
                     .num_rows = 1,
                     .num_columns = size,
                     .tensor_rows = 1});
  }

  struct Rows {
    int64_t first;
    int64_t count;
    int64_t of;
  };

  void Matrix(MatrixRole role, std::string_view suffix, Rows rows, int64_t num_columns) {
    uses_.push_back({.tensor_name = Name(suffix),
                     .layer = layer_,
                     .role = static_cast<int>(role),
                     .is_matrix = true,
                     .first_row = rows.first,
                     .num_rows = rows.count,
                     .num_columns = num_columns,
                     .tensor_rows = rows.of});
  }

  void Attention(const LayerSpec& layer) {
    const int64_t hidden = spec_.hidden_size;
    const int64_t q = spec_.query_size();
    const int64_t kv = spec_.kv_size();
    Vector(VectorRole::kAttentionNorm, "attn_norm.weight", hidden);
    if (layer.has_fused_qkv) {
      const int64_t all = q + 2 * kv;
      Matrix(MatrixRole::kQuery, "attn_qkv.weight", {.first = 0, .count = q, .of = all}, hidden);
      Matrix(MatrixRole::kKey, "attn_qkv.weight", {.first = q, .count = kv, .of = all}, hidden);
      Matrix(MatrixRole::kValue, "attn_qkv.weight", {.first = q + kv, .count = kv, .of = all},
             hidden);
    } else {
      Matrix(MatrixRole::kQuery, "attn_q.weight", {.first = 0, .count = q, .of = q}, hidden);
      Matrix(MatrixRole::kKey, "attn_k.weight", {.first = 0, .count = kv, .of = kv}, hidden);
      Matrix(MatrixRole::kValue, "attn_v.weight", {.first = 0, .count = kv, .of = kv}, hidden);
    }
    if (layer.has_qkv_bias) {
      Vector(VectorRole::kQueryBias, "attn_q.bias", q);
      Vector(VectorRole::kKeyBias, "attn_k.bias", kv);
      Vector(VectorRole::kValueBias, "attn_v.bias", kv);
    }
    if (layer.has_qk_norm) {
      Vector(VectorRole::kQueryNorm, "attn_q_norm.weight", spec_.head_dim);
      Vector(VectorRole::kKeyNorm, "attn_k_norm.weight", spec_.head_dim);
    }
    Matrix(MatrixRole::kAttentionOutput, "attn_output.weight",
           {.first = 0, .count = hidden, .of = hidden}, q);
    if (layer.has_post_attention_norm) {
      Vector(VectorRole::kPostAttentionNorm, "post_attention_norm.weight", hidden);
    }
  }

  void FeedForward(const LayerSpec& layer) {
    const int64_t hidden = spec_.hidden_size;
    const int64_t inner = spec_.feed_forward_size;
    Vector(VectorRole::kFeedForwardNorm, "ffn_norm.weight", hidden);
    if (layer.has_fused_gate_up) {
      Matrix(MatrixRole::kGate, "ffn_up.weight", {.first = 0, .count = inner, .of = 2 * inner},
             hidden);
      Matrix(MatrixRole::kUp, "ffn_up.weight", {.first = inner, .count = inner, .of = 2 * inner},
             hidden);
    } else {
      Matrix(MatrixRole::kGate, "ffn_gate.weight", {.first = 0, .count = inner, .of = inner},
             hidden);
      Matrix(MatrixRole::kUp, "ffn_up.weight", {.first = 0, .count = inner, .of = inner}, hidden);
    }
    Matrix(MatrixRole::kDown, "ffn_down.weight", {.first = 0, .count = hidden, .of = hidden},
           inner);
    if (layer.has_post_feed_forward_norm) {
      Vector(VectorRole::kPostFeedForwardNorm, "post_ffw_norm.weight", hidden);
    }
  }

  const ModelSpec& spec_;
  int layer_ = 0;
  std::vector<WeightUse> uses_;
};

std::string Shape(const GgufTensor& tensor) {
  std::string text;
  for (uint64_t dim : tensor.dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

// A vector may be stored with trailing dimensions of 1; a matrix has two dimensions.
bool HasShape(const GgufTensor& tensor, const WeightUse& use) {
  return tensor.row_length() == static_cast<uint64_t>(use.num_columns) &&
         tensor.num_rows() == static_cast<uint64_t>(use.tensor_rows) &&
         (!use.is_matrix || tensor.dims.size() < 3 || tensor.dims[1] == tensor.num_rows());
}

}  // namespace

std::vector<WeightUse> PlanWeights(const ModelSpec& spec) {
  return Planner(spec).Plan();
}

WeightSource SourceOf(const GgufFile& file, const WeightUse& use) {
  const GgufTensor& tensor = *file.FindTensor(use.tensor_name);
  const uint64_t row_bytes = tensor.byte_size / tensor.num_rows();
  return {.type = tensor.type,
          .bytes = {tensor.data + static_cast<uint64_t>(use.first_row) * row_bytes,
                    static_cast<size_t>(static_cast<uint64_t>(use.num_rows) * row_bytes)},
          .num_outputs = use.num_rows,
          .num_inputs = use.num_columns};
}

std::vector<Obstacle> FindObstacles(const GgufFile& file, const std::vector<WeightUse>& plan) {
  std::vector<Obstacle> obstacles;
  std::string_view last_name;
  for (const WeightUse& use : plan) {
    if (use.tensor_name == last_name) continue;  // a fused tensor, seen already
    last_name = use.tensor_name;
    const GgufTensor* tensor = file.FindTensor(use.tensor_name);
    if (tensor == nullptr) {
      obstacles.push_back(
          {ErrorCode::kNotFound, fmt::format("tensor {} is missing", use.tensor_name)});
    } else if (!HasShape(*tensor, use)) {
      obstacles.push_back(
          {ErrorCode::kCorrupt,
           fmt::format("tensor {} has the shape {}; the metadata ask for {} x {}", use.tensor_name,
                       Shape(*tensor), use.num_columns, use.tensor_rows)});
    } else if (!IsSupported(tensor->type)) {
      obstacles.push_back(
          {ErrorCode::kUnavailable,
           fmt::format("tensor {} has the type {}, which Baton does not compute with; take a file "
                       "of another quantization (Q4_0 to Q6_K, Q8_0, F16, BF16, F32)",
                       use.tensor_name, DTypeName(tensor->type))});
    }
  }
  for (const std::string_view name : UnusedTensors(file, plan)) {
    if (!name.ends_with(".bias")) continue;
    obstacles.push_back({ErrorCode::kUnavailable,
                         fmt::format("tensor {} is a bias that Baton does not add here; without it "
                                     "the answers would be wrong",
                                     name)});
  }
  return obstacles;
}

Result<> CheckPlan(const GgufFile& file, const std::vector<WeightUse>& plan) {
  const std::vector<Obstacle> obstacles = FindObstacles(file, plan);
  if (obstacles.empty()) return {};
  std::string more;
  if (obstacles.size() > 1) more = fmt::format(" (and {} more)", obstacles.size() - 1);
  return Fail(obstacles.front().code, file.name() + ": " + obstacles.front().sentence + more);
}

std::vector<std::string_view> UnusedTensors(const GgufFile& file,
                                            const std::vector<WeightUse>& plan) {
  std::vector<std::string_view> used;
  for (const WeightUse& use : plan) used.push_back(use.tensor_name);
  used.push_back("rope_freqs.weight");  // read with the metadata
  std::sort(used.begin(), used.end());
  std::vector<std::string_view> unused;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!std::binary_search(used.begin(), used.end(), tensor.name)) unused.push_back(tensor.name);
  }
  return unused;
}

}  // namespace baton
