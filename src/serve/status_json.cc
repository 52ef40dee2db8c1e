#include "serve/status_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/number_text.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json RequestsJson(const EngineStatus& status) {
  Json requests = Json::array();
  for (const EngineStatus::Running& running : status.running) {
    requests.push_back({{"id", running.label},
                        {"number", running.id},
                        {"phase", running.is_prefill ? "prefill" : "decode"},
                        {"age_seconds", ReportedSeconds(running.age_seconds)},
                        {"prompt_tokens", running.prompt_tokens},
                        {"cached_tokens", running.cached_tokens},
                        {"computed_tokens", running.computed_tokens},
                        {"generated_tokens", running.generated_tokens},
                        {"kv_blocks", running.blocks}});
  }
  for (const EngineStatus::Waiting& waiting : status.waiting) {
    requests.push_back({{"id", waiting.label},
                        {"number", waiting.id},
                        {"phase", "waiting"},
                        {"age_seconds", ReportedSeconds(waiting.age_seconds)},
                        {"prompt_tokens", waiting.prompt_tokens},
                        {"cached_tokens", 0},
                        {"computed_tokens", 0},
                        {"generated_tokens", waiting.generated_tokens},
                        {"kv_blocks", 0}});
  }
  return requests;
}

}  // namespace

std::string StatusJson(const StatusHead& head, const EngineStatus* status) {
  Json json = {
      {"state", head.state}, {"model", head.model}, {"context_tokens", head.context_tokens}};
  if (status != nullptr) {
    json["max_running"] = status->max_running;
    json["running"] = status->running.size();
    json["waiting"] = status->waiting_requests;
    json["waiting_tokens"] = status->waiting_tokens;
    json["requests"] = RequestsJson(*status);
    json["kv"] = {{"type", status->kv_type},
                  {"block_tokens", status->block_tokens},
                  {"blocks", status->blocks_owned + status->blocks_cached + status->blocks_free},
                  {"owned", status->blocks_owned},
                  {"cached", status->blocks_cached},
                  {"free", status->blocks_free}};
    json["rates"] = {{"seconds", ReportedSeconds(status->rates.seconds)},
                     {"prefill_tokens_per_second", ReportedRate(status->rates.prompt)},
                     {"decode_tokens_per_second", ReportedRate(status->rates.generated)}};
    json["totals"] = {{"steps", status->steps},
                      {"finished_requests", status->finished_requests},
                      {"prompt_tokens", status->prompt_tokens},
                      {"generated_tokens", status->generated_tokens},
                      {"prefix_hit_tokens", status->prefix_hit_tokens},
                      {"preemptions", status->preemptions}};
  }
  return JsonLine(json);
}

}  // namespace baton
