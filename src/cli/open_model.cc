#include "cli/open_model.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/printable.h"
#include "cli/progress.h"
#include "engine/tokenizer_from_gguf.h"
#include "format/gguf.h"

namespace baton {
namespace {

constexpr size_t kMaxNoteBytes = 1024;

void Note(const std::string& text, Console& console) {
  // A note that cannot be written stops nothing.
  (void)console.err.Write(fmt::format("baton: note: {}\n", Printable(text, kMaxNoteBytes)));
}

}  // namespace

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
  return model;
}

Result<Tokenizer> OpenTokenizer(const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file) return Forward(file);
  return TokenizerFromGguf(*file);
}

}  // namespace baton
