// The whole of an answer as one JSON object.
#pragma once

#include <string>

#include "cli/figures.h"
#include "engine/generator.h"
#include "engine/loaded_model.h"

namespace baton {

// {"text", "stop_reason", "stopped_by", "tokens": [{"id", "text", "bytes", "logprob", ...}],
// "figures", "model", "policy", "versions"}. `reading` is how far the prompt was read. A token's
// text is null where its bytes are no whole characters. Bytes of the answer that are not UTF-8 (a
// character that was cut) become U+FFFD.
std::string AnswerJson(const GenerationRequest& request, const GenerationResult& result,
                       const PromptReading& reading, const LoadedModel& model);

}  // namespace baton
