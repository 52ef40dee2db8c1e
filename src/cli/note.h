// A word to the user beside the answer.
#pragma once

#include <string_view>

#include "cli/console.h"

namespace baton {

// Writes "baton: note: TEXT" to standard error, fit for a terminal: one line, on a terminal as many
// as its width makes of it; a long text loses its middle. A note that cannot be written stops
// nothing.
void Note(std::string_view text, Console& console);

}  // namespace baton
