// The forward pass from its formulas: scalar, binary64, one sequence, straight from a file's
// tensors. Shares no code with the decoder or the kernels; for tests.
//
// Of the promise's numerics it knows one thing: keys and values are kept in binary16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "format/gguf.h"
#include "model/model_spec.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace baton {

class ReferenceForward {
 public:
  using Vector = std::vector<double>;
  using Rows = std::vector<Vector>;

  // Requires: file and spec outlive the object; the spec's RoPE is not scaled or linear.
  ReferenceForward(const GgufFile& file, const ModelSpec& spec) : file_(file), spec_(spec) {}

  // Logits of every position: [tokens.size()][vocab_size].
  Rows Run(const std::vector<TokenId>& tokens) const {
    Rows x;
    const Rows embedding = Matrix("token_embd.weight");
    for (TokenId token : tokens) {
      Vector row = embedding[static_cast<size_t>(token)];
      for (double& value : row) value *= static_cast<double>(spec_.embedding_scale);
      x.push_back(std::move(row));
    }
    for (int i = 0; i < spec_.num_layers(); ++i) {
      Attention(i, x);
      FeedForward(i, x);
    }
    const Vector norm = Values("output_norm.weight");
    const Rows output = spec_.has_tied_output ? embedding : Matrix("output.weight");
    Rows logits;
    for (const Vector& row : x) {
      Vector out = Times(output, Norm(row, norm));
      for (double& value : out) {
        value *= static_cast<double>(spec_.logit_scale);
        value = Capped(value, spec_.logit_soft_cap);
      }
      logits.push_back(std::move(out));
    }
    return logits;
  }

 private:
  Rows Matrix(const std::string& name) const {
    const GgufTensor* tensor = file_.FindTensor(name);
    CHECK(tensor != nullptr);
    Rows rows;
    std::vector<float> values(tensor->row_length());
    for (uint64_t r = 0; r < tensor->num_rows(); ++r) {
      CHECK(DequantizeRow(tensor->type, tensor->Row(r).data(), values).has_value());
      rows.emplace_back(values.begin(), values.end());
    }
    return rows;
  }

  Vector Values(const std::string& name) const { return Matrix(name).front(); }

