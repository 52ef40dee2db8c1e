// The decoder's layers, operation by operation, on the rows of one step.
//
// The order of calls is a step's way through the model:
//   Begin; for each layer: AttentionInputs, then attention by the caller (q, cache -> attention),
//   AttentionOutput, FeedForward; FinishLayers; then Logits for the rows that are asked for. What
//   follows the last layer's attention is computed for these rows only (KeepRows).
// What a sublayer adds to hidden waits in a buffer until the next one begins, and is added in the
// same pass over the rows as the norm that follows: ten loops of the threads a layer in all.
// It knows rows and positions; sequences, phases and the cache are its caller's.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernel_context.h"
#include "kernels/kv_write.h"
#include "kernels/linear.h"
#include "model/model.h"
#include "model/op_recorder.h"
#include "tensor/aligned_buffer.h"
#include "tensor/view.h"

namespace baton {

// Sees intermediate values as a step computes them; for tests and for finding a wrong layer.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // `name`: "embedding", "attn_norm", "q_rope", "k_rope", "v", "attn_heads", "after_attn", "out",
  // "output_norm"; `layer` is -1 for the first and the last. The view is valid during the call.
  virtual void OnValues(std::string_view name, int layer, View2<const float> values) = 0;
};

struct DecoderOptions {
  int64_t max_rows = 0;
  int64_t max_logit_rows = 0;  // of one call of Logits
  Precision precision = Precision::kFast;
};

class Decoder {
 public:
  // Requires: model and what context refers to outlive the decoder.
  // Errors: exhausted. Memory: BufferBytes(model.spec(), ...).
  static Result<Decoder> Make(const Model& model, const KernelContext& context,
                              const DecoderOptions& options);

  // Memory of the buffers of a decoder; for estimates before anything is loaded.
  static uint64_t BufferBytes(const ModelSpec& spec, const DecoderOptions& options);

  // Starts a step: embeds the tokens, prepares RoPE for their positions.
  // Shapes: tokens, positions: [num_rows]. Requires: 1 <= num_rows <= max_rows; ids in range.
  void Begin(std::span<const TokenId> tokens, std::span<const int64_t> positions);

  // From hidden: norm, q, k, v, their norms and RoPE; k and v are stored in the cache. Then q() is
  // valid.
  void AttentionInputs(int layer, const KvTarget& target);
  // Goes on with these rows only, in their order; they are then rows 0, 1, ... of the step. For the
  // last layer, after its attention: nobody reads what its other rows would become.
  // Requires: rows ascend, 1 <= rows.size() <= num_rows.
  void KeepRows(std::span<const int64_t> rows);
  // From attention(): output matrix, norm, to be added to hidden.
  void AttentionOutput(int layer);
  // From hidden: norm, gate, up, activation, down, norm, to be added to hidden.
  void FeedForward(int layer);
  // Adds what still waits.
  void FinishLayers();
  // Logits of the given rows, after FinishLayers: norm, output matrix, scale, soft cap.
  // Shapes: rows: [n], out: [n, vocab_size] f32. Requires: n <= max_logit_rows.
  void Logits(std::span<const int64_t> rows, View2<float> out);

  // Of the step's rows: hidden [num_rows, hidden_size]; q, attention [num_rows, query_size].
  View2<const float> hidden() const { return Rows(hidden_, spec().hidden_size); }
  View2<const float> q() const { return Rows(q_, spec().query_size()); }
  View2<float> attention() { return Rows(attention_, spec().query_size()); }

  const ModelSpec& spec() const { return model_->spec(); }
  const KernelContext& context() const { return context_; }
  // Null for none. The recorder outlives its use.
  void SetRecorder(OpRecorder* recorder) { recorder_ = recorder; }
  OpRecorder* recorder() const { return recorder_; }
  // Null for none. The observer outlives its use.
  void SetObserver(StepObserver* observer) { observer_ = observer; }
  void Observe(std::string_view name, int layer, View2<const float> values) const {
    if (observer_ != nullptr) observer_->OnValues(name, layer, values);
  }

 private:
  Decoder(const Model& model, const KernelContext& context, const DecoderOptions& options);
  View2<float> Rows(const AlignedBuffer<float>& buffer, int64_t width) const {
    return {buffer.data(), num_rows_, width};
  }
  RowInputsShape InputsShape(int64_t width, InputForms forms) const;
  std::span<std::byte> InputsBuffer() { return {inputs_.data(), inputs_.size()}; }
  // Adds what waits to hidden; the norm of hidden, in kernel form.
  RowInputs NormHidden(View1<const float> weight, InputForms forms);
  // From now on normed_ waits to be added to hidden.
  void SetUpdate(View1<const float> norm) {
    update_norm_ = norm;
    has_update_ = true;
  }

  const Model* model_;
  KernelContext context_;
  DecoderOptions options_;
  StepObserver* observer_ = nullptr;
  OpRecorder* recorder_ = nullptr;
  int64_t num_rows_ = 0;
  bool has_update_ = false;
  View1<const float> update_norm_;  // empty: none
  AlignedBuffer<float> hidden_;
  AlignedBuffer<float> normed_;  // [max_rows, hidden_size]; also what a sublayer adds
  AlignedBuffer<float> q_;
  AlignedBuffer<float> k_;
  AlignedBuffer<float> v_;
  AlignedBuffer<float> attention_;
  AlignedBuffer<float> gate_;  // [max_rows, feed_forward_size]
  AlignedBuffer<float> up_;
  AlignedBuffer<float> logit_rows_;              // [max_logit_rows, hidden_size]
  AlignedBytes inputs_;                          // of the linear layer at work
  std::vector<AlignedBuffer<float>> rope_rows_;  // by RoPE table: [max_rows, RowFloats]
};

}  // namespace baton
