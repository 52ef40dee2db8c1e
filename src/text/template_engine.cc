// The language: expressions, filters, tests, macros, call, set, filter and with blocks, loops with
// else, if and recursion, break and continue, raw sections and generation blocks, as jinja2 3.1.6
// has them with trim_blocks and lstrip_blocks in its immutable sandbox.
//
// Where it differs, beyond the wording of errors:
// - Refused when parsed: block, extends, include, import, from, autoescape; filters and tests that
//   do not exist, also in branches that are never taken; \N{...} escapes. There are no cycler,
//   joiner and lipsum, and no filters random, pprint, striptags, urlize, wordwrap and xmlattr.
// - Filters that Python makes generators (map, select, items, ...) work at once, so their errors
//   come even if nobody takes their items. The printed form of functions and generators has no
//   address.
// - Integers beyond 2^120 are refused. Strings have no method that makes bytes.
// - from_json is there (json.loads), as some templates expect it.
#include "text/template_engine.h"

#include <utility>

#include "text/template_ast.h"
#include "text/template_evaluation.h"
#include "text/template_failure.h"
#include "text/template_parser.h"
#include "text/template_unicode.h"
#include "text/unicode.h"

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

bool IsPlausible(const CivilTime& t) {
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  return within(t.year, 1, 9999) && within(t.month, 1, 12) && within(t.day, 1, 31) &&
         within(t.hour, 0, 23) && within(t.minute, 0, 59) && within(t.second, 0, 60);
}

// A template may raise any text; what is longer than this is no message any more.
constexpr std::size_t kMaxMessageBytes = 2000;

std::string Shortened(const std::string& message) {
  if (message.size() <= kMaxMessageBytes) return message;
  std::size_t end = kMaxMessageBytes - 3;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80) --end;
  return message.substr(0, end) + "...";
}

tl::unexpected<Error> ToError(const TemplateFailure& failure) {
  const std::string message = Shortened(failure.message);
  switch (failure.kind) {
    case FailureKind::kRaised:
      return Fail(ErrorCode::kInvalid, std::string(kRefusal) + message);
    case FailureKind::kExhausted:
      return Fail(ErrorCode::kExhausted, Place(failure) + message);
    default:
      return Fail(ErrorCode::kInvalid, Place(failure) + message);
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
  if (!IsValidUtf8(source))
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
  if (inputs.now.has_value() && !IsPlausible(*inputs.now))
    return Fail(ErrorCode::kInvalid, "the time passed to the chat template is none");
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
