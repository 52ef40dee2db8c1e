#include "cli/report_output.h"

#include <span>
#include <string_view>
#include <utility>

namespace baton {
namespace {

bool IsSvg(std::string_view head) {
  return head.starts_with("<svg") ||
         (head.starts_with("<?xml") && head.find("<svg") != std::string_view::npos);
}

constexpr FileKind kSvgKind = {.name = "an SVG image", .holds = IsSvg};

}  // namespace

void ReportOutput::Declare(OptionSet& options, const std::string& plot_help) {
  options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
  options.OutputFile({.names = "--plot", .value = "FILE", .help = plot_help}, &plot_path_);
}

Result<> ReportOutput::Open() {
  if (!plot_path_) return {};
  Result<ReplacingFile> file = ReplacingFile::Create(*plot_path_, kSvgKind);
  if (!file) return Forward(file);
  plot_.emplace(*std::move(file));
  return {};
}

Result<> ReportOutput::Write(const Forms& forms, Console& console) {
  if (plot_) {
    const std::string svg = forms.svg();
    Result<> written = plot_->WriteAt(0, std::as_bytes(std::span(svg)));
    if (written) written = plot_->Finish(svg.size());
    if (!written) return written;
  }
  return console.out.Write(json_ ? forms.json() : forms.text(console.answer_columns));
}

}  // namespace baton
