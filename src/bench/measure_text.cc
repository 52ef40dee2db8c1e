#include "bench/measure_text.h"

#include <nlohmann/json.hpp>

namespace baton {

nlohmann::ordered_json SummaryAsJson(const Summary& summary) {
  return {{"median", summary.median},
          {"min", summary.min},
          {"max", summary.max},
          {"spread", summary.spread},
          {"count", summary.count}};
}

}  // namespace baton