  static Vector Times(const Rows& matrix, const Vector& x) {
    Vector out;
    for (const Vector& row : matrix) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
      out.push_back(sum);
    }
    return out;
  }

  Vector Norm(const Vector& x, const Vector& weight) const {
    double squares = 0;
    for (double value : x) squares += value * value;
    const double mean = squares / static_cast<double>(x.size());
    const double factor = 1.0 / std::sqrt(mean + static_cast<double>(spec_.norm_epsilon));
    Vector out(x.size());
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * factor * weight[i];
    return out;
  }

  static double Capped(double value, float cap) {
    return cap == 0 ? value
                    : static_cast<double>(cap) * std::tanh(value / static_cast<double>(cap));
  }

  // Head h of a row.
  Vector Head(const Vector& row, int h) const {
    const auto first = row.begin() + static_cast<int64_t>(h) * spec_.head_dim;
    return {first, first + spec_.head_dim};
  }

  Vector Turned(Vector head, const RopeSpec& rope, size_t position) const {
    const RopeParams& params = rope.params;
    CHECK(params.scaling == RopeScaling::kNone || params.scaling == RopeScaling::kLinear);
    const double factor = params.scaling == RopeScaling::kLinear ? params.factor : 1.0;
    const size_t half = static_cast<size_t>(params.rotary_dim) / 2;
    for (size_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / params.rotary_dim;
      const double angle = static_cast<double>(position) * std::pow(params.base, exponent) / factor;
      const bool halves = params.layout == RopeLayout::kHalves;
      const size_t first = halves ? i : 2 * i;
      const size_t second = halves ? i + half : 2 * i + 1;
      const double a = head[first];
      const double b = head[second];
      head[first] = a * std::cos(angle) - b * std::sin(angle);
      head[second] = b * std::cos(angle) + a * std::sin(angle);
    }
    return head;
  }

  // The heads of one projection of all rows: [position][head][head_dim].
  struct Projection {
    std::string_view part;  // "q"
    int num_heads;
    bool is_turned;
  };
  std::vector<Rows> Project(int layer, const Projection& projection, const Rows& normed) const {
    const LayerSpec& spec = spec_.layers[static_cast<size_t>(layer)];
    const std::string name = Blk(layer) + "attn_" + std::string(projection.part);
    const Rows matrix = Matrix(name + ".weight");
    const Vector bias = spec.has_qkv_bias ? Values(name + ".bias") : Vector(matrix.size(), 0.0);
    const bool is_normed = projection.is_turned && spec.has_qk_norm;
    const Vector norm = is_normed ? Values(name + "_norm.weight") : Vector();
    std::vector<Rows> out;
    for (size_t position = 0; position < normed.size(); ++position) {
      Vector row = Times(matrix, normed[position]);
      for (size_t i = 0; i < row.size(); ++i) row[i] += bias[i];
      Rows& heads = out.emplace_back();
      for (int h = 0; h < projection.num_heads; ++h) {
        Vector head = Head(row, h);
        if (is_normed) head = Norm(head, norm);
        if (projection.is_turned) {
          head =
              Turned(std::move(head), spec_.ropes[static_cast<size_t>(spec.rope_index)], position);
        }
        heads.push_back(std::move(head));
      }
    }
    return out;
  }

  static void RoundToHalf(std::vector<Rows>& rows) {
    for (Rows& heads : rows) {
      for (Vector& head : heads) {
        for (double& value : head) {
          value = static_cast<double>(HalfToFloat(FloatToHalf(static_cast<float>(value))));
        }
      }
    }
  }

  void Attention(int layer, Rows& x) const {
    const LayerSpec& spec = spec_.layers[static_cast<size_t>(layer)];
    const Rows normed = NormAll(x, Values(Blk(layer) + "attn_norm.weight"));
    const std::vector<Rows> q = Project(layer, {"q", spec_.num_heads, true}, normed);
    std::vector<Rows> k = Project(layer, {"k", spec_.num_kv_heads, true}, normed);
    std::vector<Rows> v = Project(layer, {"v", spec_.num_kv_heads, false}, normed);
    RoundToHalf(k);
    RoundToHalf(v);
    const Rows output = Matrix(Blk(layer) + "attn_output.weight");
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t window = static_cast<size_t>(spec.sliding_window);
      const size_t first = window == 0 || i + 1 <= window ? 0 : i + 1 - window;
      Vector heads;
      for (int h = 0; h < spec_.num_heads; ++h) {
        const size_t kv_head = static_cast<size_t>(h / (spec_.num_heads / spec_.num_kv_heads));
        const Vector& query = q[i][static_cast<size_t>(h)];
        Vector scores;
        for (size_t j = first; j <= i; ++j) {
          double score = 0;
          for (size_t d = 0; d < query.size(); ++d) score += query[d] * k[j][kv_head][d];
          score *= static_cast<double>(spec.attention_scale);
          scores.push_back(Capped(score, spec.attention_soft_cap));
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        Vector sum(query.size(), 0.0);
        double weights = 0;
        for (size_t j = first; j <= i; ++j) {
          const double weight = std::exp(scores[j - first] - largest);
          weights += weight;
          for (size_t d = 0; d < sum.size(); ++d) sum[d] += weight * v[j][kv_head][d];
        }
        for (double value : sum) heads.push_back(value / weights);
      }
      Vector update = Times(output, heads);
      if (spec.has_post_attention_norm) {
        update = Norm(update, Values(Blk(layer) + "post_attention_norm.weight"));
      }
      AddTo(x[i], update);
    }
  }

  void FeedForward(int layer, Rows& x) const {
    const LayerSpec& spec = spec_.layers[static_cast<size_t>(layer)];
    const Rows normed = NormAll(x, Values(Blk(layer) + "ffn_norm.weight"));
    const Rows gate = Matrix(Blk(layer) + "ffn_gate.weight");
    const Rows up = Matrix(Blk(layer) + "ffn_up.weight");
    const Rows down = Matrix(Blk(layer) + "ffn_down.weight");
    for (size_t i = 0; i < x.size(); ++i) {
      Vector inner = Times(gate, normed[i]);
      const Vector factors = Times(up, normed[i]);
      for (size_t j = 0; j < inner.size(); ++j) {
        inner[j] = Activated(spec.activation, inner[j]) * factors[j];
      }
      Vector update = Times(down, inner);
      if (spec.has_post_feed_forward_norm) {
        update = Norm(update, Values(Blk(layer) + "post_ffw_norm.weight"));
      }
      AddTo(x[i], update);
    }
  }

  static double Activated(Activation activation, double z) {
    if (activation == Activation::kSilu) return z / (1.0 + std::exp(-z));
    CHECK(activation == Activation::kGeluTanh);
    constexpr double kRootTwoOverPi = 0.79788456080286535588;
    return 0.5 * z * (1.0 + std::tanh(kRootTwoOverPi * (z + 0.044715 * z * z * z)));
  }

  Rows NormAll(const Rows& x, const Vector& weight) const {
    Rows out;
    for (const Vector& row : x) out.push_back(Norm(row, weight));
    return out;
  }

  void AddTo(Vector& x, const Vector& update) const {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] += static_cast<double>(spec_.residual_scale) * update[i];
    }
  }

  static std::string Blk(int layer) { return "blk." + std::to_string(layer) + "."; }

  const GgufFile& file_;
  const ModelSpec& spec_;
};

}  // namespace baton
