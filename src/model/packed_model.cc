#include "model/packed_model.h"

#include <fmt/format.h>

#include <vector>

#include "kernels/panel.h"
#include "model/arch/architecture.h"

namespace baton {

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
  const Result<ModelSpec> spec = ReadModelSpec(args.file);
  if (!spec) return Forward(spec);
  const std::vector<WeightUse> plan = PlanWeights(*spec);
  if (Result<> fits = CheckPlan(args.file, plan); !fits) return fits;
  std::vector<WeightUse> matrices;
  uint64_t total_bytes = 0;
  for (const WeightUse& use : plan) {
    if (!use.is_matrix) continue;
    matrices.push_back(use);
    total_bytes += SourceOf(args.file, use).bytes.size();
  }
  Result<PackedWriter> writer = PackedWriter::Create(args.path, PackedFileOf(args.file),
                                                     static_cast<uint32_t>(matrices.size()));
  if (!writer) return Forward(writer);
  uint64_t done_bytes = 0;
  for (const WeightUse& use : matrices) {
    const WeightSource source = SourceOf(args.file, use);
    const Hash128 key = PackedKeyOf(args.file, use);
    const Result<WeightMatrix> matrix = WeightMatrix::Pack(source, args.pool);
    if (!matrix) {
      return Fail(matrix.error().code, fmt::format("{}: tensor {}: {}", args.file.name(),
                                                   use.tensor_name, matrix.error().message));
    }
    if (Result<> added = writer->Add(key, matrix->panels()); !added) return added;
    if (use.first_row + use.num_rows == use.tensor_rows) {
      args.file.ReleasePages(*args.file.FindTensor(use.tensor_name));
    }
    done_bytes += source.bytes.size();
    if (args.progress) args.progress(done_bytes, total_bytes);
  }
  return writer->Finish();
}

}  // namespace baton
