// Names in advice that is to be copied into a shell.
#pragma once

#include <string>
#include <string_view>

namespace baton {

// The text as one word of a POSIX shell: in single quotes where it has other characters than
// letters, digits and those of everyday paths. Bytes stay as they are.
std::string ShellWord(std::string_view text);

// A path as the argument of a command: as ShellWord, with "./" before a dash, which would begin an
// option.
std::string ShellPath(std::string_view path);

}  // namespace baton
