// Cuts a text into words, as a family of vocabularies does before byte-level BPE.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer_table.h"

namespace baton {

// The compiled patterns of one family. Immutable; threads: any number of callers.
class PreTokenizer {
 public:
  // Errors: unavailable, for a name that is not in the table (with the names that are); internal,
  // if a pattern does not compile.
  static Result<PreTokenizer> Make(std::string_view name);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The words of a text, in order; together they are the text.
  // Requires: text is valid UTF-8.
  // Errors: exhausted, if the matcher gives up on a text (its limits are far above what any
  // pattern of the table needs).
  // Memory: the words point into the text.
  Result<std::vector<std::string_view>> Split(std::string_view text) const;

  const PreTokenizerFamily& family() const { return *family_; }

 private:
  struct Pattern;

  explicit PreTokenizer(const PreTokenizerFamily& family);

  const PreTokenizerFamily* family_;  // an entry of the constant table
  std::vector<std::unique_ptr<const Pattern>> patterns_;
};

}  // namespace baton
