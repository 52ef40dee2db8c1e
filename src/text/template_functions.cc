// range, dict, namespace, raise_exception and strftime_now, and the table of their names.
#include "text/template_functions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_print.h"
#include "text/template_time.h"

namespace baton::templates {
namespace {

Value Range(Evaluation& evaluation, const Arguments& arguments) {
  if (!arguments.named.empty()) Raise("range() takes no keyword arguments");
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3) Raise("range expected 1 to 3 arguments");
  const Integer start = given.size() == 1 ? 0 : IndexOf(given[0]);
  const Integer stop = IndexOf(given[given.size() == 1 ? 0 : 1]);
  const Integer step = given.size() == 3 ? IndexOf(given[2]) : 1;
  if (step == 0) Raise("range() arg 3 must not be zero");
  Integer count = 0;
  if (step > 0 && stop > start) count = (stop - start + step - 1) / step;
  if (step < 0 && stop < start) count = (start - stop - step - 1) / -step;
  const std::size_t limit = evaluation.budget().limits().max_range;
  if (count > static_cast<Integer>(limit))
    throw TemplateFailure{
        FailureKind::kExhausted,
        "Range too big. The sandbox blocks ranges larger than " + std::to_string(limit),
        {},
        false};
  evaluation.budget().ChargeItems(static_cast<std::size_t>(count));
  Sequence sequence{.flavor = Flavor::kRange, .items = {}};
  for (Integer i = 0; i < count; ++i) sequence.items.push_back(Value::Int(start + i * step));
  sequence.label = "range(" + IntegerText(start) + ", " + IntegerText(stop) +
                   (step == 1 ? "" : ", " + IntegerText(step)) + ")";
  return Value::Of(std::move(sequence));
}

// The entries of dict(x, **named): x a mapping or pairs.
Dict MakeDict(Evaluation& evaluation, const Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1)
    Raise(std::string(function) + "() takes one argument at most");
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      evaluation.budget().ChargeItems(source.dict().size());
      dict = source.dict();
    } else {
      for (const Value& pair : evaluation.Items(source)) {
        const std::vector<Value> parts = evaluation.Items(pair);
        if (parts.size() != 2) Raise("a dict is made of pairs");
        dict.Set(parts[0], parts[1]);
      }
    }
  }
  evaluation.budget().ChargeItems(arguments.named.size());
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  return dict;
}

Value MakeDictValue(Evaluation& evaluation, const Arguments& arguments) {
  return Value::Of(MakeDict(evaluation, arguments, "dict"));
}

Value MakeNamespace(Evaluation& evaluation, const Arguments& arguments) {
  Namespace* object = evaluation.NewNamespace();
  const Dict dict = MakeDict(evaluation, arguments, "namespace");
  for (const auto& [key, value] : dict.entries())
    if (key.is_string()) object->attributes.emplace_back(key.string(), value);
  return Value::Of(object);
}

Value RaiseException(Evaluation& evaluation, const Arguments& arguments) {
  const BoundArguments bound(arguments, "raise_exception", {"message"}, 1);
  throw TemplateFailure{FailureKind::kRaised, evaluation.Text(bound[0]), {}, false};
}

Value StrftimeNow(Evaluation& evaluation, const Arguments& arguments) {
  const BoundArguments bound(arguments, "strftime_now", {"format"}, 1);
  if (!evaluation.inputs().now.has_value()) Raise("strftime_now: no time was passed in");
  const std::string& format = bound.Text(0);
  evaluation.budget().ChargeBytes(format.size() * 16);
  return Value::String(FormatTime(*evaluation.inputs().now, format));
}

struct Entry {
  std::string_view name;
  Value (*function)(Evaluation&, const Arguments&);
};
constexpr std::array<Entry, 5> kFunctions = {{{"range", Range},
                                              {"dict", MakeDictValue},
                                              {"namespace", MakeNamespace},
                                              {"raise_exception", RaiseException},
                                              {"strftime_now", StrftimeNow}}};

}  // namespace

std::optional<Value> GlobalFunction(std::string_view name) {
  for (std::size_t i = 0; i < kFunctions.size(); ++i)
    if (kFunctions[i].name == name) return Value::Function(static_cast<int>(i));
  return std::nullopt;
}

Value CallFunction(Evaluation& evaluation, int function_id, const Arguments& arguments) {
  return kFunctions[static_cast<std::size_t>(function_id)].function(evaluation, arguments);
}

}  // namespace baton::templates
