#include "simulate/step_times.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "simulate/json_value_text.h"

namespace baton {

Result<StepTimeCoefficients> ParseStepTimes(std::string_view json) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Fail(ErrorCode::kCorrupt, "is not a JSON object");
  StepTimeCoefficients times;
  const struct {
    const char* name;
    double* value;
  } fields[] = {{"per_step", &times.per_step},
                {"per_prefill_token", &times.per_prefill_token},
                {"per_prefill_context", &times.per_prefill_context},
                {"per_decode_row", &times.per_decode_row},
                {"per_decode_context", &times.per_decode_context}};
  for (const auto& field : fields) {
    const auto found = object.find(field.name);
    if (found == object.end()) {
      return Fail(ErrorCode::kCorrupt, fmt::format("'{}' is missing", field.name));
    }
    const double value = found->is_number() ? found->get<double>() : -1.0;
    if (!(value >= 0 && value <= StepTimeModel::kMaxSeconds)) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' must be seconds from 0 to {}, not {}", field.name,
                              StepTimeModel::kMaxSeconds, JsonValueText(*found)));
    }
    *field.value = value;
  }
  return times;
}

}  // namespace baton
