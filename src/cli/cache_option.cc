#include "cli/cache_option.h"

#include <fmt/format.h>

#include "cli/printable.h"
#include "cli/progress.h"

namespace baton {
namespace {

// Progress in blocks, shown as the tokens that they hold.
SavedSequenceProgress ShownBy(Progress& progress) {
  return [&progress](int64_t done, int64_t total) {
    progress.Update(done * kBlockTokens, total * kBlockTokens);
  };
}

}  // namespace

void CacheOption::Declare(OptionSet& options) {
  options.Group("Cache");
  options.File({.names = "--save-kv",
                .value = "FILE",
                .help = "At the end, save the KV cache of all that was read and written to FILE"},
               &save_path_);
  options.File({.names = "--load-kv",
                .value = "FILE",
                .help = "Start with a saved KV cache: what the prompt has in common with it, from "
                        "the start, is not read again"},
               &load_path_);
}

Result<> CacheOption::CheckPath() const {
  if (!save_path_) return {};
  return CheckSavePath(*save_path_);
}

Result<> CacheOption::Load(Generator& generator, Console& console) const {
  if (!load_path_) return {};
  Progress progress(
      console.status, console.clock,
      {.what = "Loading the cache", .unit = ProgressUnit::kTokens, .columns = console.columns});
  return generator.LoadCache(*load_path_, ShownBy(progress));
}

void CacheOption::TellIfUnused(int64_t cached_tokens, Console& console) const {
  if (!load_path_ || cached_tokens > 0) return;
  (void)console.err.Write(
      fmt::format("baton: note: {} was of no use: the prompt begins with other tokens\n",
                  Printable(*load_path_, 4096)));
}

Result<> CacheOption::Save(Result<> done, const Generator& generator, Console& console) const {
  if (!save_path_ || (!done && generator.cached_tokens() == 0)) return done;
  Progress progress(
      console.status, console.clock,
      {.what = "Saving the cache", .unit = ProgressUnit::kTokens, .columns = console.columns});
  Result<> saved = generator.SaveCache(*save_path_, ShownBy(progress));
  return done ? saved : done;
}

}  // namespace baton
