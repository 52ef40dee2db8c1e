// The byte-level alphabet: files of byte-level BPE write each of the 256 bytes as one printable
// character, so that pieces are readable text.
//
// Source: GPT-2's encoder. Printable Latin-1 bytes (21..7E, A1..AC, AE..FF) stand for themselves;
// the other 68, in ascending order, are U+0100, U+0101, ...
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton {

// The bytes that a piece in the byte-level alphabet spells, or nothing if it has a character
// outside the alphabet.
// Requires: piece is valid UTF-8.
std::optional<std::string> BytesOfByteLevelPiece(std::string_view piece);

}  // namespace baton
