// What one render may use up; every loop and every new string is charged to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/template_engine.h"
#include "text/template_failure.h"

namespace baton::templates {

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}

  const TemplateLimits& limits() const { return limits_; }

  // Charges operations. Errors: throws TemplateFailure(kExhausted).
  void ChargeSteps(std::size_t count) {
    steps_ += count;
    if (steps_ > limits_.max_steps) Exhausted("steps", limits_.max_steps);
  }
  // Charges bytes of text that are about to be made; one value may also be too large by itself.
  // Errors: throws TemplateFailure(kExhausted).
  void ChargeBytes(std::size_t count) {
    CheckValue(count);
    work_bytes_ += count;
    if (work_bytes_ > limits_.max_work_bytes)
      Exhausted("bytes of text made", limits_.max_work_bytes);
  }
  // Charges bytes that are about to be put behind the first `so_far` bytes of a value.
  // Errors: throws TemplateFailure(kExhausted).
  void ChargeAppend(std::size_t so_far, std::size_t count) {
    CheckValue(so_far);
    CheckValue(count);
    CheckValue(so_far + count);
    ChargeBytes(count);
  }
  void CheckValue(std::size_t bytes) const {
    if (bytes > limits_.max_value_bytes) Exhausted("bytes in one value", limits_.max_value_bytes);
  }
  void CheckItems(std::size_t count) const {
    if (count > limits_.max_items) Exhausted("items in one list", limits_.max_items);
  }
  // Charges items of a list that is about to be made.
  // Errors: throws TemplateFailure(kExhausted).
  void ChargeItems(std::size_t count) {
    CheckItems(count);
    ChargeSteps(count);
  }
  void CheckOutput(std::size_t bytes) const {
    if (bytes > limits_.max_output_bytes) Exhausted("bytes of output", limits_.max_output_bytes);
  }

 private:
  [[noreturn]] static void Exhausted(const char* what, std::size_t limit);

  const TemplateLimits& limits_;
  std::size_t steps_ = 0;
  std::size_t work_bytes_ = 0;
};

}  // namespace baton::templates
