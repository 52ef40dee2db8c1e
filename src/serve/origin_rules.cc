#include "serve/origin_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode.h"

namespace baton {
namespace {

constexpr size_t kMaxHostBytes = 255;
// What pages send at least, if a browser does not say.
constexpr std::string_view kUsualFields = "authorization, content-type";

// The names that a browser asks for, if they are names with commas between them.
std::string_view WantedFields(const HttpRequest& request) {
  const std::string_view wanted =
      request.Field("Access-Control-Request-Headers").value_or(kUsualFields);
  const bool is_list = std::ranges::all_of(wanted, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  });
  return is_list && !wanted.empty() ? wanted : kUsualFields;
}

// "name:port" without its port; "[::1]:80" without brackets, too.
std::string_view NameOf(std::string_view authority) {
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    return end == std::string_view::npos ? authority : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

// The host and port of an origin; empty for "null" and the like.
std::string_view AuthorityOf(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool HasName(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& known) { return EqualFold(known, name); });
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  if (EqualFold(host, "localhost") || host == "::1") return true;
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<> Validate(const OriginRules& rules) {
  for (const std::string& origin : rules.origins) {
    const std::string_view authority = AuthorityOf(origin);
    const bool is_web = origin.starts_with("http://") || origin.starts_with("https://");
    if (is_web && !authority.empty() && authority.find_first_of("/*?# ") == authority.npos)
      continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("an origin is scheme://host or scheme://host:port, exactly as browsers "
                            "send it, not '{}'",
                            origin));
  }
  return {};
}

Result<std::string> ParseAllowedHost(std::string_view given) {
  const bool has_brackets = given.size() > 2 && given.starts_with('[') && given.ends_with(']');
  const std::string_view name = has_brackets ? given.substr(1, given.size() - 2) : given;
  // One colon is a port's, several are those of an IPv6 address.
  const bool has_port = std::ranges::count(name, ':') == 1;
  const bool is_name = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; }) &&
                       name.find_first_of("/*?#@[],") == std::string_view::npos;
  if (!name.empty() && name.size() <= kMaxHostBytes && is_name && !has_port) {
    return std::string(name);
  }
  return Fail(ErrorCode::kInvalid,
              fmt::format("takes the name of a host without scheme and port (any port matches), "
                          "not '{}'",
                          ReplaceInvalidUtf8(given.substr(0, kMaxHostBytes))));
}

OriginVerdict JudgeOrigin(const OriginRules& rules, const HttpRequest& request) {
  const std::string_view host = request.Field("Host").value_or("");
  const std::string_view name = NameOf(host);
  if (rules.is_loopback && !host.empty() && !IsLoopbackHost(name) && !HasName(rules.hosts, name)) {
    return OriginVerdict::kWrongHost;
  }
  if (request.CountFields("Origin") == 0) return OriginVerdict::kPlain;
  if (request.CountFields("Origin") > 1) return OriginVerdict::kForeign;
  const std::string_view origin = *request.Field("Origin");
  if (HasName(rules.origins, origin)) return OriginVerdict::kAllowed;
  const std::string_view authority = AuthorityOf(origin);
  const bool is_own = !authority.empty() && EqualFold(authority, host);
  return is_own ? OriginVerdict::kPlain : OriginVerdict::kForeign;
}

std::vector<HttpField> CorsFields(OriginVerdict verdict, const HttpRequest& request) {
  if (verdict != OriginVerdict::kAllowed) return {};
  return {{.name = "Access-Control-Allow-Origin",
           .value = std::string(request.Field("Origin").value_or(""))},
          {.name = "Vary", .value = "Origin"}};
}

HttpResponse PreflightResponse(OriginVerdict verdict, const HttpRequest& request,
                               std::string_view methods) {
  HttpResponse response{.status = 204, .fields = CorsFields(verdict, request), .body = {}};
  response.fields.push_back({.name = "Allow", .value = std::string(methods)});
  if (verdict != OriginVerdict::kAllowed) return response;
  response.fields.push_back(
      {.name = "Access-Control-Allow-Methods", .value = std::string(methods)});
  response.fields.push_back(
      {.name = "Access-Control-Allow-Headers", .value = std::string(WantedFields(request))});
  response.fields.push_back({.name = "Access-Control-Max-Age", .value = "600"});
  return response;
}

}  // namespace baton
