#include "cli/cache_option.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "cli/note.h"
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
  options.Elsewhere("--prompt-cache", "a cache is kept with --save-kv and taken up with --load-kv");
  options.Group("Cache");
  options.OutputFile(
      {.names = "--save-kv",
       .value = "FILE",
       .help = "At the end, save the KV cache of all that was read and written to FILE",
       .may_replace = "--load-kv"},
      &save_path_);
  options.File({.names = "--load-kv",
                .value = "FILE",
                .help = "Start with a saved KV cache: what the prompt has in common with it, from "
                        "the start, is not read again"},
               &load_path_);
}

Result<> CacheOption::CheckPaths() const {
  if (load_path_) {
    if (Result<> can_load = CheckLoadPath(*load_path_); !can_load) return can_load;
  }
  if (!save_path_) return {};
  return CheckSavePath(*save_path_);
}

Result<> CacheOption::Load(Generator& generator, Console& console) {
  if (!load_path_) return {};
  Progress progress(
      console.status, console.clock,
      {.what = "Loading the cache", .unit = ProgressUnit::kTokens, .columns = console.columns});
  Result<> loaded = generator.LoadCache(*load_path_, ShownBy(progress));
  loaded_tokens_ = generator.cached_tokens();
  return loaded;
}

void CacheOption::TellIfUnused(int64_t cached_tokens, Console& console) const {
  // An answer that was saved, too, and the end of its prompt are no part of the next one.
  if (!load_path_ || cached_tokens > loaded_tokens_ / 2) return;
  Note(cached_tokens == 0
           ? fmt::format("{} was of no use: the prompt begins with other tokens, or is read by "
                         "another policy (--prefill, --sparse) than what was saved",
                         *load_path_)
           : fmt::format("{} of the {} in {} were of use: the prompt goes on with other tokens; to "
                         "ask about the same text, give it again in front of the question",
                         CountText(cached_tokens), CountOf(loaded_tokens_, "token"), *load_path_),
       console);
}

Result<> CacheOption::Save(Result<> done, const Generator& generator, Console& console) const {
  if (!save_path_) return done;
  if (!done && generator.cached_tokens() == 0) {
    Note(fmt::format("nothing was computed, so {} is not written", *save_path_), console);
    return done;
  }
  Progress progress(
      console.status, console.clock,
      {.what = "Saving the cache", .unit = ProgressUnit::kTokens, .columns = console.columns});
  Result<> saved = generator.SaveCache(*save_path_, ShownBy(progress));
  return done ? saved : done;
}

Result<> CacheOption::Forgo(Result<> done) const {
  if (!save_path_ || !done) return done;
  return Fail(ErrorCode::kInvalid,
              *save_path_ + ": nothing was saved, as nothing was asked after /reset or /load");
}

}  // namespace baton
