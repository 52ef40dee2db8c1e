#include "model/model.h"

#include <fmt/format.h>

#include "model/arch/architecture.h"
#include "model/packed_model.h"
#include "tensor/dequantize.h"

namespace baton {

// Fills a Model use by use of the plan.
class ModelLoader {
 public:
  explicit ModelLoader(Model::LoadArgs args)
      : file_(args.file), pool_(args.pool), progress_(args.progress) {
    model_.spec_ = args.spec;
    model_.packed_ = std::move(args.packed);
  }

  Result<Model> Load() {
    const std::vector<WeightUse> plan = PlanWeights(model_.spec_);
    if (Result<> fits = TakePlan(plan); !fits) return Forward(fits);
    if (Result<> ropes = MakeRopes(); !ropes) return Forward(ropes);
    model_.layers_.resize(model_.spec_.layers.size());
    for (const WeightUse& use : plan) {
      if (Result<> loaded = LoadUse(use); !loaded) return Forward(loaded);
    }
    return std::move(model_);
  }

 private:
  Result<> TakePlan(const std::vector<WeightUse>& plan) {
    if (Result<> fits = CheckPlan(file_, plan); !fits) return fits;
    for (std::string_view name : UnusedTensors(file_, plan)) {
      model_.unused_tensors_.emplace_back(name);
    }
    for (const WeightUse& use : plan) total_bytes_ += SourceOf(file_, use).bytes.size();
    return model_.packed_ ? CheckPackedFile() : Result<>();
  }

  Result<> CheckPackedFile() {
    const PackedFile& packed = *model_.packed_;
    std::vector<Result<>> checks(packed.num_entries());
    pool_.ParallelFor(static_cast<int64_t>(checks.size()), [&](int64_t i, int) {
      checks[static_cast<size_t>(i)] = packed.CheckEntry(static_cast<size_t>(i));
    });
    for (const Result<>& check : checks) {
      if (!check) return check;
    }
    return {};
  }

  Result<> MakeRopes() {
    for (const RopeSpec& rope : model_.spec_.ropes) {
      RopeParams params = rope.params;
      params.frequency_factors = rope.frequency_factors;
      Result<RopeTable> table = RopeTable::Make(params);
      if (!table) {
        return Fail(ErrorCode::kCorrupt, file_.name() + ": RoPE: " + table.error().message);
      }
      model_.ropes_.push_back(*std::move(table));
    }
    return {};
  }

  Result<> LoadUse(const WeightUse& use) {
    const WeightSource source = SourceOf(file_, use);
    if (Result<> loaded = use.is_matrix ? LoadMatrix(use, source) : LoadVector(use, source);
        !loaded) {
      return loaded;
    }
    if (use.first_row + use.num_rows == use.tensor_rows) {
      file_.ReleasePages(*file_.FindTensor(use.tensor_name));
    }
    done_bytes_ += source.bytes.size();
    if (progress_) progress_(done_bytes_, total_bytes_);
    return {};
  }

  Result<WeightMatrix> FindPacked(const WeightUse& use, const WeightSource& source) const {
    const PackedFile& packed = *model_.packed_;
    const auto panels = packed.Find(PackedKeyOf(file_, use));
    if (!panels) return Fail(ErrorCode::kCorrupt, packed.path() + " does not have it");
    return WeightMatrix::FromPanels(source.shape(), *panels);
  }

  Result<> LoadMatrix(const WeightUse& use, const WeightSource& source) {
    Result<WeightMatrix> matrix =
        model_.packed_ ? FindPacked(use, source) : WeightMatrix::Pack(source, pool_);
    if (!matrix) {
      return Fail(matrix.error().code, fmt::format("{}: tensor {}: {}", file_.name(),
                                                   use.tensor_name, matrix.error().message));
    }
    model_.weight_bytes_ += matrix->bytes();
    if (use.layer != WeightUse::kNoLayer) {
      model_.layers_[static_cast<size_t>(use.layer)]
          .matrices_[static_cast<size_t>(use.role)]
          .emplace(*std::move(matrix));
    } else if (static_cast<GlobalRole>(use.role) == GlobalRole::kEmbedding) {
      model_.embedding_.emplace(*std::move(matrix));
    } else {
      model_.output_.emplace(*std::move(matrix));
    }
    return {};
  }

  Result<> LoadVector(const WeightUse& use, const WeightSource& source) {
    Result<AlignedBuffer<float>> values =
        AlignedBuffer<float>::Allocate(static_cast<size_t>(use.num_columns));
    if (!values) return Forward(values);
    if (Result<> decoded = DequantizeRow(source.type, source.bytes.data(), values->span());
        !decoded) {
      return decoded;
    }
    model_.weight_bytes_ += values->size_bytes();
    if (use.layer != WeightUse::kNoLayer) {
      model_.layers_[static_cast<size_t>(use.layer)].vectors_[static_cast<size_t>(use.role)] =
          *std::move(values);
    } else {
      model_.output_norm_ = *std::move(values);
    }
    return {};
  }

  const GgufFile& file_;
  ThreadPool& pool_;
  const PackProgress& progress_;
  Model model_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

Result<Model> Model::Load(const GgufFile& file, ThreadPool& pool, const PackProgress& progress) {
  Result<ModelSpec> spec = ReadModelSpec(file);
  if (!spec) return Forward(spec);
  return LoadBySpec({.file = file, .spec = *spec, .pool = pool, .progress = progress});
}

Result<Model> Model::LoadBySpec(LoadArgs args) {
  return ModelLoader(std::move(args)).Load();
}

}  // namespace baton
