// An engine on a tiny model, for tests: opened and started anew as often as wanted, and what a
// request gives alone.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/test_tiny_file.h"

namespace baton {

// What a request was told, and how often it was told the end.
class Listener : public RequestObserver {
 public:
  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override {
    prefills.emplace_back(done_tokens, total_tokens);
    if (on_prefill) on_prefill();
  }
  void OnToken(const SampledToken& token) override {
    tokens.push_back(token);
    if (on_token) on_token();
  }
  void OnText(std::string_view piece) override { text += piece; }
  void OnDone(Result<GenerationResult> result) override {
    ++num_done;
    done = std::move(result);
    if (on_done) on_done();
  }

  std::vector<std::pair<int64_t, int64_t>> prefills;
  std::vector<SampledToken> tokens;
  std::string text;
  std::function<void()> on_prefill;
  std::function<void()> on_token;
  std::function<void()> on_done;
  int num_done = 0;
  std::optional<Result<GenerationResult>> done;
};

// An empty folder that lives as long as the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = testing::TempDir() + "engine_XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ids and log-probabilities, to be compared by bits.
inline std::vector<std::pair<TokenId, double>> Choices(const std::vector<SampledToken>& tokens) {
  std::vector<std::pair<TokenId, double>> choices;
  for (const SampledToken& token : tokens) choices.emplace_back(token.id, token.raw_logprob);
  return choices;
}

// A model that is opened, and an engine that is started, as often as wanted.
class EngineRig {
 protected:
  void OpenModel(const LoadOptions& options) {
    engine_.reset();
    model_.reset();
    Result<LoadedModel> model = LoadModel(options, nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
  }
  EngineConfig Config() const { return EngineConfigOf(model_->options, model_->context_tokens); }
  void Start(const EngineConfig& config) {
    engine_.reset();
    Result<std::unique_ptr<Engine>> engine = Engine::Make(*model_, config);
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    engine_ = *std::move(engine);
  }

  static GenerationRequest Request(std::vector<TokenId> prompt, int64_t max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 1.0;
    request.sampling.seed = 7;
    request.sampling.num_top_logprobs = 0;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  std::shared_ptr<Listener> Submit(GenerationRequest request) {
    auto listener = std::make_shared<Listener>();
    const Result<uint64_t> id = engine_->Submit(std::move(request), listener);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
    last_id_ = id.value_or(0);
    return listener;
  }
  // One step. Returns whether anything is left; requests may wait for the disk meanwhile.
  bool StepOnce() {
    const std::atomic<bool> cancel = false;
    const Result<bool> left = engine_->Step(cancel);
    EXPECT_TRUE(left.has_value()) << left.error().message;
    if (!left || !*left) return false;
    if (engine_->Status().running.empty()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }
  // Steps until nothing is left.
  void Drain() {
    for (int i = 0; i < 100000; ++i) {
      if (!StepOnce()) return;
    }
    FAIL() << "the engine does not come to an end";
  }
  // What a request gives on an engine of its own that caches nothing.
  std::vector<std::pair<TokenId, double>> Alone(const GenerationRequest& request) {
    EngineConfig config = Config();
    config.max_running = 1;
    config.kv_tokens = model_->context_tokens;
    config.prefix_cache = false;
    Result<std::unique_ptr<Engine>> engine = Engine::Make(*model_, config);
    EXPECT_TRUE(engine.has_value());
    auto listener = std::make_shared<Listener>();
    EXPECT_TRUE((*engine)->Submit(request, listener).has_value());
    const std::atomic<bool> cancel = false;
    while (true) {
      const Result<bool> left = (*engine)->Step(cancel);
      if (!left || !*left) break;
    }
    return Choices(listener->tokens);
  }
  void ExpectIdle() {
    const EngineStatus status = engine_->Status();
    EXPECT_EQ(status.blocks_owned, 0);
    EXPECT_EQ(status.running.size(), 0u);
    EXPECT_EQ(status.waiting_requests, 0);
    EXPECT_EQ(status.waiting_tokens, 0);
  }

  std::optional<LoadedModel> model_;
  std::unique_ptr<Engine> engine_;
  uint64_t last_id_ = 0;
};

// On a tiny model.
class EngineTest : public testing::Test, protected EngineRig {
 protected:
  static constexpr int64_t kContext = 448;

  void Open(int num_threads, int64_t chunk_tokens) {
    Open(num_threads, chunk_tokens, std::nullopt);
  }
  void Open(int num_threads, int64_t chunk_tokens, std::optional<SparsePolicy> policy) {
    OpenModel({.path = policy || wide_ ? wide_file_.path() : file_.path(),
               .kv_type = kv_type_,
               .isa = BestIsa(),
               .num_threads = num_threads,
               .context_tokens = kContext,
               .chunk_tokens = chunk_tokens,
               .prefill_policy = std::move(policy),
               .max_running = 4});
  }

  static std::vector<TokenId> Prompt(int64_t count, int64_t kind) {
    std::vector<TokenId> prompt;
    for (int64_t i = 0; i < count; ++i) {
      prompt.push_back(static_cast<TokenId>(kTinyFirstWord + (i * 7 + kind * (i % 5 + 1)) % 50));
    }
    return prompt;
  }

  const TinyFile file_{{.layers = 2, .sliding_window = 100}};
  // Without windows: what a sparse prefill leaves out matters.
  const TinyFile wide_file_{TinyModel{.layers = 2}};
  bool wide_ = false;
  KvType kv_type_ = KvType::kF16;
};

}  // namespace baton
