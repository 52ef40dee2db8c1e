// What the server can be asked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton {

enum class Route : std::uint8_t {
  kChatCompletions,
  kCompletions,
  kModels,
  kModel,  // /v1/models/ID
  kTokenize,
  kDetokenize,
  kHealth,
  kLive,
  kReady,
  kMetrics,
  kOpenApi,
  kStatus,
  kPage,  // "/" and below "/page/"
};

struct RouteRow {
  Route route;
  std::string_view path;
  bool is_post;  // else GET and HEAD
  bool is_open;  // needs no key
};

// All routes of the API; that of kModel is a prefix.
std::span<const RouteRow> Routes();

// The ID of "/v1/models/ID", its percent-codes read ("org%2Fmodel"): clients write a name so. What
// is no code stays as it is. Requires: a path of kModel.
std::string ModelOfPath(std::string_view path);

// The route of a path, exactly as written: no percent-codes, no doubled or trailing slashes, no
// other case. The page's files (page_routes.h) are routes, too. Nothing if there is none.
std::optional<RouteRow> FindRoute(std::string_view path);

// What a path takes, as Allow lists it; of no path, what any takes.
std::string_view MethodsOf(const std::optional<RouteRow>& row);

// The path of the API that one which is no route was meant for: "/v1" is missing, doubled or too
// much, slashes are doubled or trail, capitals, or two letters differ. Nothing if none is that
// near.
std::optional<std::string> NearPath(std::string_view path);

}  // namespace baton
