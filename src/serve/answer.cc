#include "serve/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/number_text.h"
#include "serve/choice_relay.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

}  // namespace

Answer::Answer(Parts parts, AnswerHost& host)
    : parts_(std::move(parts)),
      host_(host),
      choices_(static_cast<size_t>(parts_.call.num_choices())) {
  if (!parts_.call.tools) return;
  for (Choice& choice : choices_) choice.reader.emplace(*parts_.call.tools);
}

void Answer::Attach(std::shared_ptr<HttpExchange> exchange) {
  exchange_ = std::move(exchange);
  if (exchange_->over()) return OnClientGone();
  exchange_->OnGone([self = shared_from_this()] { self->OnClientGone(); });
  if (!parts_.call.fields.stream) return;
  exchange_->OnTick(host_.keep_alive_ms, [self = shared_from_this()] { self->KeepAlive(); });
}

void Answer::SubmitChoices(uint64_t seed) {
  std::vector<uint64_t> ids;
  ApiResult<> outcome;
  const int64_t num_choices = parts_.call.num_choices();
  for (int64_t choice = 0; choice < num_choices && outcome && !abandoned_; ++choice) {
    auto relay = std::make_shared<ChoiceRelay>(shared_from_this(), choice, host_);
    GenerationRequest request = RequestOf(parts_.call, choice, seed);
    request.label = parts_.head.id;
    const Result<uint64_t> id = host_.backend.Submit(std::move(request), std::move(relay));
    if (id) {
      ids.push_back(*id);
    } else {
      outcome = tl::unexpected<ApiError>(ApiErrorOf(id.error(), {}));
    }
  }
  host_.post([self = shared_from_this(), ids = std::move(ids), outcome = std::move(outcome)] {
    self->OnSubmitted(ids, outcome);
  });
}

void Answer::OnSubmitted(std::vector<uint64_t> ids, const ApiResult<>& outcome) {
  submitted_ = true;
  ids_ = std::move(ids);
  if (!cause_.empty()) CancelAll();
  refused_ = !outcome && cause_.empty();
  if (!outcome) Fail(outcome.error());
  LogIfEnded();
}

void Answer::OnClientGone() {
  Tell("client_gone");
}

void Answer::OnProgress(int64_t choice, const PromptProgress& progress) {
  if (!cause_.empty()) return;
  BeginChoice(choice);
  SendPiece({.choice = choice, .progress = progress});
}

void Answer::OnPrompt(int64_t choice, std::vector<SampledToken> tokens) {
  if (!cause_.empty()) return;
  Choice& to = choices_[static_cast<size_t>(choice)];
  const std::string& echo = EchoOf(choice);
  // What a vocabulary puts in front of a text is a token without a place in it.
  const int64_t more =
      baton::CountCharacters(tokens, *parts_.head.tokenizer) - CountCharacters(echo);
  to.text_offset = -std::max<int64_t>(more, 0);
  if (!parts_.call.fields.stream) {
    to.tokens = std::move(tokens);
    return;
  }
  BeginChoice(choice);
  SendPiece({.choice = choice, .text = echo, .tokens = tokens, .text_offset = to.text_offset});
  to.text_offset = CountCharacters(echo);
}

void Answer::OnText(int64_t choice, const std::string& text, std::vector<SampledToken> tokens) {
  if (!cause_.empty()) return;
  Choice& from = choices_[static_cast<size_t>(choice)];
  Give(choice, from.reader ? from.reader->Push(text) : ToolPiece{.text = text}, std::move(tokens));
}

// Tells what is certain of a choice, now or at the end.
void Answer::Give(int64_t choice, const ToolPiece& piece, std::vector<SampledToken> tokens) {
  Choice& to = choices_[static_cast<size_t>(choice)];
  if (!parts_.call.fields.stream) {
    to.text += piece.text;
    to.calls.insert(to.calls.end(), piece.calls.begin(), piece.calls.end());
    std::move(tokens.begin(), tokens.end(), std::back_inserter(to.tokens));
    return;
  }
  if (piece.text.empty() && piece.calls.empty() && tokens.empty()) return;
  BeginChoice(choice);
  SendPiece({.choice = choice,
             .text = piece.text,
             .tokens = tokens,
             .text_offset = to.text_offset,
             .calls = piece.calls,
             .first_call = to.reader ? to.reader->num_calls() - std::ssize(piece.calls) : 0});
  to.text_offset += baton::CountCharacters(tokens, *parts_.head.tokenizer);
}

