// One call of the API, from the engine's tokens to the client.
//
// Life of an answer:
//  1. attached: the exchange is known, the choices are being submitted (SubmitChoices).
//  2. at work: the choices' events come in from the engine's thread, by way of ChoiceRelay.
//  3. told: the client has all, or an error, or is gone. Choices still at work are cancelled.
//  4. ended: the engine has let go of every choice; one line goes to the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/generation.h"
#include "net/http_exchange.h"
#include "serve/api_error.h"
#include "serve/generation_backend.h"
#include "serve/line_log.h"
#include "serve/prepared_call.h"
#include "serve/reply_json.h"
#include "serve/server_metrics.h"
#include "serve/tool_call_reader.h"

namespace baton {

// What answers share. All parts outlive them.
struct AnswerHost {
  // Calls a function on the I/O thread.
  std::function<void(std::function<void()>)> post;
  GenerationBackend& backend;
  ServerMetrics& metrics;
  LineLog& log;
  Clock& clock;
  // A stream with nothing to say says so at this interval.
  int64_t keep_alive_ms = 5'000;
};

// Threads: the I/O thread, but for the constructor and what is said below. Shared by the exchange,
// the relays of its choices, and what is posted between threads.
class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  struct Parts {
    PreparedCall call;
    ReplyHead head;
    std::string path;
    std::vector<HttpField> fields;  // of the response, besides its own
  };
  // Requires: `host` outlives it.
  Answer(Parts parts, AnswerHost& host);

  // Meets the client. Before anything else.
  void Attach(std::shared_ptr<HttpExchange> exchange);

  // Submits every choice to the engine, up to the first that is refused. Once. Threads: any.
  void SubmitChoices(uint64_t seed);

  // Events of a choice. Texts are valid UTF-8; tokens come with log-probabilities or not at all.
  void OnProgress(int64_t choice, const PromptProgress& progress);
  // The prompt's tokens, before anything else of the choice, if the call has prompt_logprobs.
  void OnPrompt(int64_t choice, std::vector<SampledToken> tokens);
  void OnText(int64_t choice, const std::string& text, std::vector<SampledToken> tokens);
  void OnChoiceDone(int64_t choice, const Result<GenerationResult>& result);

  // Requires: no thread changes it any more.
  const PreparedCall& call() const { return parts_.call; }

 private:
  struct Choice {
    bool begun = false;  // something was told of it
    bool done = false;
    std::string text;                  // unless streaming
    std::vector<SampledToken> tokens;  // unless streaming
    std::vector<ToolCall> calls;       // unless streaming
    std::optional<ToolCallReader> reader;
    // Characters of what was told; before that, with the prompt's log-probabilities, less than zero
    // by those that only its tokens spell.
    int64_t text_offset = 0;
    std::string_view finish_reason;
    GenerationFigures figures;
  };

  void Give(int64_t choice, const ToolPiece& piece, std::vector<SampledToken> tokens);
  void OnSubmitted(std::vector<uint64_t> ids, const ApiResult<>& outcome);
  void OnClientGone();
  void BeginChoice(int64_t choice);
  const std::string& EchoOf(int64_t choice) const;
  void SendEvent(const std::string& json);
  void BeginStream();
  void SendPiece(const ReplyPiece& piece);
  void KeepAlive();
  void Finish();
  void Fail(const ApiError& error);
  void Tell(std::string cause);
  void CancelAll();
  void LogIfEnded();
  ReplyUsage Usage() const;

  const Parts parts_;
  AnswerHost& host_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<Choice> choices_;
  std::vector<uint64_t> ids_;
  bool submitted_ = false;
  bool refused_ = false;  // the engine did not take it
  int64_t num_done_ = 0;
  std::string cause_;  // why nothing more is told; empty: there is more
  int status_ = 200;
  bool sent_since_tick_ = false;
  bool ended_ = false;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace baton
