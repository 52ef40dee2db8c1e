// What the program's exit tells a script.
#pragma once

namespace baton {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,        // something in the world: a file, memory, a closed pipe, a full disk
  kExitUsage = 2,         // the command line itself
  kExitInterrupted = 130  // Ctrl-C (128 + SIGINT)
};

}  // namespace baton
