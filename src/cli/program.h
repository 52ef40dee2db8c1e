// The program without its process: finds the command, runs it, turns errors into words and a code.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"

namespace baton {

// Runs the command that the arguments name (without the program's own name) and returns the exit
// code (exit_code.h). Every failure is one line on console.err.
int RunProgram(const std::vector<std::string>& arguments, Console& console);

}  // namespace baton
