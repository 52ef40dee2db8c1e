// The step times of a machine and a model, as people write them down.
#pragma once

#include <string_view>

#include "base/result.h"
#include "schedule/step_time_model.h"

namespace baton {

// SmolLM2-135M on two cores of a Xeon (docs/performance.md).
inline constexpr StepTimeCoefficients kSmallModelTimes = {.per_step = 4.4e-3,
                                                          .per_prefill_token = 5.5e-4,
                                                          .per_prefill_context = 2.6e-7,
                                                          .per_decode_row = 8.3e-4,
                                                          .per_decode_context = 7e-7};

// A JSON object with the five fields of StepTimeCoefficients, in seconds; other fields are passed.
// Errors: corrupt, naming the field.
Result<StepTimeCoefficients> ParseStepTimes(std::string_view json);

}  // namespace baton
