// Text from outside, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace baton {

// The text with every control character and every byte that is not UTF-8 written as \n, \t or
// \xNN, so that a file's metadata cannot steer the terminal; cut after `max_bytes`, with "..."
// then.
std::string Printable(std::string_view text, size_t max_bytes);

// The same, cut in the middle: a third of what is left stands behind the "...", where messages say
// why something failed and what to do.
std::string PrintableEnds(std::string_view text, size_t max_bytes);

}  // namespace baton
