// The file of --plot.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace baton {

// A file to write a plot to, opened before the long work so that a wrong name is known at once.
// What is in it stays until the plot is there; a new file goes again if there is none. Move-only.
class PlotFile {
 public:
  // Errors: internal, with the system's word.
  static Result<PlotFile> Open(const std::string& path);
  PlotFile(PlotFile&& other) noexcept;
  PlotFile& operator=(PlotFile&&) = delete;
  ~PlotFile();

  // Errors: as Open and FdOutput.
  Result<> Write(const std::string& text);

 private:
  PlotFile(int fd, std::string path, bool is_new)
      : fd_(fd), path_(std::move(path)), is_new_(is_new) {}
  int fd_;
  std::string path_;
  bool is_new_;  // and without a plot
};

}  // namespace baton
