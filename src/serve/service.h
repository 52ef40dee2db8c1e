// The server's front: routes, keys, states, and the way of a call to the engine.
//
// Life of the service:
//  1. loading: says so; only /livez is well.
//  2. ready: a model is there (SetModel).
//  3. draining: new work is refused, what runs goes on (Drain).
//
// Threads: the I/O thread has the routes and the answers; what takes longer (JSON, templates,
// tokens) is done by one work thread, in the order of arrival; the engine's thread only hands over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/http_server.h"
#include "serve/answer.h"
#include "serve/generation_backend.h"
#include "serve/line_log.h"
#include "serve/origin_rules.h"
#include "serve/routes.h"
#include "serve/server_metrics.h"
#include "serve/text_model.h"
#include "serve/work_thread.h"

namespace baton {

struct ServiceConfig {
  std::vector<std::string> api_keys = {};  // none: everybody may
  OriginRules origins = {};
  int64_t keep_alive_ms = 5'000;
  // Calls that wait for the work thread.
  size_t max_waiting_calls = 1024;
};

// One line "name = value" for each limit of the service and of a call.
std::string ToText(const ServiceConfig& config);

// What the service has of the world.
struct ServiceWorld {
  Clock& clock;
  std::function<int64_t()> unix_seconds;
  std::function<CivilTime()> local_time;
  std::function<uint64_t()> random;  // for seeds and ids; any thread
  std::function<void(const std::string& lines)> write_log;
};

// What the engine lets wait: what is more in one call is refused, as it could never be taken.
struct QueueLimits {
  int64_t max_requests = EngineConfig().max_queue_requests;
  int64_t max_tokens = EngineConfig().max_queue_tokens;
};

// What SetModel brings. The parts outlive the service.
struct ServedModel {
  TextModel text;
  GenerationBackend& backend;
  QueueLimits queue = {};
};

class Service final : public HttpHandler {
 public:
  Service(ServiceConfig config, ServiceWorld world);
  ~Service() override;

  // Before the server starts. Requires: the server is closed before the service goes.
  void SetServer(HttpServer& server);

  // Threads: any.
  void SetModel(ServedModel model);
  void Drain();
  // A line of the log that belongs to no request.
  void LogEvent(std::string_view event, std::string_view message);

  std::optional<HttpResponse> OnHead(const HttpRequest& request) override;
  void OnRequest(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse Refusal(int status, const std::string& why) override;

 private:
  enum class State : std::uint8_t { kLoading, kReady, kDraining };
  // What the work thread gets.
  struct Call {
    Route route;
    HttpRequest request;
    std::shared_ptr<HttpExchange> exchange;
    std::vector<HttpField> fields;  // of the response
  };

  HttpResponse Get(Route route, const HttpRequest& request);
  HttpResponse StateResponse(bool is_well) const;
  const char* StateName() const;
  std::optional<EngineStatus> EngineNow() const;
  HttpResponse StatusResponse() const;
  HttpResponse ModelsResponse(Route route, const HttpRequest& request) const;
  void Work(Call& call);
  ApiResult<std::shared_ptr<Answer>> MakeAnswer(const Call& call);
  ApiResult<PreparedCall> Prepare(const Call& call) const;
  void RespondLater(Call& call, HttpResponse response);
  void NoteRefused(const Call& call, const ApiError& error);

  const ServiceConfig config_;
  const ServiceWorld world_;
  ServerMetrics metrics_;
  LineLog log_;
  HttpServer* server_ = nullptr;
  std::atomic<State> state_ = State::kLoading;
  int64_t model_created_ = 0;
  std::unique_ptr<const ServedModel> model_;  // before kReady is set, and never changed
  std::unique_ptr<AnswerHost> host_;          // likewise
  WorkThread worker_;                         // last: it uses the others
};

}  // namespace baton
