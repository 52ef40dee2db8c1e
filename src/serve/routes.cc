#include "serve/routes.h"

#include <algorithm>

#include "base/near_match.h"
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

// 0 to 15; -1: no such digit.
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The path with one slash between two names, and without "/v1".
std::string WithoutVersion(std::string_view path) {
  std::string plain;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (!name.empty() && name != "v1" && name != "V1") plain.append("/").append(name);
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return plain;
}

bool IsOfApi(std::string_view path) {
  const std::optional<RouteRow> row = FindRoute(path);
  return row.has_value() && row->route != Route::kPage;
}

}  // namespace

std::span<const RouteRow> Routes() {
  return kRoutes;
}

std::string ModelOfPath(std::string_view path) {
  path.remove_prefix(std::string_view("/v1/models/").size());
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    const int high = path[i] == '%' && i + 2 < path.size() ? HexDigit(path[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(path[i + 2]) : -1;
    name.push_back(low >= 0 ? static_cast<char>(high * 16 + low) : path[i]);
    if (low >= 0) i += 2;
  }
  return name;
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

std::optional<std::string> NearPath(std::string_view path) {
  constexpr size_t kMaxBytes = 200;
  constexpr int kMaxEdits = 2;
  if (path.size() > kMaxBytes) return std::nullopt;
  std::string plain = WithoutVersion(path);
  for (const std::string& candidate : {"/v1" + plain, plain}) {
    if (IsOfApi(candidate)) return candidate;
  }
  std::transform(plain.begin(), plain.end(), plain.begin(), Lower);
  const RouteRow* nearest = nullptr;
  int fewest = kMaxEdits + 1;
  for (const RouteRow& row : kRoutes) {
    const int edits = EditDistance(plain, WithoutVersion(row.path));
    if (row.route == Route::kModel || edits >= fewest) continue;
    nearest = &row;
    fewest = edits;
  }
  if (nearest == nullptr) return std::nullopt;
  return std::string(nearest->path);
}

}  // namespace baton
