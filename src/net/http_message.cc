#include "net/http_message.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

char LowerAscii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string_view HttpRequest::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::optional<std::string_view> HttpRequest::Field(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (EqualFold(field.name, name)) return field.value;
  }
  return std::nullopt;
}

size_t HttpRequest::CountFields(std::string_view name) const {
  return static_cast<size_t>(std::count_if(
      fields.begin(), fields.end(), [&](const HttpField& f) { return EqualFold(f.name, name); }));
}

std::string_view HttpStatusText(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

bool EqualFold(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerAscii(x) == LowerAscii(y); });
}

HttpResponse PlainTextResponse(int status, std::string text) {
  text += '\n';
  return {.status = status,
          .fields = {{.name = "Content-Type", .value = "text/plain; charset=utf-8"}},
          .body = std::move(text)};
}

}  // namespace baton
