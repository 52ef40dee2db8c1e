#include "serve/page_routes.h"

#include <algorithm>
#include <string>

namespace baton {
namespace {

// Nothing but the server's own files and answers; no page may frame this one.
constexpr std::string_view kSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'";

// Whether an If-None-Match names the tag. "W/" does not matter to it.
bool HasTag(std::string_view list, std::string_view tag) {
  return list == "*" || list.find(tag) != std::string_view::npos;
}

}  // namespace

const PageFile* FindPageFile(std::string_view path) {
  const std::span<const PageFile> files = PageFiles();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const PageFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

HttpResponse PageResponse(const PageFile& file, const HttpRequest& request) {
  HttpResponse response;
  response.fields = {{.name = "ETag", .value = std::string(file.etag)},
                     {.name = "Cache-Control", .value = "no-cache"},
                     {.name = "Content-Security-Policy", .value = std::string(kSecurityPolicy)},
                     {.name = "X-Content-Type-Options", .value = "nosniff"},
                     {.name = "Referrer-Policy", .value = "no-referrer"},
                     {.name = "Cross-Origin-Opener-Policy", .value = "same-origin"}};
  if (HasTag(request.Field("If-None-Match").value_or(""), file.etag)) {
    response.status = 304;
    return response;
  }
  response.fields.push_back({.name = "Content-Type", .value = std::string(file.type)});
  response.body = file.bytes;
  return response;
}

}  // namespace baton
