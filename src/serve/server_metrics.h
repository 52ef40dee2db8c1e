// What Prometheus reads of the server (contract O-4). All names begin with "baton_".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "engine/generation.h"

namespace baton {

// Threads: any; Text one at a time.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // A generated token came so long after the one before it. Quick: the engine's thread calls it.
  void NoteTokenGap(double seconds);
  // A choice ended; its figures count as far as it came.
  void NoteGeneration(const GenerationFigures& figures);
  // A request of the API ended: "ok", "client_gone", "error", "refused".
  void NoteRequest(std::string_view outcome);

  // The text format, version 0.0.4, with what the engine says now. Null: no engine yet.
  std::string Text(const EngineStatus* status, int64_t num_connections);

 private:
  struct Parts;
  void NotePrefill(const std::optional<PrefillReport>& report);
  std::unique_ptr<Parts> parts_;
};

}  // namespace baton
