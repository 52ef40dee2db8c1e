// How evaluation of a template stops early: a private exception.
//
// Thrown only between the files template_*.cc and caught in template_engine.cc, which turns it into
// a Result; it never leaves this folder. An interpreter whose every operation can fail reads far
// better this way, and the values it holds are all RAII.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace baton::templates {

// A place in the template text, both counted from one; columns count characters.
struct Position {
  int line = 1;
  int column = 1;
};

enum class FailureKind {
  kSyntax,     // the template text itself
  kRender,     // an operation that its operands do not allow
  kRaised,     // the template called raise_exception
  kExhausted,  // a limit of TemplateLimits
};

struct TemplateFailure {
  FailureKind kind = FailureKind::kRender;
  std::string message;
  Position position;
  bool has_position = false;
};

// Stops the render with an error of the template's operands; the position is added on the way out.
[[noreturn]] inline void Raise(std::string message) {
  throw TemplateFailure{FailureKind::kRender, std::move(message), {}, false};
}

// Stops parsing with an error at a place.
[[noreturn]] inline void RaiseSyntax(Position position, std::string message) {
  throw TemplateFailure{FailureKind::kSyntax, std::move(message), position, true};
}

}  // namespace baton::templates
