#include "cli/note.h"

#include <fmt/format.h>

#include "base/wrapped_text.h"
#include "cli/printable.h"

namespace baton {
namespace {

constexpr size_t kMaxNoteBytes = 1024;
constexpr size_t kIndent = 2;

}  // namespace

void Note(std::string_view text, Console& console) {
  console.status.Clear();
  const std::string note = fmt::format("baton: note: {}", PrintableEnds(text, kMaxNoteBytes));
  const WrapShape shape = {.columns = static_cast<size_t>(console.columns), .indent = kIndent};
  (void)console.err.Write((console.status.live() ? WrapWords(note, shape) : note) + "\n");
}

}  // namespace baton
