// Which web pages may talk to the server (CORS), and under which names it may be called.
//
// A browser sends the Origin of the page with what a page's scripts ask. Nothing but the server's
// own pages and the origins that were configured may ask. A page whose name was made to resolve to
// this machine (DNS rebinding) would count as the server's own, so a server that listens on
// loopback answers only to loopback's names and to those configured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_message.h"

namespace baton {

struct OriginRules {
  std::vector<std::string> origins;  // "https://chat.example"
  std::vector<std::string> hosts;    // "llm.example", besides loopback's own names
  bool is_loopback = true;           // where the server listens
};

// Errors: invalid: an origin that is not scheme://host[:port], "*" included.
Result<> Validate(const OriginRules& rules);

// A name as --allowed-host gives it, without the brackets of an IPv6 address. Errors: invalid:
// empty, or with a port, a scheme, a path or a pattern, so that no Host would ever match.
Result<std::string> ParseAllowedHost(std::string_view given);

enum class OriginVerdict {
  kPlain,      // no page asks, or the server's own
  kAllowed,    // a page of a configured origin
  kForeign,    // any other page
  kWrongHost,  // a name that this server does not go by
};
OriginVerdict JudgeOrigin(const OriginRules& rules, const HttpRequest& request);

// What a response to an allowed page says. Nothing for others.
std::vector<HttpField> CorsFields(OriginVerdict verdict, const HttpRequest& request);

// The answer to a browser's question before a request: OPTIONS, without a key. An allowed page may
// send the fields that it asks for, whatever they are called. `methods`: what the path takes, as
// Allow lists it.
HttpResponse PreflightResponse(OriginVerdict verdict, const HttpRequest& request,
                               std::string_view methods);

// Whether an address is one of loopback's: "127.0.0.1", "::1", "localhost".
bool IsLoopbackHost(std::string_view host);

}  // namespace baton
