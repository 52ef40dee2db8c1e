// A conversation with guarded contents on its way to token ids: the words of the chat template,
// then their ids.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace baton {

// The messages in the words of the template. Their contents are guarded (Tokenizer::GuardContent),
// so that what they spell stays text; EncodeGuardedChat takes the guards away again. The names of
// BOS and EOS are filled in. Errors: as ChatTemplate::RenderAdapted.
Result<std::string> RenderGuardedChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      ChatTemplateInputs inputs);

// The ids of a rendered conversation that is ready for an answer. Errors: as Tokenizer::Encode.
Result<std::vector<TokenId>> EncodeGuardedChat(const Tokenizer& tokenizer,
                                               std::string_view rendered);

}  // namespace baton
