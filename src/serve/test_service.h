// The server's front for tests: an engine whose tokens the test writes, and real connections.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/test_eventually.h"
#include "net/test_http_client.h"
#include "serve/service.h"
#include "serve/test_text_model.h"

namespace baton {

// An engine whose tokens the test writes. Its calls come from the test's thread.
class ScriptedBackend final : public GenerationBackend {
 public:
  Result<uint64_t> Submit(GenerationRequest request,
                          std::shared_ptr<RequestObserver> observer) override {
    const std::lock_guard lock(mutex_);
    if (refuse_after == 0) return Fail(refusal, "no room");
    if (refuse_after > 0) --refuse_after;
    requests.push_back(std::move(request));
    observers_[++last_id_] = std::move(observer);
    return last_id_;
  }
  Result<> CheckPrefill(const PrefillWish& wish) const override {
    if (wish.mode != PrefillMode::kAuto) return {};
    return Fail(ErrorCode::kNotFound, "the model is not tuned");
  }
  void Cancel(uint64_t id) override {
    std::shared_ptr<RequestObserver> observer = Take(id);
    if (observer == nullptr) return;
    ++num_cancelled;
    GenerationResult result;
    result.stop_reason = StopReason::kCancelled;
    observer->OnDone(std::move(result));
  }
  EngineStatus Status() const override {
    EngineStatus status;
    status.blocks_free = 7;
    status.blocks_cached = 2;
    status.running.push_back(
        {.id = 9, .label = "chatcmpl-1", .prompt_tokens = 5, .is_prefill = true});
    status.waiting.push_back({.id = 10, .label = "chatcmpl-2", .prompt_tokens = 6});
    status.waiting_requests = 3;
    return status;
  }

  size_t num_requests() {
    const std::lock_guard lock(mutex_);
    return requests.size();
  }
  std::shared_ptr<RequestObserver> Find(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = observers_.find(id);
    return found == observers_.end() ? nullptr : found->second;
  }
  void Say(uint64_t id, const std::string& text) {
    if (const auto observer = Find(id)) observer->OnText(text);
  }
  void End(uint64_t id, StopReason reason) {
    GenerationResult result;
    result.stop_reason = reason;
    result.figures.prompt_tokens = 10;
    result.figures.cached_tokens = 4;
    result.figures.generated_tokens = 3;
    result.end_token = end_token;
    if (const auto observer = Take(id)) observer->OnDone(std::move(result));
  }
  void Finish(uint64_t id, GenerationResult result) {
    if (const auto observer = Take(id)) observer->OnDone(std::move(result));
  }
  void Break(uint64_t id) {
    if (const auto observer = Take(id)) observer->OnDone(Fail(ErrorCode::kInternal, "broken"));
  }

  std::vector<GenerationRequest> requests;
  std::optional<SampledToken> end_token;
  int refuse_after = -1;
  ErrorCode refusal = ErrorCode::kExhausted;
  std::atomic<int> num_cancelled = 0;

 private:
  std::shared_ptr<RequestObserver> Take(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = observers_.find(id);
    if (found == observers_.end()) return nullptr;
    std::shared_ptr<RequestObserver> observer = std::move(found->second);
    observers_.erase(found);
    return observer;
  }

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<RequestObserver>> observers_;
  uint64_t last_id_ = 0;
};

// A service in front of a scripted engine, and clients.
class ServiceTest : public ::testing::Test {
 protected:
  void StartWith(ServiceConfig config) {
    server_.reset();
    service_ = std::make_unique<Service>(
        std::move(config), ServiceWorld{.clock = clock_,
                                        .unix_seconds = [] { return int64_t{1'700'000'000}; },
                                        .local_time = [] { return CivilTime{}; },
                                        .random = [] { return uint64_t{42}; },
                                        .write_log =
                                            [this](const std::string& lines) {
                                              const std::lock_guard lock(log_mutex_);
                                              log_ += lines;
                                            }});
    auto server = HttpServer::Listen({}, *service_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    service_->SetServer(*server_);
    server_->Start();
  }
  void SetUp() override {
    StartWith({});
    SetModel();
  }
  void SetModel() { service_->SetModel({.text = words_.model, .backend = backend_}); }

  static std::string Head(const std::string& method, const std::string& path,
                          const std::string& fields) {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string PostText(const std::string& path, const std::string& body) {
    return Head("POST", path, "Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  }
  // The answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    TestHttpClient client(server_->port());
    EXPECT_TRUE(client.Send(request));
    const std::string text = client.ReadUntil("\r\n\r\n");
    const size_t at = text.find("Content-Length: ");
    if (at == std::string::npos || request.starts_with("HEAD")) return text;
    return text + client.ReadBytes(std::stoul(text.substr(at + 16)));
  }
  static nlohmann::ordered_json BodyOf(const std::string& text) {
    return nlohmann::ordered_json::parse(text.substr(text.find("\r\n\r\n") + 4));
  }
  // Sends a call and waits until the engine has so many requests more.
  std::unique_ptr<TestHttpClient> Call(const std::string& path, const std::string& body,
                                       size_t num_choices) {
    const size_t before = backend_.num_requests();
    auto client = std::make_unique<TestHttpClient>(server_->port());
    EXPECT_TRUE(client->Send(PostText(path, body)));
    EXPECT_TRUE(Eventually([&] { return backend_.num_requests() == before + num_choices; }));
    return client;
  }
  std::string Log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  TestWords words_;
  SteadyClock clock_;
  std::mutex log_mutex_;
  std::string log_;
  ScriptedBackend backend_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
};

inline const std::string kChat = "/v1/chat/completions";
inline const std::string kHi = R"("messages":[{"role":"user","content":"hi"}])";

// The events of a stream without the fields that all have.
inline std::vector<std::string> EventsOf(const std::string& text) {
  std::vector<std::string> events;
  size_t at = 0;
  while ((at = text.find("data: ", at)) != std::string::npos) {
    const size_t end = text.find("\n\n", at);
    const std::string data = text.substr(at + 6, end - at - 6);
    at = end;
    if (data == "[DONE]") {
      events.push_back(data);
      continue;
    }
    auto json = nlohmann::ordered_json::parse(data);
    for (const char* name : {"id", "object", "created", "model", "system_fingerprint"}) {
      json.erase(name);
    }
    events.push_back(json.dump());
  }
  return events;
}

}  // namespace baton
