// --load-kv and --save-kv: the KV cache from and to a file.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "engine/generator.h"

namespace baton {

class CacheOption {
 public:
  void Declare(OptionSet& options);

  // Before anything is loaded or computed: whether the files can be made, or read, at all. Errors:
  // as CheckSavePath and CheckLoadPath.
  Result<> CheckPaths() const;

  // Before the first prompt. Errors: as Generator::LoadCache.
  Result<> Load(Generator& generator, Console& console);

  // Notes that the loaded cache was of no use, or hardly any, if so.
  void TellIfUnused(int64_t cached_tokens, Console& console) const;

  // After the last answer, which ended so: saves whatever was computed and passes the ending on. A
  // cache that cannot be saved is an error if nothing else was; that nothing is saved is told.
  // Errors: as Generator::SaveCache.
  Result<> Save(Result<> done, const Generator& generator, Console& console) const;

  // Instead, where what is cached is no longer what the user has before him: saves nothing, and
  // says so. Errors: invalid, if a cache was to be saved and nothing else was wrong.
  Result<> Forgo(Result<> done) const;

 private:
  std::optional<std::string> load_path_;
  std::optional<std::string> save_path_;
  int64_t loaded_tokens_ = 0;  // of the cache that was loaded
};

}  // namespace baton
