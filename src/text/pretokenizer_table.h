// The pre-tokenizers that Baton knows, by the names that files use (`tokenizer.ggml.pre`).
//
// A pre-tokenizer cuts a text into words before byte-level BPE; a wrong one mismatches the model's
// training silently, so a name that is not here is refused.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace baton {

// How one family of vocabularies cuts text.
//
// Each pattern in turn cuts every piece that the patterns before it left: its matches, and what
// lies between them, become pieces. Patterns are Perl's with Unicode properties; \s is Unicode's
// White_Space.
struct PreTokenizerFamily {
  std::array<std::string_view, 8> names;     // unused ones are empty
  std::array<std::string_view, 6> patterns;  // unused ones are empty
  bool ignore_merges = false;  // a word that is a piece stays whole, whatever the merges say
  bool nfc = false;            // the text is brought to normalisation form C first
  bool adds_bos = false;       // whether BOS is added where the file does not say
};

// The family of a name, or null.
const PreTokenizerFamily* FindPreTokenizerFamily(std::string_view name);

// All names, comma separated, for messages.
std::string PreTokenizerNames();

// All families.
std::span<const PreTokenizerFamily> PreTokenizerFamilies();

}  // namespace baton
