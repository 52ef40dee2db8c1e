// GET /status: what runs, what waits and how the cache is, for people who watch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace baton {

struct StatusHead {
  std::string_view state = {};  // "ok", "loading" or "draining"
  std::string_view model = {};
  int64_t context_tokens = 0;
};

// One line of JSON. Null: no engine yet.
std::string StatusJson(const StatusHead& head, const EngineStatus* status);

}  // namespace baton
