// Who makes the tokens: the engine, or a script in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace baton {

// As Engine's functions of these names. Threads: any.
class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;
  virtual Result<uint64_t> Submit(GenerationRequest request,
                                  std::shared_ptr<RequestObserver> observer) = 0;
  virtual Result<> CheckPrefill(const PrefillWish& wish) const = 0;
  virtual void Cancel(uint64_t id) = 0;
  virtual EngineStatus Status() const = 0;
};

// Requires: the engine outlives it.
class EngineBackend final : public GenerationBackend {
 public:
  explicit EngineBackend(Engine& engine) : engine_(engine) {}
  Result<uint64_t> Submit(GenerationRequest request,
                          std::shared_ptr<RequestObserver> observer) override {
    return engine_.Submit(std::move(request), std::move(observer));
  }
  Result<> CheckPrefill(const PrefillWish& wish) const override {
    return engine_.CheckPrefill(wish);
  }
  void Cancel(uint64_t id) override { engine_.Cancel(id); }
  EngineStatus Status() const override { return engine_.Status(); }

 private:
  Engine& engine_;
};

}  // namespace baton
