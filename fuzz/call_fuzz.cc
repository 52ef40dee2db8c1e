// Arbitrary bytes as the body of a call, up to what the engine is asked: no crash, no undefined
// behaviour, bounded time and memory. The first byte says which kind of call.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sample/sampling_params.h"
#include "serve/chat_call.h"
#include "serve/completion_call.h"
#include "serve/json_body.h"
#include "serve/prepared_call.h"
#include "serve/test_text_model.h"

namespace {

// What is accepted is what the engine takes, and what is refused is said to a client.
void Judge(const baton::ApiResult<baton::PreparedCall>& call, const baton::TextModel& model) {
  if (!call) {
    if (call.error().status != 400 || call.error().message.empty()) std::abort();
    return;
  }
  if (call->num_choices() < 1 || call->num_choices() > baton::CallLimits::kMaxChoices) std::abort();
  for (int64_t choice = 0; choice < call->num_choices(); ++choice) {
    const baton::GenerationRequest request = baton::RequestOf(*call, choice, 1);
    if (request.prompt.empty() || std::ssize(request.prompt) >= model.context_tokens) std::abort();
    if (!baton::Validate(request.sampling, baton::kTestVocabSize)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const baton::TestWords words;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto body = baton::ParseJsonBody(text);
  if (!body) {
    if (body.error().status != 400) std::abort();
    return 0;
  }
  const baton::CallLimits limits{.vocab_size = baton::kTestVocabSize};
  if (data[0] % 2 == 0) {
    auto call = baton::ReadCompletionCall(*body, limits);
    if (call) Judge(baton::PrepareCompletion(*std::move(call), words.model), words.model);
  } else {
    auto call = baton::ReadChatCall(*body, limits);
    if (call) Judge(baton::PrepareChat(*std::move(call), words.model, {}), words.model);
  }
  return 0;
}
