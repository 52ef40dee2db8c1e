#include "cli/open_model.h"

#include <fmt/format.h>

#include <string>

#include "base/number_text.h"
#include "cli/note.h"
#include "cli/progress.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf.h"
#include "model/arch/architecture.h"
#include "threads/cpu_topology.h"

namespace baton {

Result<LoadedModel> OpenModel(const LoadOptions& options, Console& console) {
  Progress progress(console.status, console.clock,
                    {.what = "Loading", .unit = ProgressUnit::kBytes, .columns = console.columns});
  Result<LoadedModel> model =
      LoadModel(options, [&progress](uint64_t done_bytes, uint64_t total_bytes) {
        progress.Update(static_cast<int64_t>(done_bytes), static_cast<int64_t>(total_bytes));
      });
  progress.Clear();
  if (!model) return model;
  for (const std::string& warning : model->warnings) Note(warning, console);
  const int num_cpus = ReadCpuTopology().num_usable();
  if (options.num_threads > num_cpus) {
    Note(fmt::format("{} on {}: more threads than CPUs only take time from each other",
                     CountOf(options.num_threads, "thread"), CountOf(num_cpus, "CPU")),
         console);
  }
  return model;
}

Result<int64_t> ContextOf(const LoadOptions& options) {
  if (options.context_tokens) return *options.context_tokens;
  const Result<GgufFile> file = GgufFile::Open(options.path);
  if (!file) return Forward(file);
  const Result<ModelSpec> spec = ReadModelSpec(*file);
  if (!spec) return Forward(spec);
  return spec->trained_context;
}

Result<Tokenizer> OpenTokenizer(const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file) return Forward(file);
  return TokenizerFromGguf(*file);
}

}  // namespace baton
