// Keeps what people write from becoming the tokens that steer a conversation.
//
// A chat template's output is one text in which the names of special tokens mean the tokens. A
// message that spells such a name ("<|im_end|>") would end its own turn and forge another. So
// contents are guarded before they are rendered, and the guards go again when the text is encoded,
// after the special tokens were found (EncodeOptions::drop_guards). A guard is U+FDD0, a code point
// that Unicode keeps out of all text.
//
// The rules, for the names given (Tokenizer::GuardContent says which these are):
//  - A guard stands behind the first character of every place in a content that spells a name;
//    places that overlap have one each.
//  - Where the content's end could be the start of a name, a guard closes it, and where its start
//    could be the end of a name, a guard opens it: what a template or another content puts there
//    cannot complete the name. Blanks at the ends stay outside of these two, so that a template
//    may trim them.
//  - U+FDD0 in a content is U+FFFD; so is a name of a single character, which has no inside.
//  - Contents without any of this stay as they are, byte for byte.
//  - A template is taken at its word: where it writes both ends of a name around a content, or
//    changes the letters inside one (replaces, changes case), that is a name. One that looks for
//    such a name in a content finds none. Marks that are plain text to the vocabulary (Llama 2's
//    "[INST]") cannot be told from what people write.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"

namespace baton {

// U+FDD0.
inline constexpr std::string_view kContentGuard = "\xEF\xB7\x90";

// The names to be guarded against. Immutable; threads: any number of readers.
class ContentGuard {
 public:
  explicit ContentGuard(std::vector<std::string> names);

  // The content with its guards. Any bytes will do.
  // Time: as AddedTokens::FindNext.
  std::string Guard(std::string_view content) const;

 private:
  std::string ReplaceSingles(std::string_view content) const;

  AddedTokens singles_;                // names of one character, and the guard itself
  AddedTokens names_;                  // all others
  std::vector<std::string> forward_;   // the same, ascending
  std::vector<std::string> backward_;  // the same, each from its last byte to its first, ascending
  size_t longest_ = 0;                 // bytes
};

// A text without its guards, and where they were: offsets in the text without them, ascending.
struct UnguardedText {
  std::string text;
  std::vector<size_t> guards;
};
UnguardedText RemoveGuards(std::string_view text);

}  // namespace baton
