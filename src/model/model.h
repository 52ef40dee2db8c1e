// A model ready to compute: its spec, its weights by role, its RoPE tables.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "format/gguf.h"
#include "format/packed_file.h"
#include "kernels/rope.h"
#include "kernels/weight_matrix.h"
#include "model/model_spec.h"
#include "model/weight_plan.h"
#include "tensor/aligned_buffer.h"
#include "threads/pool.h"

namespace baton {

// The weights of one layer.
class LayerWeights {
 public:
  // Requires: the layer has the role, by its spec.
  const WeightMatrix& matrix(MatrixRole role) const {
    const std::optional<WeightMatrix>& matrix = matrices_[static_cast<size_t>(role)];
    CHECK(matrix.has_value());
    return *matrix;
  }
  // Empty if the layer does not have the role.
  View1<const float> vector(VectorRole role) const {
    const AlignedBuffer<float>& values = vectors_[static_cast<size_t>(role)];
    return {values.data(), static_cast<int64_t>(values.size())};
  }

 private:
  friend class ModelLoader;
  std::array<std::optional<WeightMatrix>, kNumMatrixRoles> matrices_;
  std::array<AlignedBuffer<float>, kNumVectorRoles> vectors_;
};

// Called while loading. Units: bytes of the file's tensors.
using PackProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Immutable after Load. Threads: any, const.
class Model {
 public:
  // Checks that the file has all that its metadata ask for, then repacks the weights; the file's
  // pages are given back one tensor after the other, so that memory never holds both forms.
  // Requires: nothing of `file` is needed after the return.
  // Errors: as ReadModelSpec; not-found or corrupt or unavailable naming the tensors (missing, of
  // another shape, of a type that Baton lacks); exhausted.
  static Result<Model> Load(const GgufFile& file, ThreadPool& pool, const PackProgress& progress);

  // Likewise, by a spec that did not come from the file's metadata, or with the matrices of a
  // packed file, which are checked and not copied. The model keeps the packed file.
  // Errors: besides, those of PackedFile::CheckEntry; corrupt (the packed file lacks a matrix).
  struct LoadArgs {
    const GgufFile& file;
    const ModelSpec& spec;
    ThreadPool& pool;
    const PackProgress& progress;
    std::optional<PackedFile> packed = std::nullopt;
  };
  static Result<Model> LoadBySpec(LoadArgs args);

  const ModelSpec& spec() const { return spec_; }
  const LayerWeights& layer(int i) const { return layers_[static_cast<size_t>(i)]; }
  const WeightMatrix& embedding() const { return *embedding_; }
  // The embedding if tied.
  const WeightMatrix& output() const { return output_ ? *output_ : *embedding_; }
  View1<const float> output_norm() const {
    return {output_norm_.data(), static_cast<int64_t>(output_norm_.size())};
  }
  // By LayerSpec::rope_index.
  const std::vector<RopeTable>& ropes() const { return ropes_; }
  // Memory that the weights take.
  uint64_t weight_bytes() const { return weight_bytes_; }
  // Tensors of the file that no layer reads, to be reported.
  const std::vector<std::string>& unused_tensors() const { return unused_tensors_; }

 private:
  friend class ModelLoader;
  Model() = default;

  ModelSpec spec_;
  std::optional<PackedFile> packed_;  // if it holds the matrices
  std::vector<RopeTable> ropes_;
  std::optional<WeightMatrix> embedding_;
  std::optional<WeightMatrix> output_;
  AlignedBuffer<float> output_norm_;
  std::vector<LayerWeights> layers_;
  std::vector<std::string> unused_tensors_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace baton
