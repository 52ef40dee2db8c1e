// --profile and --trace: where the time of a command's steps goes.
#pragma once

#include <optional>
#include <string>

#include "base/replacing_file.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "model/op_recorder.h"

namespace baton {

// A table of the operations of both kinds of steps, and of the layers.
std::string ProfileText(const OpRecorder& recorder);

// The steps and operations in the format of Chrome's and Perfetto's trace viewers (JSON Array
// Format of the Trace Event Format): microseconds from the first step on.
std::string TraceJson(const OpRecorder& recorder);

class ProfileOption {
 public:
  void Declare(OptionSet& options);

  // What steps shall be recorded with, or null if nobody asked. Lives as long as this object. The
  // file of the trace is begun here, so that a wrong path costs no time.
  // Errors: as ReplacingFile::Create.
  Result<OpRecorder*> Recorder(Clock& clock);

  // Prints the table to standard error and writes the trace. Errors: internal (the file cannot be
  // written).
  Result<> Report(Console& console);

 private:
  bool profile_ = false;
  std::optional<std::string> trace_path_;
  std::optional<OpRecorder> recorder_;
  std::optional<ReplacingFile> trace_;
};

}  // namespace baton
