// Fields that other servers know, that change the answer, and that Baton does not have: whoever
// sends one is told so, instead of being answered as if it were not there.
#pragma once

#include <span>
#include <string_view>

#include "serve/api_error.h"
#include "serve/json_body.h"

namespace baton {

struct UnsupportedField {
  std::string_view name;
  // The value that asks for nothing, as JSON, and is taken besides null, "" and []; empty: none.
  std::string_view off = {};
};

// In the order of their names; docs/serve.md lists them.
std::span<const UnsupportedField> UnsupportedFields();

// Errors: 400 with the name of the first that asks for something.
ApiResult<> RefuseFields(const JsonFields& fields);

}  // namespace baton
