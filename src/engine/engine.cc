#include "engine/engine.h"

#include <limits>
#include <utility>

#include "engine/engine_loop.h"

namespace baton {

Engine::Engine(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Engine::~Engine() {
  loop_->EndAll();
}

Result<std::unique_ptr<Engine>> Engine::Make(LoadedModel& model, const EngineConfig& config) {
  Result<std::unique_ptr<Loop>> loop = Loop::Make(model, config);
  if (!loop) return Forward(loop);
  return std::unique_ptr<Engine>(new Engine(*std::move(loop)));
}

const EngineConfig& Engine::config() const {
  return loop_->config();
}

const LoadedModel& Engine::model() const {
  return loop_->model();
}

Result<uint64_t> Engine::Submit(GenerationRequest request,
                                std::shared_ptr<RequestObserver> observer) {
  return loop_->Submit(std::move(request), std::move(observer));
}

Result<> Engine::CheckPrefill(const PrefillWish& wish) const {
  const Result<std::optional<SparsePolicy>> policy =
      loop_->PolicyFor(wish, std::numeric_limits<int64_t>::max());
  return policy ? Result<>() : Forward(policy);
}

void Engine::Cancel(uint64_t id) {
  loop_->inbox().Cancel(id);
}

EngineStatus Engine::Status() const {
  return loop_->Status();
}

void Engine::TakeCacheMemory() {
  loop_->TakeCacheMemory();
}

Result<> Engine::Calibrate() {
  return loop_->Calibrate();
}

void Engine::SetTimeModel(const StepTimeModel& model) {
  loop_->SetTimeModel(model);
}

const StepTimeModel& Engine::time_model() const {
  return loop_->time_model();
}

Result<bool> Engine::Step(const std::atomic<bool>& cancel) {
  return loop_->Step(cancel);
}

Result<> Engine::Run() {
  return loop_->Run();
}

void Engine::OnDiskProblem(std::function<void(const std::string& message)> listener) {
  loop_->OnDiskProblem(std::move(listener));
}

void Engine::Stop(bool drain) {
  loop_->inbox().Stop(drain);
}

Result<> Engine::Logits(
    const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
    const std::function<void(int64_t position, std::span<const float> logits)>& visit,
    const std::atomic<bool>& cancel) {
  return loop_->Logits(tokens, positions, visit, cancel);
}

int64_t Engine::SessionTokens(uint64_t session) const {
  const KeptSequence* kept = loop_->sessions().Find(session);
  return kept == nullptr ? 0 : kept->ledger.computed;
}

Result<> Engine::SaveSession(uint64_t session, const std::string& path,
                             const SavedSequenceProgress& progress) const {
  return loop_->SaveSession(session, path, progress);
}

Result<> Engine::LoadSession(uint64_t session, const std::string& path,
                             const SavedSequenceProgress& progress) {
  return loop_->LoadSession(session, path, progress);
}

void Engine::DropSession(uint64_t session) {
  (void)loop_->sessions().Take(session);
}

}  // namespace baton
