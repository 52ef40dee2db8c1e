#include "engine/generator.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "engine/memory_needs.h"

namespace baton {
namespace {

constexpr uint64_t kSession = 1;

// Hands on what the engine tells, and keeps the end.
class LastWord final : public RequestObserver {
 public:
  explicit LastWord(GenerationObserver& observer) : observer_(observer) {}

  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override {
    observer_.OnPrefill(done_tokens, total_tokens);
  }
  void OnToken(const SampledToken& token) override { observer_.OnToken(token); }
  void OnText(std::string_view text) override { observer_.OnText(text); }
  void OnDone(Result<GenerationResult> result) override { result_ = std::move(result); }

  std::optional<Result<GenerationResult>>& result() { return result_; }

 private:
  GenerationObserver& observer_;
  std::optional<Result<GenerationResult>> result_;
};

}  // namespace

Result<Generator> Generator::Make(LoadedModel& model) {
  EngineConfig config = EngineConfigOf(model.options, model.context_tokens);
  // The session has the whole sequence, down to the token.
  config.prefix_cache = false;
  Result<std::unique_ptr<Engine>> engine = Engine::Make(model, config);
  if (!engine) return Forward(engine);
  return Generator(*std::move(engine));
}

Result<GenerationResult> Generator::Generate(const GenerationRequest& request,
                                             GenerationObserver& observer,
                                             const std::atomic<bool>& cancel) {
  CHECK_EQ(request.session, 0u);
  GenerationRequest in_session = request;
  in_session.session = kSession;
  const auto last_word = std::make_shared<LastWord>(observer);
  const Result<uint64_t> id = engine_->Submit(std::move(in_session), last_word);
  if (!id) return Forward(id);
  while (!last_word->result().has_value()) {
    if (cancel.load(std::memory_order_relaxed)) engine_->Cancel(*id);
    if (Result<bool> step = engine_->Step(cancel); !step) return Forward(step);
  }
  return *std::move(last_word->result());
}

Result<> Generator::Logits(
    const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
    const std::function<void(int64_t position, std::span<const float> logits)>& visit,
    const std::atomic<bool>& cancel) {
  return engine_->Logits(tokens, positions, visit, cancel);
}

void Generator::Reset() {
  engine_->DropSession(kSession);
}

Result<> Generator::SaveCache(const std::string& path,
                              const SavedSequenceProgress& progress) const {
  return engine_->SaveSession(kSession, path, progress);
}

Result<> Generator::LoadCache(const std::string& path, const SavedSequenceProgress& progress) {
  return engine_->LoadSession(kSession, path, progress);
}

int64_t Generator::cached_tokens() const {
  return engine_->SessionTokens(kSession);
}

}  // namespace baton
