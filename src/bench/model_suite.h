// `baton bench model`: prefill and decode of a whole model beside the limits of the machine.
//
// Steps of the forward pass are timed, from token ids to logits of the last row; loading, the
// tokenizer and sampling are not. Prompts are random tokens, read in chunks. For decode at a depth
// the cache is not computed but filled with random numbers of everyday size, so a deep cache costs
// no time to make; the speed of attention does not depend on what the keys are.
//
// The limit of a step is what its multiply-adds take at the machine's peaks, or what its bytes take
// at the speed at which the same memory can be read, whichever is longer; both are measured in turn
// with the step (bench/measure.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/limits.h"
#include "kernels/isa.h"
#include "kernels/precision.h"
#include "model/model.h"
#include "model/op_recorder.h"

namespace baton {

struct ModelSuiteOptions {
  std::string path = {};
  Isa isa = Isa::kPortable;
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
  std::vector<int64_t> prompts = {};  // tokens
  std::vector<int64_t> depths = {};   // tokens in the cache before a step of decode
  std::vector<int64_t> batches = {};  // sequences that decode together, at the first of the depths
  std::vector<int64_t> threads = {};
  int64_t chunk_tokens = 512;
  bool use_packed_file = true;  // the one beside the model, if there is one
  int num_rounds = 5;           // of each row
  double max_row_seconds = 30;  // then a row has no further round
  // Of the steps of all rounds, the first one to warm up included; null for none. Outlives the
  // call.
  OpRecorder* recorder = nullptr;
};

enum class BenchPhase { kPrefill, kDecode };

struct ModelRow {
  BenchPhase phase = BenchPhase::kPrefill;
  int num_threads = 1;
  int64_t num_sequences = 1;
  int64_t prompt_tokens = 0;     // of prefill
  int64_t depth = 0;             // of decode
  Summary seconds;               // of the whole prompt, or of one step
  double tokens_per_second = 0;  // all sequences together, median
  double limit_tokens_per_second = 0;
  double share = 0;      // median over the rounds
  std::string bound_by;  // "arithmetic" or "reading"
};

struct ModelReport {
  Machine machine;
  std::string path;
  std::string name;  // of the model, from its file
  std::string architecture;
  std::string weight_types;  // "Q4_1 x 211, Q6_K x 1"
  Isa isa = Isa::kPortable;
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
  int64_t chunk_tokens = 0;
  bool is_packed = false;  // the weights are those of the packed file
  double load_seconds = 0;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;         // the most that any row needed
  uint64_t workspace_bytes = 0;  // likewise
  uint64_t peak_resident_bytes = 0;
  std::vector<ModelRow> rows;
  std::vector<std::string> notes;
};

// Errors: as GgufFile::Open, ReadModelSpec, PackedFile::Open and Model::LoadBySpec; exhausted,
// before anything large is allocated, with the numbers.
Result<ModelReport> BenchModel(const ModelSuiteOptions& options, const BenchProgress& progress,
                               const PackProgress& load_progress);

// A table of at most 100 columns, one JSON object, or lines of comma-separated values.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string ModelAsText(const ModelReport& report, size_t columns);
std::string ModelAsJson(const ModelReport& report);
std::string ModelAsCsv(const ModelReport& report);

// Prefill by prompt length, decode by depth and by batch, one line per number of threads, with the
// limits dashed.
std::string ModelAsSvg(const ModelReport& report);

}  // namespace baton
