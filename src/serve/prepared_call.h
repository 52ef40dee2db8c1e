// A call with its prompts as token ids: what the engine takes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/generation.h"
#include "serve/api_error.h"
#include "serve/chat_call.h"
#include "serve/completion_call.h"
#include "serve/text_model.h"
#include "serve/tool_rules.h"
#include "text/template_engine.h"

namespace baton {

// Plain data. Choice c belongs to prompt c / fields.num_choices.
struct PreparedCall {
  bool is_chat = false;
  CallFields fields = {};
  std::vector<std::vector<TokenId>> prompts = {};
  // What stands before the text of each prompt's choices; empty, or one for each prompt.
  std::vector<std::string> echoes = {};
  // Nothing: the answer is text, whatever it looks like.
  std::optional<ToolRules> tools = std::nullopt;
  std::vector<TokenId> shown_tokens = {};  // as GenerationRequest has them
  // With echoes: the log-probabilities of the prompts' tokens are told, too.
  bool prompt_logprobs = false;

  int64_t num_choices() const { return static_cast<int64_t>(prompts.size()) * fields.num_choices; }
  int64_t PromptOf(int64_t choice) const { return choice / fields.num_choices; }
};

// The conversation in the words of the model's chat template; what messages spell stays text
// (text/content_guard.h). `now` is for templates that print the date.
// Errors: 400: no chat template, refused by the template (in its words), tools that the template
// does not know, too long for the context.
ApiResult<PreparedCall> PrepareChat(ChatCall call, const TextModel& model, CivilTime now);

// Text becomes ids as `baton run --raw` makes them: names of special tokens mean the tokens.
// Errors: 400: a prompt without a token, or too long for the context; more log-probabilities of
// prompts than CallLimits::kMaxPromptLogprobs.
ApiResult<PreparedCall> PrepareCompletion(CompletionCall call, const TextModel& model);

// What the engine is asked for a choice. `seed` is the call's, or one drawn for it.
GenerationRequest RequestOf(const PreparedCall& call, int64_t choice, uint64_t seed);

}  // namespace baton
