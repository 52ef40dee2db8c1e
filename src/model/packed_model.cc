#include "model/packed_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/panel.h"
#include "model/arch/architecture.h"

namespace baton {
namespace {

// All uses of a model that are matrices, in the order of the plan.
Result<std::vector<WeightUse>> MatricesOf(const GgufFile& file) {
  const Result<ModelSpec> spec = ReadModelSpec(file);
  if (!spec) return Forward(spec);
  std::vector<WeightUse> plan = PlanWeights(*spec);
  if (Result<> fits = CheckPlan(file, plan); !fits) return Forward(fits);
  std::erase_if(plan, [](const WeightUse& use) { return !use.is_matrix; });
  return plan;
}

// Repacks one matrix after the other and hands each on.
using TakeMatrix = std::function<Result<>(const WeightUse& use, std::span<const std::byte> panels)>;
Result<> RepackEach(const PackModelArgs& args, const std::vector<WeightUse>& matrices,
                    const TakeMatrix& take) {
  uint64_t total_bytes = 0;
  for (const WeightUse& use : matrices) total_bytes += SourceOf(args.file, use).bytes.size();
  uint64_t done_bytes = 0;
  for (const WeightUse& use : matrices) {
    const WeightSource source = SourceOf(args.file, use);
    const Result<WeightMatrix> matrix = WeightMatrix::Pack(source, args.pool);
    if (!matrix) {
      return Fail(matrix.error().code, fmt::format("{}: tensor {}: {}", args.file.name(),
                                                   use.tensor_name, matrix.error().message));
    }
    if (Result<> taken = take(use, matrix->panels()); !taken) return taken;
    if (use.first_row + use.num_rows == use.tensor_rows) {
      args.file.ReleasePages(*args.file.FindTensor(use.tensor_name));
    }
    done_bytes += source.bytes.size();
    if (args.progress) args.progress(done_bytes, total_bytes);
  }
  return {};
}

}  // namespace

PackedFile::Expected PackedFileOf(const GgufFile& file) {
  return {.source = FingerprintOf(file), .layout_version = kPanelLayoutVersion};
}

Hash128 PackedKeyOf(const GgufFile& file, const WeightUse& use) {
  const WeightSource source = SourceOf(file, use);
  return Hasher()
      .Add(use.tensor_name)
      .Add(static_cast<uint64_t>(use.first_row))
      .Add(static_cast<uint64_t>(source.num_outputs))
      .Add(static_cast<uint64_t>(source.num_inputs))
      .Add(static_cast<uint64_t>(source.type))
      .Finish();
}

Result<> PackModel(const PackModelArgs& args) {
  const Result<std::vector<WeightUse>> matrices = MatricesOf(args.file);
  if (!matrices) return Forward(matrices);
  Result<PackedWriter> writer = PackedWriter::Create(args.path, PackedFileOf(args.file),
                                                     static_cast<uint32_t>(matrices->size()));
  if (!writer) return Forward(writer);
  Result<> packed =
      RepackEach(args, *matrices, [&](const WeightUse& use, std::span<const std::byte> panels) {
        return writer->Add(PackedKeyOf(args.file, use), panels);
      });
  return packed ? writer->Finish() : packed;
}

Result<> CheckPackedModel(const PackModelArgs& args, const PackedFile& packed) {
  for (size_t i = 0; i < packed.num_entries(); ++i) {
    if (Result<> whole = packed.CheckEntry(i); !whole) return whole;
  }
  const Result<std::vector<WeightUse>> matrices = MatricesOf(args.file);
  if (!matrices) return Forward(matrices);
  return RepackEach(
      args, *matrices, [&](const WeightUse& use, std::span<const std::byte> panels) -> Result<> {
        const auto saved = packed.Find(PackedKeyOf(args.file, use));
        if (saved && std::ranges::equal(*saved, panels)) return {};
        return packed.Refuse(ErrorCode::kCorrupt,
                             fmt::format("is stale: {} tensor {} of the model file",
                                         saved ? "it has another" : "it lacks", use.tensor_name));
      });
}

}  // namespace baton
