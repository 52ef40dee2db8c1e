// What a command has of the world: streams, terminal, Ctrl-C, time. Passed in, so that a test can
// run a command without a process.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace baton {

struct Console {
  Input& in;
  Output& out;  // answers
  Output& err;  // figures, messages, progress
  StatusLine& status;
  Interrupt& interrupt;
  Clock& clock;
  int columns = 80;               // of the terminal that shows the status line
  size_t answer_columns = 0;      // of the one that shows the answers; 0: none does
  bool interactive = false;       // a person types at `in` and reads `out`
  std::string cache_folder = {};  // where Baton keeps what it can make again; empty: nowhere
};

}  // namespace baton
