#include "serve/service.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "serve/api_keys.h"
#include "serve/json_body.h"
#include "serve/openapi.h"
#include "serve/page_routes.h"
#include "serve/prepared_call.h"
#include "serve/status_json.h"
#include "serve/text_routes.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

HttpResponse JsonResponse(int status, std::string body) {
  return {.status = status,
          .fields = {{.name = "Content-Type", .value = "application/json"}},
          .body = std::move(body)};
}

void AddFields(HttpResponse& response, const std::vector<HttpField>& fields) {
  response.fields.insert(response.fields.end(), fields.begin(), fields.end());
}

// What the queue could not hold if nobody else were there would be told to come again for ever.
ApiResult<> CheckQueue(const PreparedCall& call, const QueueLimits& queue) {
  const std::string param =
      call.fields.num_choices > 1 ? "n" : (call.is_chat ? "messages" : "prompt");
  if (call.num_choices() > queue.max_requests) {
    return BadField(param, fmt::format("{} choices are more than the {} that may wait here "
                                       "(--max-queue); ask for fewer at a time",
                                       call.num_choices(), queue.max_requests));
  }
  int64_t num_tokens = 0;
  for (const std::vector<TokenId>& prompt : call.prompts) num_tokens += std::ssize(prompt);
  num_tokens *= call.fields.num_choices;
  if (num_tokens <= queue.max_tokens) return {};
  return BadField(param,
                  fmt::format("the prompts of all choices have {} tokens together, more than "
                              "the {} that may wait here (--max-queue-tokens)",
                              num_tokens, queue.max_tokens));
}

ApiError NoSuchModel(const std::string& model, const std::string& served) {
  constexpr size_t kMaxNameBytes = 200;
  return {.status = 404,
          .message = fmt::format("the model '{}' is not served here; '{}' is",
                                 model.substr(0, kMaxNameBytes), served.substr(0, kMaxNameBytes)),
          .param = "model",
          .code = "model_not_found"};
}

}  // namespace

std::string ToText(const ServiceConfig& config) {
  return fmt::format(
      "keep_alive_ms = {}\nmax_waiting_calls = {}\nmax_log_lines = {}\nmax_choices = {}\n"
      "max_top_logprobs = {}\nmax_stops = {}\nmax_stop_bytes = {}\nmax_messages = {}\n"
      "max_json_depth = {}\nmax_json_keys = {}\nmax_tokenize_bytes = {}\n",
      config.keep_alive_ms, config.max_waiting_calls, LineLog::kMaxWaitingLines,
      CallLimits::kMaxChoices, CallLimits::kMaxTopLogprobs, CallLimits::kMaxStops,
      CallLimits::kMaxStopBytes, ChatCall::kMaxMessages, kMaxJsonDepth, kMaxJsonKeys,
      kMaxTokenizeBytes);
}

Service::Service(ServiceConfig config, ServiceWorld world)
    : config_(std::move(config)),
      world_(std::move(world)),
      log_(world_.write_log),
      worker_(config_.max_waiting_calls) {}

Service::~Service() = default;

void Service::SetServer(HttpServer& server) {
  server_ = &server;
}

void Service::SetModel(ServedModel model) {
  model_ = std::make_unique<const ServedModel>(std::move(model));
  model_created_ = world_.unix_seconds();
  host_ = std::unique_ptr<AnswerHost>(
      new AnswerHost{.post = [this](std::function<void()> call) { server_->Post(std::move(call)); },
                     .backend = model_->backend,
                     .metrics = metrics_,
                     .log = log_,
                     .clock = world_.clock,
                     .keep_alive_ms = config_.keep_alive_ms});
  State loading = State::kLoading;
  state_.compare_exchange_strong(loading, State::kReady);
}

void Service::Drain() {
  state_ = State::kDraining;
}

