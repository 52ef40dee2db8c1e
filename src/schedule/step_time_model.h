#pragma once
#include <cstdint>
namespace baton {
struct StepFeatures {
  double prefill_tokens = 0, prefill_context = 0, decode_rows = 0, decode_context = 0;
  void AddPrefill(int64_t tokens, int64_t computed) {
    prefill_tokens += static_cast<double>(tokens);
    prefill_context += static_cast<double>(tokens) *
                       (static_cast<double>(computed) + static_cast<double>(tokens) / 2);
  }
  void AddDecode(int64_t context) {
    decode_rows += 1;
    decode_context += static_cast<double>(context);
  }
};
class StepTimeModel {
 public:
  double Predict(const StepFeatures& f) const {
    return 1e-3 + 1e-3 * f.prefill_tokens + 1e-7 * f.prefill_context + 1e-3 * f.decode_rows +
           1e-7 * f.decode_context;
  }
  void Observe(const StepFeatures&, double) {}
};
}  // namespace baton
