#include "serve/routes.h"

#include "serve/page_routes.h"

namespace baton {
namespace {

constexpr RouteRow kRoutes[] = {
    {Route::kChatCompletions, "/v1/chat/completions", true, false},
    {Route::kCompletions, "/v1/completions", true, false},
    {Route::kModels, "/v1/models", false, false},
    {Route::kModel, "/v1/models/", false, false},
    {Route::kTokenize, "/tokenize", true, false},
    {Route::kDetokenize, "/detokenize", true, false},
    {Route::kHealth, "/health", false, true},
    {Route::kLive, "/livez", false, true},
    {Route::kReady, "/readyz", false, true},
    {Route::kMetrics, "/metrics", false, false},
    {Route::kOpenApi, "/openapi.json", false, false},
    {Route::kStatus, "/status", false, false},
};

}  // namespace

std::span<const RouteRow> Routes() {
  return kRoutes;
}

std::optional<RouteRow> FindRoute(std::string_view path) {
  for (const RouteRow& row : kRoutes) {
    if (path == row.path && row.route != Route::kModel) return row;
    const bool is_below = row.route == Route::kModel && path.size() > row.path.size() &&
                          path.starts_with(row.path) &&
                          path.find('/', row.path.size()) == std::string_view::npos;
    if (is_below) return row;
  }
  const PageFile* page = FindPageFile(path);
  if (page == nullptr) return std::nullopt;
  return RouteRow{.route = Route::kPage, .path = page->path, .is_post = false, .is_open = true};
}

std::string_view MethodsOf(const std::optional<RouteRow>& row) {
  if (!row) return "GET, HEAD, POST, OPTIONS";
  return row->is_post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

}  // namespace baton
