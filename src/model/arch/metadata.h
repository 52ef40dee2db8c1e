// What the architectures' metadata have in common: keys under the architecture's name, sizes that
// must be positive and below a limit, RoPE and its scaling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/gguf.h"
#include "model/model_spec.h"

namespace baton {

// Reads keys "<architecture>.<suffix>" of one file.
class Metadata {
 public:
  Metadata(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  const GgufFile& file() const { return file_; }
  std::string Key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Key(suffix)); }

  // A whole number in [1, limit]. Errors: not-found, corrupt.
  Result<int64_t> Size(std::string_view suffix, int64_t limit) const;
  // Likewise; `otherwise` if the key is missing.
  Result<int64_t> SizeOr(std::string_view suffix, int64_t limit, int64_t otherwise) const;
  // A whole number in [0, limit]; 0 if the key is missing.
  Result<int64_t> CountOrZero(std::string_view suffix, int64_t limit) const;
  // A finite number above 0; `otherwise` if the key is missing (an error where it is nothing).
  Result<float> Positive(std::string_view suffix, std::optional<float> otherwise) const;
  // A number that metadata may give per layer as an array, one element for each layer; all must be
  // equal.
  Result<int64_t> UniformSize(std::string_view suffix, int64_t limit,
                              std::optional<int64_t> otherwise) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// Fills the sizes that every architecture states by the same keys: layers (made, with defaults),
// widths, heads, context, norm epsilon, vocabulary, whether the output is tied.
// Errors: not-found, corrupt, unavailable (experts; heads or head sizes that differ by layer).
Result<> ReadCommonSizes(const Metadata& metadata, ModelSpec& spec);

// The RoPE that rope.freq_base (default 10,000), rope.dimension_count (default: the whole head),
// rope.scaling.* and the tensor rope_freqs.weight state. `layout` is the architecture's.
//
// Kinds of scaling: none, linear, llama3, yarn. Without rope.scaling.type, a factor (or the older
// key rope.scale_linear) means linear. The original context is the trained one unless stated.
// yarn's attention factor is YarnAttentionFactor(factor) * attn_factor * yarn_attn_factor;
// yarn_ext_factor is taken at 1 only, yarn_log_multiplier at 0 only. Errors: corrupt (a factor of
// 0, ...), unavailable (an unknown kind of scaling, an unknown key below rope.scaling, by name).
Result<RopeSpec> ReadRope(const Metadata& metadata, const ModelSpec& spec, RopeLayout layout);

}  // namespace baton
