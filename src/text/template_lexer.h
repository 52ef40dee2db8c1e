// Cuts a template into text and the tokens of its tags, applying white-space control.
//
// Follows Jinja with trim_blocks and lstrip_blocks: a block tag swallows the newline after it and
// the blanks before it on its line; `-` swallows all white space on its side, `+` nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_failure.h"
#include "text/template_value.h"

namespace baton::templates {

enum class TokenType : std::uint8_t {
  kData,           // text between tags
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;  // data, name, decoded string, or operator
  Value number;      // of kInteger and kFloat
  Position position;

  bool IsOperator(std::string_view op) const { return type == TokenType::kOperator && text == op; }
  bool IsName(std::string_view name) const { return type == TokenType::kName && text == name; }
};

// The tokens of the template, closed by one kEnd.
// Requires: valid UTF-8.
// Errors: throws TemplateFailure with the place of an unclosed or malformed tag.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace baton::templates
