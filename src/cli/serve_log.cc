#include "cli/serve_log.h"

namespace baton {

void ServeLog::Write(const std::string& lines) {
  (void)out_.WriteWhile(lines, [this] { return clock_.NowNs() < end_ns_; });
}

void ServeLog::EndSoon() {
  end_ns_ = clock_.NowNs() + kGraceMs * 1'000'000;
}

}  // namespace baton