std::optional<HttpResponse> Service::OnHead(const HttpRequest& request) {
  const OriginVerdict verdict = JudgeOrigin(config_.origins, request);
  if (verdict == OriginVerdict::kWrongHost) {
    return ErrorResponse(
        {.status = 403,
         .message = "this server does not go by that Host; --allowed-host adds one",
         .code = "wrong_host"});
  }
  const std::optional<RouteRow> row = FindRoute(request.path());
  if (request.method == "OPTIONS") {
    return PreflightResponse(verdict, request, MethodsOf(row));
  }
  const auto refuse = [&](const ApiError& error) {
    HttpResponse response = ErrorResponse(error);
    AddFields(response, CorsFields(verdict, request));
    return response;
  };
  if (verdict == OriginVerdict::kForeign) {
    return refuse(
        {.status = 403,
         .message = "pages of this Origin may not use this server; --cors-origin adds one",
         .code = "foreign_origin"});
  }
  const bool is_open = row && row->is_open;
  if (!is_open && !IsAuthorized(request, config_.api_keys)) {
    return refuse({.status = 401,
                   .type = "authentication_error",
                   .message = "an API key is wanted: Authorization: Bearer KEY",
                   .code = "invalid_api_key"});
  }
  if (!row) return refuse(NoSuchRoute(request.path()));
  const bool fits =
      row->is_post ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!fits) {
    HttpResponse response = refuse(
        {.status = 405,
         .message = fmt::format("{} is asked with {}", row->path, row->is_post ? "POST" : "GET"),
         .code = "wrong_method"});
    response.fields.push_back({.name = "Allow", .value = std::string(MethodsOf(row))});
    return response;
  }
  // A body need not be read to be refused.
  if (row->is_post && state_ == State::kLoading) return refuse(LoadingError());
  if (row->is_post && state_ == State::kDraining) return refuse(DrainingError());
  return std::nullopt;
}

void Service::OnRequest(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const std::optional<RouteRow> row = FindRoute(request.path());
  std::vector<HttpField> fields = CorsFields(JudgeOrigin(config_.origins, request), request);
  HttpResponse response;
  if (!row) {
    response = ErrorResponse(NoSuchRoute(request.path()));
  } else if (!row->is_post) {
    response = Get(row->route, request);
  } else {
    auto call = std::make_shared<Call>(Call{.route = row->route,
                                            .request = std::move(request),
                                            .exchange = exchange,
                                            .fields = fields});
    if (worker_.Add([this, call = std::move(call)] { Work(*call); })) return;
    response = ErrorResponse(BusyError("too many calls wait to be read; try again"));
  }
  AddFields(response, fields);
  exchange->Respond(std::move(response));
}

HttpResponse Service::Refusal(int status, const std::string& why) {
  ApiError error{.status = status, .message = why, .code = "http"};
  if (status >= 500) error.type = "server_error";
  if (status == 503) error.retry_after_seconds = 1;
  return ErrorResponse(error);
}

HttpResponse Service::Get(Route route, const HttpRequest& request) {
  switch (route) {
    case Route::kLive:
      return StateResponse(/*is_well=*/true);
    case Route::kReady:
    case Route::kHealth:
      return StateResponse(state_ == State::kReady);
    case Route::kModels:
    case Route::kModel:
      return ModelsResponse(route, request);
    case Route::kOpenApi:
      return JsonResponse(200, OpenApiText());
    case Route::kStatus:
      return StatusResponse();
    case Route::kPage:
      return PageResponse(*FindPageFile(request.path()), request);
    case Route::kMetrics: {
      const std::optional<EngineStatus> status = EngineNow();
      return {.status = 200,
              .fields = {{.name = "Content-Type", .value = "text/plain; version=0.0.4"}},
              .body = metrics_.Text(status ? &*status : nullptr, server_->num_connections())};
    }
    default:
      return ErrorResponse(NoSuchRoute(request.path()));
  }
}

HttpResponse Service::StateResponse(bool is_well) const {
  HttpResponse response = JsonResponse(is_well ? 200 : 503, JsonLine({{"status", StateName()}}));
  if (!is_well) response.fields.push_back({.name = "Retry-After", .value = "1"});
  return response;
}

const char* Service::StateName() const {
  switch (state_) {
    case State::kLoading:
      return "loading";
    case State::kReady:
      return "ok";
    case State::kDraining:
      break;
  }
  return "draining";
}

// A server may be stopped before it has a model.
std::optional<EngineStatus> Service::EngineNow() const {
  if (state_ == State::kLoading || model_ == nullptr) return std::nullopt;
  return model_->backend.Status();
}

HttpResponse Service::StatusResponse() const {
  const std::optional<EngineStatus> status = EngineNow();
  StatusHead head{.state = StateName()};
  if (status) head.model = model_->text.id;
  if (status) head.context_tokens = model_->text.context_tokens;
  HttpResponse response = JsonResponse(200, StatusJson(head, status ? &*status : nullptr));
  response.fields.push_back({.name = "Cache-Control", .value = "no-store"});
  return response;
}

