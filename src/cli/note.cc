#include "cli/note.h"

#include <fmt/format.h>

#include "cli/printable.h"

namespace baton {
namespace {

constexpr size_t kMaxNoteBytes = 1024;

}  // namespace

void Note(std::string_view text, Console& console) {
  console.status.Clear();
  (void)console.err.Write(fmt::format("baton: note: {}\n", Printable(text, kMaxNoteBytes)));
}

}  // namespace baton
