// Requests and responses of HTTP/1.1 as plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

struct HttpField {
  std::string name;
  std::string value;

  friend bool operator==(const HttpField&, const HttpField&) = default;
};

// A request as it came. The target is in origin form ("/path?query") or "*".
struct HttpRequest {
  std::string method;
  std::string target;
  bool is_http_1_0 = false;
  std::vector<HttpField> fields;
  std::string body;

  // The target before '?'. Percent-codes stay as they are.
  std::string_view path() const;
  // The value of the first field of this name, upper and lower case alike; nothing if there is
  // none.
  std::optional<std::string_view> Field(std::string_view name) const;
  // How many fields have this name.
  size_t CountFields(std::string_view name) const;
};

// A response with a body that is there as a whole; 204 and 304 have none. Content-Length and what
// concerns the connection is added by the server.
struct HttpResponse {
  int status = 200;
  std::vector<HttpField> fields;
  std::string body;
};

// The words behind a status: "Not Found".
std::string_view HttpStatusText(int status);

// Whether the words are equal but for upper and lower case of ASCII letters.
bool EqualFold(std::string_view a, std::string_view b);

// A response to a request that HTTP itself refuses: a line of text.
HttpResponse PlainTextResponse(int status, std::string text);

}  // namespace baton
