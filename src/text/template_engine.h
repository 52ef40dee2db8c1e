// Renders chat templates: the part of the Jinja language that they use, with Jinja's results.
//
// A template sees the values it is given and nothing else: no files, no environment, no clock but
// the time passed in, no attributes beyond the data. It cannot change the data, and every render
// has a budget. What the language offers and where it differs from Jinja is in template_engine.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/template_value.h"

namespace baton {

// A moment in some time zone's calendar, for strftime_now.
struct CivilTime {
  int year = 1970;
  int month = 1;  // from 1
  int day = 1;    // from 1
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// Reads "2024-07-26" or "2024-07-26T14:03:09" (a blank may stand for the T).
// Errors: kInvalid for anything else, and for dates that do not exist.
Result<CivilTime> ParseCivilTime(std::string_view text);

// The most that one template and one render may use.
struct TemplateLimits {
  std::size_t max_steps = 5'000'000;          // operations
  std::size_t max_output_bytes = 16UL << 20;  // of the result
  std::size_t max_value_bytes = 16UL << 20;   // of one string
  std::size_t max_work_bytes = 512UL << 20;   // of all strings made on the way
  std::size_t max_items = 500'000;            // of one list
  std::size_t max_range = 100'000;            // of range()
  int max_depth = 1'500;                      // operations inside operations, macros included
};

// What a template is given.
struct TemplateInputs {
  std::vector<std::pair<std::string, templates::Value>> variables;
  std::optional<CivilTime> now;  // without it strftime_now fails
};

namespace templates {
struct ParsedTemplate;
}

// A parsed template.
// Threads: immutable; any number may render it at once.
class Template {
 public:
  // Template texts larger than this are refused.
  static constexpr std::size_t kMaxSourceBytes = 1UL << 20;

  // Errors: kInvalid with line and column for bad syntax and for statements, filters and tests that
  // do not exist; kExhausted for a text that is too large; kCorrupt for one that is not UTF-8.
  static Result<Template> Parse(std::string_view source);

  // The template's text for these inputs.
  // Errors: kInvalid where the template refuses the inputs (the message then ends with the
  // template's own words, RefusalWords gives them) or uses them in a way that they do not allow
  // (with line and column); kExhausted where a limit is reached.
  Result<std::string> Render(const TemplateInputs& inputs, const TemplateLimits& limits) const;

 private:
  explicit Template(std::shared_ptr<const templates::ParsedTemplate> parsed);

  std::shared_ptr<const templates::ParsedTemplate> parsed_;  // shared by copies of the Template
};

// What the template said with raise_exception, if that is why Render failed.
std::optional<std::string_view> RefusalWords(const Error& error);

}  // namespace baton
