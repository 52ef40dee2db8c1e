// How a report leaves a command: a table, or JSON with --json, and a picture besides with --plot.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/replacing_file.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"

namespace baton {

class ReportOutput {
 public:
  // Declares --json and --plot. `plot_help` says what the picture shows.
  void Declare(OptionSet& options, const std::string& plot_help);
  bool is_json() const { return json_; }
  bool has_plot() const { return plot_path_.has_value(); }

  // Begins the picture's file, if one is wanted: before the long work, so that a wrong name is
  // known at once. What is there stays until the picture is whole. Errors: as
  // ReplacingFile::Create, for SVG images.
  Result<> Open();

  // The forms of a report. Only those that were asked for are made.
  struct Forms {
    std::function<std::string(size_t columns)> text;  // 0: of any width
    std::function<std::string()> json;
    std::function<std::string()> svg;
  };
  // Writes the picture, then the rest to standard output. Errors: internal, with the system's word.
  Result<> Write(const Forms& forms, Console& console);

 private:
  bool json_ = false;
  std::optional<std::string> plot_path_;
  std::optional<ReplacingFile> plot_;
};

}  // namespace baton