void Answer::OnChoiceDone(int64_t choice, const Result<GenerationResult>& result) {
  Choice& to = choices_[static_cast<size_t>(choice)];
  to.done = true;
  ++num_done_;
  if (result) {
    to.figures = result->figures;
    host_.metrics.NoteGeneration(result->figures);
  }
  if (!cause_.empty()) return LogIfEnded();
  if (!result) {
    Fail(ApiErrorOf(result.error(), {}));
    return LogIfEnded();
  }
  const std::optional<std::string_view> reason = FinishReason(result->stop_reason);
  if (!reason) {
    const bool late = result->stop_reason == StopReason::kDeadline;
    Fail(late ? ApiErrorOf({.code = ErrorCode::kDeadline, .message = "the time ran out"}, {})
              : DrainingError());
    return LogIfEnded();
  }
  to.finish_reason = *reason;
  if (to.reader) {
    Give(choice, to.reader->Finish(), {});
    if (to.reader->num_calls() > 0 && *reason == "stop") to.finish_reason = "tool_calls";
  }
  if (parts_.call.fields.stream) {
    BeginChoice(choice);
    SendPiece({.choice = choice, .finish_reason = to.finish_reason});
  }
  if (num_done_ == std::ssize(choices_) && cause_.empty()) Finish();
  LogIfEnded();
}

// The first event of a choice: who speaks, and the echo.
void Answer::BeginChoice(int64_t choice) {
  Choice& to = choices_[static_cast<size_t>(choice)];
  if (to.begun) return;
  to.begun = true;
  if (parts_.head.is_chat) SendPiece({.choice = choice, .has_role = true});
  // With log-probabilities it waits for these.
  if (parts_.call.echoes.empty() || parts_.call.prompt_logprobs) return;
  const std::string& echo = EchoOf(choice);
  SendPiece({.choice = choice, .text = echo});
  to.text_offset = CountCharacters(echo);
}

const std::string& Answer::EchoOf(int64_t choice) const {
  return parts_.call.echoes[static_cast<size_t>(parts_.call.PromptOf(choice))];
}

void Answer::SendPiece(const ReplyPiece& piece) {
  SendEvent(PieceJson(parts_.head, piece));
}

void Answer::SendEvent(const std::string& json) {
  BeginStream();
  // Sending may find out that the client is gone.
  if (exchange_->over()) return;
  exchange_->Write(fmt::format("data: {}\n\n", json));
  sent_since_tick_ = true;
}

void Answer::BeginStream() {
  if (exchange_->over() || exchange_->streaming()) return;
  HttpStreamHead head{.fields = {{.name = "Content-Type", .value = "text/event-stream"},
                                 {.name = "Cache-Control", .value = "no-cache"},
                                 {.name = "X-Accel-Buffering", .value = "no"}},
                      .probe = ":\n\n"};
  head.fields.insert(head.fields.end(), parts_.fields.begin(), parts_.fields.end());
  exchange_->Begin(std::move(head));
}

void Answer::KeepAlive() {
  if (std::exchange(sent_since_tick_, false) || !cause_.empty()) return;
  BeginStream();
  if (!exchange_->over()) exchange_->Write(": keep-alive\n\n");
}

