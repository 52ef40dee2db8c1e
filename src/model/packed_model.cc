#include "model/packed_model.h"

#include <fmt/format.h>

#include <vector>

#include "kernels/panel.h"
#include "model/arch/architecture.h"

namespace baton {

PackedFile::Expected PackedFileOf(const GgufFile& file) {
  return {.source = FingerprintOf(file), .layout_version = kPanelLayoutVersion};
}

PackedKey PackedKeyOf(const GgufFile& file, const WeightUse& use) {
  const WeightSource source = SourceOf(file, use);
  return PackedKeyOf(fmt::format("{} {} {}x{} {}", use.tensor_name, use.first_row,
                                 source.num_outputs, source.num_inputs, DTypeName(source.type)));
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
    const PackedKey key = PackedKeyOf(args.file, use);
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
