// The description of the server's API that it publishes at /openapi.json.
#pragma once

#include <string>

namespace baton {

// OpenAPI 3.1, one JSON text.
std::string OpenApiText();

}  // namespace baton
