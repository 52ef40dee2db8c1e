// The names of the parts of a split model, and what each part says about itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/gguf_part.h"

namespace baton {

// A path of the form FOLDER/STEM-0000k-of-0000N.gguf, taken apart.
struct GgufPartName {
  std::string prefix;   // FOLDER/STEM
  uint32_t number = 0;  // k, from 1
  uint32_t count = 0;   // N

  // The path of part `k` (from 1): the same folder and stem.
  std::string PathOf(uint32_t k) const;
};

// Takes a path apart, or nothing if it has not that form or its numbers make no sense (k = 0,
// k > N).
std::optional<GgufPartName> ParseGgufPartName(std::string_view path);

// The keys split.no, split.count and split.tensors.count of a part.
struct GgufSplitInfo {
  uint64_t index = 0;  // from 0
  uint64_t count = 0;  // 0 (a merged model) or 1: not split
  uint64_t num_tensors = 0;
};

// Reads the keys. A file without split.count is not split.
// Errors: kCorrupt if one is missing beside the others, of a wrong type or out of range.
Result<GgufSplitInfo> ReadGgufSplitInfo(const GgufPart& part, const std::string& path);

}  // namespace baton
