#include "model/decoder.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/attention_inputs.h"
#include "kernels/layer_inputs.h"
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
  has_update_ = false;
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

RowInputsShape Decoder::InputsShape(int64_t width, InputForms forms) const {
  return {
      .num_rows = num_rows_, .num_inputs = width, .precision = options_.precision, .forms = forms};
}

RowInputs Decoder::NormHidden(View1<const float> weight, InputForms forms) {
  const View2<float> normed = Rows(normed_, spec().hidden_size);
  const NormInputsArgs args = {.hidden = Rows(hidden_, spec().hidden_size),
                               .update = has_update_ ? normed : View2<float>(),
                               .update_norm = update_norm_,
                               .update_scale = spec().residual_scale,
                               .weight = weight,
                               .eps = spec().norm_epsilon,
                               .normed = normed};
  has_update_ = false;
  return NormInputs(context_, args, InputsShape(spec().hidden_size, forms), InputsBuffer());
}

void Decoder::AttentionInputs(int layer, const KvTarget& target) {
  const LayerWeights& weights = model_->layer(layer);
  const WeightMatrix& query = weights.matrix(MatrixRole::kQuery);
  const WeightMatrix& key = weights.matrix(MatrixRole::kKey);
  const WeightMatrix& value = weights.matrix(MatrixRole::kValue);
  const View2<float> q = Rows(q_, spec().query_size());
  const View2<float> k = Rows(k_, spec().kv_size());
  const View2<float> v = Rows(v_, spec().kv_size());
  {
    OpScope scope(recorder_, StepOp::kAttentionNorm, layer);
    const RowInputs inputs =
        NormHidden(weights.vector(VectorRole::kAttentionNorm),
                   query.input_forms() | key.input_forms() | value.input_forms());
    scope.Next(StepOp::kQueryKeyValue);
    Linear(context_, inputs, std::array<LinearJob, 3>{{{&query, q}, {&key, k}, {&value, v}}});
  }
  if (layer > 0) Observe("out", layer - 1, hidden());
  Observe("attn_norm", layer, Rows(normed_, spec().hidden_size));
  {
    const OpScope scope(recorder_, StepOp::kHeads, layer);
    const size_t rope = static_cast<size_t>(spec().layers[static_cast<size_t>(layer)].rope_index);
    const RopeTable& table = model_->ropes()[rope];
    FinishAttentionInputs(context_, {.q = q,
                                     .k = k,
                                     .v = v,
                                     .q_bias = weights.vector(VectorRole::kQueryBias),
                                     .k_bias = weights.vector(VectorRole::kKeyBias),
                                     .v_bias = weights.vector(VectorRole::kValueBias),
                                     .q_norm = weights.vector(VectorRole::kQueryNorm),
                                     .k_norm = weights.vector(VectorRole::kKeyNorm),
                                     .norm_eps = spec().norm_epsilon,
                                     .rope = table,
                                     .cos_sin = Rows(rope_rows_[rope], table.RowFloats()),
                                     .target = target});
  }
  Observe("q_rope", layer, q);
  Observe("k_rope", layer, k);
  Observe("v", layer, v);
}

void Decoder::KeepRows(std::span<const int64_t> rows) {
  CHECK(!has_update_);
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
  OpScope scope(recorder_, StepOp::kAttentionInputs, layer);
  const RowInputs inputs =
      QuantizeRows(context_, attention(), InputsShape(spec().query_size(), matrix.input_forms()),
                   InputsBuffer());
  scope.Next(StepOp::kAttentionOutput);
  Linear(context_, matrix, inputs, Rows(normed_, spec().hidden_size));
  SetUpdate(weights.vector(VectorRole::kPostAttentionNorm));
}

void Decoder::FeedForward(int layer) {
  const LayerWeights& weights = model_->layer(layer);
  const WeightMatrix& gate = weights.matrix(MatrixRole::kGate);
  const WeightMatrix& up = weights.matrix(MatrixRole::kUp);
  const WeightMatrix& down = weights.matrix(MatrixRole::kDown);
  const View2<float> gate_out = Rows(gate_, spec().feed_forward_size);
  const View2<float> up_out = Rows(up_, spec().feed_forward_size);
  {
    OpScope scope(recorder_, StepOp::kFeedForwardNorm, layer);
    const RowInputs inputs = NormHidden(weights.vector(VectorRole::kFeedForwardNorm),
                                        gate.input_forms() | up.input_forms());
    scope.Next(StepOp::kGateUp);
    Linear(context_, inputs, std::array<LinearJob, 2>{{{&gate, gate_out}, {&up, up_out}}});
  }
  Observe("after_attn", layer, hidden());
  {
    OpScope scope(recorder_, StepOp::kActivation, layer);
    const Activation activation = spec().layers[static_cast<size_t>(layer)].activation;
    const RowInputs inputs =
        GatedInputs(context_, {.gate = gate_out, .up = up_out, .activation = activation},
                    InputsShape(spec().feed_forward_size, down.input_forms()), InputsBuffer());
    scope.Next(StepOp::kDown);
    Linear(context_, down, inputs, Rows(normed_, spec().hidden_size));
  }
  SetUpdate(weights.vector(VectorRole::kPostFeedForwardNorm));
}

void Decoder::FinishLayers() {
  if (!has_update_) return;
  has_update_ = false;
  const OpScope scope(recorder_, StepOp::kResidual, kNoLayer);
  const View2<float> hidden = Rows(hidden_, spec().hidden_size);
  const View2<float> update = Rows(normed_, spec().hidden_size);
  if (!update_norm_.empty()) {
    RmsNorm(context_,
            {.in = update, .weight = update_norm_, .eps = spec().norm_epsilon, .out = update});
  }
  if (spec().residual_scale != 1.0f) {
    ScaleRows(context_, {.in = update, .factor = spec().residual_scale, .out = update});
  }
  AddRows(context_, {.a = hidden, .b = update, .out = hidden});
  Observe("out", spec().num_layers() - 1, hidden);
}

void Decoder::Logits(std::span<const int64_t> rows, View2<float> out) {
  const int64_t count = static_cast<int64_t>(rows.size());
  CHECK_LE(count, options_.max_logit_rows);
  CHECK_EQ(out.rows(), count);
  CHECK_EQ(out.cols(), spec().vocab_size);
  if (count == 0) return;
  CHECK(!has_update_);
  const View2<float> chosen(logit_rows_.data(), count, spec().hidden_size);
  for (int64_t i = 0; i < count; ++i) {
    std::ranges::copy(hidden().Row(rows[static_cast<size_t>(i)]).span(),
                      chosen.Row(i).span().begin());
  }
  const WeightMatrix& output = model_->output();
  RowInputsShape shape = InputsShape(spec().hidden_size, output.input_forms());
  shape.num_rows = count;
  OpScope scope(recorder_, StepOp::kOutputNorm, kNoLayer);
  const RowInputs inputs = NormInputs(context_,
                                      {.hidden = chosen,
                                       .update = {},
                                       .update_norm = {},
                                       .weight = model_->output_norm(),
                                       .eps = spec().norm_epsilon,
                                       .normed = chosen},
                                      shape, InputsBuffer());
  Observe("output_norm", kNoLayer, chosen);
  scope.Next(StepOp::kOutput);
  Linear(context_, output, inputs, out);
  if (spec().logit_scale != 1.0f) {
    ScaleRows(context_, {.in = out, .factor = spec().logit_scale, .out = out});
  }
  if (spec().logit_soft_cap != 0.0f) {
    SoftCapRows(context_, {.in = out, .cap = spec().logit_soft_cap, .out = out});
  }
}

}  // namespace baton
