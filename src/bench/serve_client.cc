#include "bench/serve_client.h"

#include <utility>

namespace baton {

double SecondsNow(SteadyClock& clock) {
  return static_cast<double>(clock.NowNs()) * 1e-9;
}

void Bell::Ring() {
  const std::lock_guard lock(mutex_);
  condition_.notify_all();
}

void ServeClient::OnToken(const SampledToken&) {
  {
    const std::lock_guard lock(bell_.mutex());
    tokens_.push_back(SecondsNow(clock_));
  }
  bell_.Ring();
}

void ServeClient::OnDone(Result<GenerationResult> result) {
  {
    const std::lock_guard lock(bell_.mutex());
    result_ = std::move(result);
    is_done_ = true;
    ++num_done_;
  }
  bell_.Ring();
}

}  // namespace baton
