#include "cli/plot_file.h"

#include <span>
#include <string_view>

namespace baton {
namespace {

bool IsSvg(std::string_view head) {
  return head.starts_with("<svg") ||
         (head.starts_with("<?xml") && head.find("<svg") != std::string_view::npos);
}

constexpr FileKind kSvgKind = {.name = "an SVG image", .holds = IsSvg};

}  // namespace

Result<PlotFile> PlotFile::Open(const std::string& path) {
  Result<ReplacingFile> file = ReplacingFile::Create(path, kSvgKind);
  if (!file) return Forward(file);
  return PlotFile(*std::move(file));
}

Result<> PlotFile::Write(const std::string& text) {
  Result<> written = file_.WriteAt(0, std::as_bytes(std::span(text)));
  return written ? file_.Finish(text.size()) : written;
}

}  // namespace baton