void Answer::Finish() {
  const CallFields& fields = parts_.call.fields;
  if (fields.stream) {
    if (fields.include_usage) SendEvent(UsageJson(parts_.head, Usage()));
    if (!exchange_->over()) exchange_->Write("data: [DONE]\n\n");
    if (cause_.empty()) {
      const std::shared_ptr<HttpExchange> exchange = exchange_;
      Tell("done");
      exchange->End();
    }
    return;
  }
  std::vector<ReplyChoice> replies;
  for (int64_t i = 0; i < std::ssize(choices_); ++i) {
    Choice& from = choices_[static_cast<size_t>(i)];
    ReplyChoice reply{.text = std::move(from.text),
                      .tokens = std::move(from.tokens),
                      .calls = std::move(from.calls),
                      .has_logprobs = fields.sampling.num_top_logprobs.has_value(),
                      .finish_reason = from.finish_reason};
    if (!parts_.call.echoes.empty()) {
      const std::string& echo = EchoOf(i);
      reply.text.insert(0, echo);
      reply.text_offset = parts_.call.prompt_logprobs ? from.text_offset : CountCharacters(echo);
    }
    replies.push_back(std::move(reply));
  }
  HttpResponse response{.status = 200,
                        .fields = {{.name = "Content-Type", .value = "application/json"}},
                        .body = ReplyJson(parts_.head, replies, Usage())};
  response.fields.insert(response.fields.end(), parts_.fields.begin(), parts_.fields.end());
  Tell("done");
  exchange_->Respond(std::move(response));
}

void Answer::Fail(const ApiError& error) {
  if (!cause_.empty()) return;
  status_ = error.status;
  Tell(error.code.empty() ? error.type : error.code);
  if (exchange_->over()) return;
  if (exchange_->streaming()) {
    exchange_->Write(fmt::format("data: {}\n\n", ErrorJson(error)));
    exchange_->Abort();
    return;
  }
  HttpResponse response = ErrorResponse(error);
  response.fields.insert(response.fields.end(), parts_.fields.begin(), parts_.fields.end());
  exchange_->Respond(std::move(response));
}

// From now on nothing of the choices is told.
void Answer::Tell(std::string cause) {
  if (!cause_.empty()) return;
  cause_ = std::move(cause);
  abandoned_ = true;
  CancelAll();
}

void Answer::CancelAll() {
  if (num_done_ == std::ssize(choices_)) return;
  for (const uint64_t id : ids_) host_.backend.Cancel(id);
}

ReplyUsage Answer::Usage() const {
  ReplyUsage usage;
  for (int64_t i = 0; i < std::ssize(choices_); ++i) {
    const GenerationFigures& figures = choices_[static_cast<size_t>(i)].figures;
    usage.completion_tokens += figures.generated_tokens;
    usage.queue_seconds = std::max(usage.queue_seconds, figures.queue_seconds);
    usage.first_token_seconds = std::max(usage.first_token_seconds, figures.first_token_seconds);
    usage.prefill_seconds = std::max(usage.prefill_seconds, figures.prefill_seconds);
    usage.decode_seconds = std::max(usage.decode_seconds, figures.decode_seconds);
    // The choices of a prompt read it together.
    if (i % parts_.call.fields.num_choices != 0) continue;
    usage.prompt_tokens += figures.prompt_tokens;
    usage.cached_tokens += figures.cached_tokens;
    if (!figures.prefill_policy) continue;
    usage.prefills.push_back({.policy = *figures.prefill_policy, .report = figures.prefill});
  }
  return usage;
}

void Answer::LogIfEnded() {
  if (ended_ || !submitted_ || cause_.empty() || num_done_ < std::ssize(ids_)) return;
  ended_ = true;
  const ReplyUsage usage = Usage();
  const char* phase = "queue";
  if (cause_ == "done") {
    phase = "done";
  } else if (usage.completion_tokens > 0) {
    phase = "decode";
  } else if (usage.queue_seconds > 0) {
    phase = "prefill";
  }
  if (refused_) phase = "refused";
  std::string_view outcome = refused_ ? "refused" : "error";
  if (cause_ == "done") outcome = "ok";
  if (cause_ == "client_gone") outcome = "client_gone";
  host_.metrics.NoteRequest(outcome);
  host_.log.Add(JsonLine({{"event", "request"},
                          {"id", parts_.head.id},
                          {"path", parts_.path},
                          {"phase", phase},
                          {"cause", cause_},
                          {"status", status_},
                          {"choices", choices_.size()},
                          {"prompt_tokens", usage.prompt_tokens},
                          {"cached_tokens", usage.cached_tokens},
                          {"generated_tokens", usage.completion_tokens},
                          {"queue_seconds", ReportedSeconds(usage.queue_seconds)},
                          {"prefill_seconds", ReportedSeconds(usage.prefill_seconds)},
                          {"decode_seconds", ReportedSeconds(usage.decode_seconds)}}));
}

}  // namespace baton
