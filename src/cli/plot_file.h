// The file of --plot.
#pragma once

#include <string>
#include <utility>

#include "base/replacing_file.h"
#include "base/result.h"

namespace baton {

// A file to write a plot to, begun before the long work so that a wrong name is known at once. What
// is there stays until the plot is whole. Move-only.
class PlotFile {
 public:
  // Errors: as ReplacingFile::Create, for SVG images.
  static Result<PlotFile> Open(const std::string& path);

  // Errors: internal, with the system's word.
  Result<> Write(const std::string& text);

 private:
  explicit PlotFile(ReplacingFile file) : file_(std::move(file)) {}
  ReplacingFile file_;
};

}  // namespace baton