HttpResponse Service::ModelsResponse(Route route, const HttpRequest& request) const {
  if (state_ == State::kLoading) return ErrorResponse(LoadingError());
  const Json model = {{"id", model_->text.id},
                      {"object", "model"},
                      {"created", model_created_},
                      {"owned_by", "baton"},
                      {"max_model_len", model_->text.context_tokens},
                      {"vocab_size", model_->text.vocab_size},
                      {"has_chat_template", model_->text.chat_template != nullptr}};
  if (route == Route::kModels) {
    return JsonResponse(200, JsonLine({{"object", "list"}, {"data", Json::array({model})}}));
  }
  const std::string name = ModelOfPath(request.path());
  if (name != model_->text.id) return ErrorResponse(NoSuchModel(name, model_->text.id));
  return JsonResponse(200, JsonLine(model));
}

void Service::Work(Call& call) {
  if (call.route == Route::kTokenize || call.route == Route::kDetokenize) {
    const auto body = ParseJsonBody(call.request.body);
    if (!body) return RespondLater(call, ErrorResponse(body.error()));
    auto reply = call.route == Route::kTokenize ? TokenizeReply(*body, model_->text)
                                                : DetokenizeReply(*body, model_->text);
    return RespondLater(
        call, reply ? JsonResponse(200, *std::move(reply)) : ErrorResponse(reply.error()));
  }
  const auto answer = MakeAnswer(call);
  if (!answer) {
    NoteRefused(call, answer.error());
    return RespondLater(call, ErrorResponse(answer.error()));
  }
  host_->post(
      [answer = *answer, exchange = std::move(call.exchange)] { answer->Attach(exchange); });
  (*answer)->SubmitChoices((*answer)->call().fields.seed.value_or(world_.random()));
}

ApiResult<PreparedCall> Service::Prepare(const Call& call) const {
  auto body = ParseJsonBody(call.request.body);
  if (!body) return ForwardApi(body);
  const CallLimits limits{.vocab_size = model_->text.vocab_size};
  const auto is_ours = [&](const CallFields& fields) {
    return fields.model.value_or(model_->text.id) == model_->text.id;
  };
  if (call.route == Route::kChatCompletions) {
    auto chat = ReadChatCall(*body, limits);
    if (!chat) return ForwardApi(chat);
    if (!is_ours(chat->fields))
      return tl::unexpected(NoSuchModel(*chat->fields.model, model_->text.id));
    return PrepareChat(*std::move(chat), model_->text, world_.local_time());
  }
  auto completion = ReadCompletionCall(*body, limits);
  if (!completion) return ForwardApi(completion);
  if (!is_ours(completion->fields))
    return tl::unexpected(NoSuchModel(*completion->fields.model, model_->text.id));
  return PrepareCompletion(*std::move(completion), model_->text);
}

ApiResult<std::shared_ptr<Answer>> Service::MakeAnswer(const Call& call) {
  auto prepared = Prepare(call);
  if (!prepared) return ForwardApi(prepared);
  const PrefillWish& prefill = prepared->fields.prefill;
  if (const Result<> can = model_->backend.CheckPrefill(prefill); !can) {
    return BadField(prefill.policy ? "sparse" : "prefill", can.error().message);
  }
  if (auto fits = CheckQueue(*prepared, model_->queue); !fits) return ForwardApi(fits);
  const bool is_chat = prepared->is_chat;
  return std::make_shared<Answer>(
      Answer::Parts{
          .call = *std::move(prepared),
          .head = {.is_chat = is_chat,
                   .id = fmt::format("{}-{:016x}", is_chat ? "chatcmpl" : "cmpl", world_.random()),
                   .created = world_.unix_seconds(),
                   .model = model_->text.id,
                   .tokenizer = &model_->text.tokenizer},
          .path = std::string(call.request.path()),
          .fields = call.fields},
      *host_);
}

void Service::RespondLater(Call& call, HttpResponse response) {
  AddFields(response, call.fields);
  server_->Post([exchange = std::move(call.exchange), response = std::move(response)] {
    exchange->Respond(response);
  });
}

void Service::LogEvent(std::string_view event, std::string_view message) {
  log_.Add(JsonLine({{"event", event}, {"message", message}}));
}

void Service::NoteRefused(const Call& call, const ApiError& error) {
  metrics_.NoteRequest("refused");
  log_.Add(JsonLine({{"event", "request"},
                     {"id", nullptr},
                     {"path", std::string(call.request.path())},
                     {"phase", "refused"},
                     {"cause", error.code.empty() ? error.type : error.code},
                     {"status", error.status},
                     {"param", error.param}}));
}

}  // namespace baton
