#include "model/decoder.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/row_ops.h"

namespace baton {
namespace {

// What belongs to no layer.
constexpr int kNoLayer = -1;

// Every form of input at once: the upper bound that the buffer is sized by.
InputForms AllForms() {
  InputForms forms{.sides = 0, .floats = true};
  for (const DTypeTraits& traits : AllDTypes()) {
    if (IsSupported(traits.type)) forms = forms | InputForms::For(traits.type);
  }
  return forms;
}

int64_t WidestInput(const ModelSpec& spec) {
  return std::max({spec.hidden_size, spec.query_size(), spec.feed_forward_size});
}

// Rows are padded to a multiple of 32, since forms with codes need whole blocks.
size_t InputsBytes(const ModelSpec& spec, const DecoderOptions& options) {
  const int64_t width = (WidestInput(spec) + kInputBlock - 1) / kInputBlock * kInputBlock;
  return RowInputsBytes({.num_rows = std::max(options.max_rows, options.max_logit_rows),
                         .num_inputs = width,
                         .precision = options.precision,
                         .forms = AllForms()});
}

struct FloatBuffer {
  AlignedBuffer<float>* buffer;
  int64_t rows;
  int64_t width;
};

}  // namespace

Decoder::Decoder(const Model& model, const KernelContext& context, const DecoderOptions& options)
    : model_(&model), context_(context), options_(options) {}

Result<Decoder> Decoder::Make(const Model& model, const KernelContext& context,
                              const DecoderOptions& options) {
  CHECK_GE(options.max_rows, 1);
  CHECK_GE(options.max_logit_rows, 1);
  const ModelSpec& spec = model.spec();
  Decoder decoder(model, context, options);
  decoder.rope_rows_.resize(model.ropes().size());
  std::vector<FloatBuffer> buffers = {
      {&decoder.hidden_, options.max_rows, spec.hidden_size},
      {&decoder.normed_, options.max_rows, spec.hidden_size},
      {&decoder.q_, options.max_rows, spec.query_size()},
      {&decoder.k_, options.max_rows, spec.kv_size()},
      {&decoder.v_, options.max_rows, spec.kv_size()},
      {&decoder.attention_, options.max_rows, spec.query_size()},
      {&decoder.gate_, options.max_rows, spec.feed_forward_size},
      {&decoder.up_, options.max_rows, spec.feed_forward_size},
      {&decoder.logit_rows_, options.max_logit_rows, spec.hidden_size},
  };
  for (size_t i = 0; i < model.ropes().size(); ++i) {
    buffers.push_back({&decoder.rope_rows_[i], options.max_rows, model.ropes()[i].RowFloats()});
  }
  for (const FloatBuffer& wanted : buffers) {
    Result<AlignedBuffer<float>> buffer =
        AlignedBuffer<float>::Allocate(static_cast<size_t>(wanted.rows * wanted.width));
    if (!buffer) return Forward(buffer);
    *wanted.buffer = *std::move(buffer);
  }
  Result<AlignedBytes> inputs = AlignedBytes::Allocate(InputsBytes(spec, options));
  if (!inputs) return Forward(inputs);
  decoder.inputs_ = *std::move(inputs);
  return decoder;
}

uint64_t Decoder::BufferBytes(const ModelSpec& spec, const DecoderOptions& options) {
  const int64_t floats_per_row =
      2 * spec.hidden_size + 2 * spec.query_size() + 2 * spec.kv_size() +
      2 * spec.feed_forward_size +
      2 * int64_t{spec.head_dim} * static_cast<int64_t>(spec.ropes.size());
  return static_cast<uint64_t>(options.max_rows * floats_per_row +
                               options.max_logit_rows * spec.hidden_size) *
             sizeof(float) +
         InputsBytes(spec, options);
}

void Decoder::Begin(std::span<const TokenId> tokens, std::span<const int64_t> positions) {
  CHECK_EQ(tokens.size(), positions.size());
  num_rows_ = static_cast<int64_t>(tokens.size());
  CHECK_GE(num_rows_, 1);
  CHECK_LE(num_rows_, options_.max_rows);
  const View2<float> hidden = Rows(hidden_, spec().hidden_size);
  {
    const OpScope scope(recorder_, StepOp::kEmbedding, kNoLayer);
    context_.pool.ParallelFor(num_rows_, [&](int64_t row, int) {
      model_->embedding().DequantizeRow(tokens[static_cast<size_t>(row)], hidden.Row(row).span());
    });
    if (spec().embedding_scale != 1.0f) {
      ScaleRows(context_, {.in = hidden, .factor = spec().embedding_scale, .out = hidden});
    }
  }
  const OpScope scope(recorder_, StepOp::kRopeTable, kNoLayer);
  for (size_t i = 0; i < rope_rows_.size(); ++i) {
    const RopeTable& table = model_->ropes()[i];
    ComputeRopeRows(context_, {.table = table,
                               .positions = positions,
                               .cos_sin = Rows(rope_rows_[i], table.RowFloats())});
  }
  Observe("embedding", kNoLayer, hidden);
}

RowInputs Decoder::Prepare(View2<const float> rows, InputForms forms, int layer) {
  const OpScope scope(recorder_, StepOp::kQuantizeInputs, layer);
  const RowInputsShape shape{.num_rows = rows.rows(),
                             .num_inputs = rows.cols(),
                             .precision = options_.precision,
                             .forms = forms};
  return QuantizeRows(context_, rows, shape, {inputs_.data(), inputs_.size()});
}

void Decoder::Norm(View2<const float> in, View1<const float> weight, View2<float> out) {
  RmsNorm(context_, {.in = in, .weight = weight, .eps = spec().norm_epsilon, .out = out});
}

void Decoder::AttentionInputs(int layer) {
  const LayerSpec& layer_spec = spec().layers[static_cast<size_t>(layer)];
  const LayerWeights& weights = model_->layer(layer);
  const View2<float> normed = Rows(normed_, spec().hidden_size);
  {
    const OpScope scope(recorder_, StepOp::kAttentionNorm, layer);
    Norm(hidden(), weights.vector(VectorRole::kAttentionNorm), normed);
  }
  Observe("attn_norm", layer, normed);

  struct Projection {
    MatrixRole matrix;
    VectorRole bias;
    VectorRole norm;
    View2<float> out;
    bool is_turned;
    StepOp op;
  };
  const std::array<Projection, 3> projections = {{
      {MatrixRole::kQuery, VectorRole::kQueryBias, VectorRole::kQueryNorm,
       Rows(q_, spec().query_size()), true, StepOp::kQuery},
      {MatrixRole::kKey, VectorRole::kKeyBias, VectorRole::kKeyNorm, Rows(k_, spec().kv_size()),
       true, StepOp::kKey},
      {MatrixRole::kValue, VectorRole::kValueBias, VectorRole::kKeyNorm, Rows(v_, spec().kv_size()),
       false, StepOp::kValue},
  }};
  InputForms forms;
  for (const Projection& projection : projections) {
    forms = forms | weights.matrix(projection.matrix).input_forms();
  }
  const RowInputs inputs = Prepare(normed, forms, layer);
  const size_t rope = static_cast<size_t>(layer_spec.rope_index);
  const RopeTable& table = model_->ropes()[rope];
  for (const Projection& projection : projections) {
    const OpScope scope(recorder_, projection.op, layer);
    Linear(context_, weights.matrix(projection.matrix), inputs, projection.out);
    const View1<const float> bias = weights.vector(projection.bias);
    if (!bias.empty()) AddBias(context_, {.bias = bias, .rows = projection.out});
    if (!projection.is_turned) continue;
    if (layer_spec.has_qk_norm) {
      Norm(projection.out, weights.vector(projection.norm), projection.out);
    }
    ApplyRope(context_, {.table = table,
                         .cos_sin = Rows(rope_rows_[rope], table.RowFloats()),
                         .x = projection.out});
  }
  Observe("q_rope", layer, q());
  Observe("k_rope", layer, k());
  Observe("v", layer, v());
}

void Decoder::AddToHidden(View2<float> update, View1<const float> post_norm, int layer) {
  const OpScope scope(recorder_, StepOp::kResidual, layer);
  if (!post_norm.empty()) Norm(update, post_norm, update);
  if (spec().residual_scale != 1.0f) {
    ScaleRows(context_, {.in = update, .factor = spec().residual_scale, .out = update});
  }
  const View2<float> hidden = Rows(hidden_, spec().hidden_size);
  AddRows(context_, {.a = hidden, .b = update, .out = hidden});
}

void Decoder::KeepRows(std::span<const int64_t> rows) {
  CHECK_GE(std::ssize(rows), 1);
  CHECK_LE(std::ssize(rows), num_rows_);
  const View2<float> hidden = Rows(hidden_, spec().hidden_size);
  const View2<float> attention = Rows(attention_, spec().query_size());
  for (int64_t to = 0; to < std::ssize(rows); ++to) {
    const int64_t from = rows[static_cast<size_t>(to)];
    CHECK(from >= to && from < num_rows_);
    if (from == to) continue;
    std::ranges::copy(hidden.Row(from).span(), hidden.Row(to).span().begin());
    std::ranges::copy(attention.Row(from).span(), attention.Row(to).span().begin());
  }
  num_rows_ = std::ssize(rows);
}

void Decoder::AttentionOutput(int layer) {
  Observe("attn_heads", layer, attention());
  const LayerWeights& weights = model_->layer(layer);
  const WeightMatrix& matrix = weights.matrix(MatrixRole::kAttentionOutput);
  const View2<float> update = Rows(normed_, spec().hidden_size);
  const RowInputs inputs = Prepare(attention(), matrix.input_forms(), layer);
  {
    const OpScope scope(recorder_, StepOp::kAttentionOutput, layer);
    Linear(context_, matrix, inputs, update);
  }
  AddToHidden(update, weights.vector(VectorRole::kPostAttentionNorm), layer);
  Observe("after_attn", layer, hidden());
}

void Decoder::FeedForward(int layer) {
  const LayerWeights& weights = model_->layer(layer);
  const View2<float> normed = Rows(normed_, spec().hidden_size);
  {
    const OpScope scope(recorder_, StepOp::kFeedForwardNorm, layer);
    Norm(hidden(), weights.vector(VectorRole::kFeedForwardNorm), normed);
  }
  const WeightMatrix& gate = weights.matrix(MatrixRole::kGate);
  const WeightMatrix& up = weights.matrix(MatrixRole::kUp);
  const View2<float> gate_out = Rows(gate_, spec().feed_forward_size);
  const View2<float> up_out = Rows(up_, spec().feed_forward_size);
  const RowInputs inputs = Prepare(normed, gate.input_forms() | up.input_forms(), layer);
  {
    const OpScope scope(recorder_, StepOp::kGate, layer);
    Linear(context_, gate, inputs, gate_out);
  }
  {
    const OpScope scope(recorder_, StepOp::kUp, layer);
    Linear(context_, up, inputs, up_out);
  }
  {
    const OpScope scope(recorder_, StepOp::kActivation, layer);
    GatedActivation(context_, {.gate = gate_out,
                               .up = up_out,
                               .activation = spec().layers[static_cast<size_t>(layer)].activation,
                               .out = gate_out});
  }
  const WeightMatrix& down = weights.matrix(MatrixRole::kDown);
  const RowInputs down_inputs = Prepare(gate_out, down.input_forms(), layer);
  {
    const OpScope scope(recorder_, StepOp::kDown, layer);
    Linear(context_, down, down_inputs, normed);
  }
  AddToHidden(normed, weights.vector(VectorRole::kPostFeedForwardNorm), layer);
  Observe("out", layer, hidden());
}

void Decoder::Logits(std::span<const int64_t> rows, View2<float> out) {
  const int64_t count = static_cast<int64_t>(rows.size());
  CHECK_LE(count, options_.max_logit_rows);
  CHECK_EQ(out.rows(), count);
  CHECK_EQ(out.cols(), spec().vocab_size);
  if (count == 0) return;
  const View2<float> normed(logit_rows_.data(), count, spec().hidden_size);
  {
    const OpScope scope(recorder_, StepOp::kOutputNorm, kNoLayer);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      Norm(hidden().Rows(row, 1), model_->output_norm(), normed.Rows(i, 1));
    }
  }
  Observe("output_norm", kNoLayer, normed);
  const WeightMatrix& output = model_->output();
  const RowInputs inputs = Prepare(normed, output.input_forms(), kNoLayer);
  const OpScope scope(recorder_, StepOp::kOutput, kNoLayer);
  Linear(context_, output, inputs, out);
  if (spec().logit_scale != 1.0f) {
    ScaleRows(context_, {.in = out, .factor = spec().logit_scale, .out = out});
  }
  if (spec().logit_soft_cap != 0.0f) {
    SoftCapRows(context_, {.in = out, .cap = spec().logit_soft_cap, .out = out});
  }
}

}  // namespace baton
