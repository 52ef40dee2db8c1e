#include "text/template_engine.h"

#include <utility>

#include "text/template_ast.h"
#include "text/template_evaluation.h"
#include "text/template_failure.h"
#include "text/template_parser.h"
#include "text/template_unicode.h"

namespace baton {

namespace templates {

struct ParsedTemplate {
  Body body;
};

}  // namespace templates

namespace {

using templates::FailureKind;
using templates::TemplateFailure;

constexpr std::string_view kRefusal = "the chat template refuses this request: ";

std::string Place(const TemplateFailure& failure) {
  return "chat template, line " + std::to_string(failure.position.line) + ", column " +
         std::to_string(failure.position.column) + ": ";
}

tl::unexpected<Error> ToError(const TemplateFailure& failure) {
  switch (failure.kind) {
    case FailureKind::kRaised:
      return Fail(ErrorCode::kInvalid, std::string(kRefusal) + failure.message);
    case FailureKind::kExhausted:
      return Fail(ErrorCode::kExhausted, Place(failure) + failure.message);
    default:
      return Fail(ErrorCode::kInvalid, Place(failure) + failure.message);
  }
}

}  // namespace

Template::Template(std::shared_ptr<const templates::ParsedTemplate> parsed)
    : parsed_(std::move(parsed)) {}

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes)
    return Fail(ErrorCode::kExhausted,
                "the chat template is too large: " + std::to_string(source.size()) +
                    " bytes, at most " + std::to_string(kMaxSourceBytes));
  if (!templates::IsValidUtf8(source))
    return Fail(ErrorCode::kCorrupt, "the chat template is not valid UTF-8");
  try {
    auto parsed = std::make_shared<templates::ParsedTemplate>();
    parsed->body = templates::ParseTemplate(source);
    return Template(std::move(parsed));
  } catch (const TemplateFailure& failure) {
    return ToError(failure);
  }
}

Result<std::string> Template::Render(const TemplateInputs& inputs,
                                     const TemplateLimits& limits) const {
  try {
    templates::Evaluation evaluation(inputs, limits);
    return evaluation.Run(parsed_->body);
  } catch (const TemplateFailure& failure) {
    return ToError(failure);
  }
}

std::optional<std::string_view> RefusalWords(const Error& error) {
  const std::string_view message = error.message;
  if (!message.starts_with(kRefusal)) return std::nullopt;
  return message.substr(kRefusal.size());
}

}  // namespace baton
