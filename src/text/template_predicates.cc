// One small function per test, and the table of their names.
#include "text/template_predicates.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_filters.h"
#include "text/template_operators.h"
#include "text/template_string_methods.h"
#include "text/template_table.h"

namespace baton::templates {
namespace {

using Subject = const Value&;
using Args = const Arguments&;

void NoArguments(std::string_view name, Args arguments) {
  (void)BoundArguments(arguments, name, {}, 0);
}

bool Defined(Evaluation&, Subject v, Args a) {
  return NoArguments("defined", a), !v.is_undefined();
}
bool IsUndefined(Evaluation&, Subject v, Args a) {
  return NoArguments("undefined", a), v.is_undefined();
}
bool IsNone(Evaluation&, Subject v, Args a) {
  return NoArguments("none", a), v.is_none();
}
bool IsBoolean(Evaluation&, Subject v, Args a) {
  return NoArguments("boolean", a), v.is(Kind::kBool);
}
bool IsTrue(Evaluation&, Subject v, Args a) {
  return NoArguments("true", a), v.is(Kind::kBool) && v.boolean();
}
bool IsFalse(Evaluation&, Subject v, Args a) {
  return NoArguments("false", a), v.is(Kind::kBool) && !v.boolean();
}
bool IsInteger(Evaluation&, Subject v, Args a) {
  return NoArguments("integer", a), v.is(Kind::kInt);
}
bool IsFloat(Evaluation&, Subject v, Args a) {
  return NoArguments("float", a), v.is(Kind::kFloat);
}
bool IsNumberTest(Evaluation&, Subject v, Args a) {
  return NoArguments("number", a), v.is_number();
}
bool IsStringTest(Evaluation&, Subject v, Args a) {
  return NoArguments("string", a), v.is_string();
}
bool IsMapping(Evaluation&, Subject v, Args a) {
  return NoArguments("mapping", a), v.is(Kind::kDict);
}
bool IsEscaped(Evaluation&, Subject v, Args a) {
  return NoArguments("escaped", a), v.is_markup();
}

bool IsCallable(Evaluation&, Subject v, Args a) {
  NoArguments("callable", a);
  return v.is(Kind::kMacro) || v.is(Kind::kFunction) || v.is(Kind::kMethod) || v.is(Kind::kLoop) ||
         v.is_undefined();
}

bool IsIterable(Evaluation&, Subject v, Args a) {
  NoArguments("iterable", a);
  return v.is_string() || v.is(Kind::kSequence) || v.is(Kind::kDict) || v.is(Kind::kLoop) ||
         v.is_undefined();
}

bool IsSequence(Evaluation&, Subject v, Args a) {
  NoArguments("sequence", a);
  if (v.is(Kind::kSequence)) return v.is_list_or_tuple() || v.sequence().flavor == Flavor::kRange;
  return v.is_string() || v.is(Kind::kDict) || v.is_undefined();
}

bool IsCase(Evaluation& evaluation, Subject v, std::string method) {
  const Value text = Value::String(evaluation.Text(v));
  return CallStringMethod(evaluation, BoundMethod{text, std::move(method)}, Arguments{}).boolean();
}

bool IsLowerTest(Evaluation& evaluation, Subject v, Args a) {
  NoArguments("lower", a);
  return IsCase(evaluation, v, "islower");
}

bool IsUpperTest(Evaluation& evaluation, Subject v, Args a) {
  NoArguments("upper", a);
  return IsCase(evaluation, v, "isupper");
}

Integer Modulo(Evaluation& evaluation, Subject v, Subject by) {
  const Value rest = Binary(evaluation, '%', v, by);
  if (rest.is_integral()) return rest.integer();
  return rest.is(Kind::kFloat) && rest.floating() == 1 ? 1 : Equal(rest, Value::Int(0)) ? 0 : 2;
}

bool IsOdd(Evaluation& evaluation, Subject v, Args a) {
  NoArguments("odd", a);
  return Modulo(evaluation, v, Value::Int(2)) == 1;
}
bool IsEven(Evaluation& evaluation, Subject v, Args a) {
  NoArguments("even", a);
  return Modulo(evaluation, v, Value::Int(2)) == 0;
}
bool IsDivisibleBy(Evaluation& evaluation, Subject v, Args a) {
  const BoundArguments bound(a, "divisibleby", {"num"}, 1);
  return Modulo(evaluation, v, bound[0]) == 0;
}

bool IsSameAs(Evaluation&, Subject v, Args a) {
  const BoundArguments bound(a, "sameas", {"other"}, 1);
  const Value& other = bound[0];
  if (v.kind() != other.kind()) return false;
  switch (v.kind()) {
    case Kind::kSequence:
    case Kind::kDict:
      return v.identity() == other.identity();
    default:
      return Equal(v, other);
  }
}

bool IsIn(Evaluation& evaluation, Subject v, Args a) {
  const BoundArguments bound(a, "in", {"seq"}, 1);
  return Contains(evaluation, bound[0], v);
}

template <CompareOp op>
bool Compares(Evaluation& evaluation, Subject v, Args a) {
  const BoundArguments bound(a, "comparison", {"other"}, 1);
  return Compare(evaluation, op, v, bound[0]);
}

bool IsFilterName(Evaluation&, Subject v, Args a) {
  NoArguments("filter", a);
  return v.is_string() && FindFilter(v.string()) != nullptr;
}
bool IsTestName(Evaluation&, Subject v, Args a) {
  NoArguments("test", a);
  return v.is_string() && FindPredicate(v.string()) != nullptr;
}

constexpr std::array<PredicateEntry, 39> kPredicates = {{
    {"defined", Defined},
    {"undefined", IsUndefined},
    {"none", IsNone},
    {"boolean", IsBoolean},
    {"true", IsTrue},
    {"false", IsFalse},
    {"integer", IsInteger},
    {"float", IsFloat},
    {"number", IsNumberTest},
    {"string", IsStringTest},
    {"mapping", IsMapping},
    {"escaped", IsEscaped},
    {"callable", IsCallable},
    {"iterable", IsIterable},
    {"sequence", IsSequence},
    {"lower", IsLowerTest},
    {"upper", IsUpperTest},
    {"odd", IsOdd},
    {"even", IsEven},
    {"divisibleby", IsDivisibleBy},
    {"sameas", IsSameAs},
    {"in", IsIn},
    {"filter", IsFilterName},
    {"test", IsTestName},
    {"eq", Compares<CompareOp::kEq>},
    {"equalto", Compares<CompareOp::kEq>},
    {"==", Compares<CompareOp::kEq>},
    {"ne", Compares<CompareOp::kNe>},
    {"!=", Compares<CompareOp::kNe>},
    {"lt", Compares<CompareOp::kLt>},
    {"lessthan", Compares<CompareOp::kLt>},
    {"<", Compares<CompareOp::kLt>},
    {"le", Compares<CompareOp::kLe>},
    {"<=", Compares<CompareOp::kLe>},
    {"gt", Compares<CompareOp::kGt>},
    {"greaterthan", Compares<CompareOp::kGt>},
    {">", Compares<CompareOp::kGt>},
    {"ge", Compares<CompareOp::kGe>},
    {">=", Compares<CompareOp::kGe>},
}};

}  // namespace

const PredicateEntry* FindPredicate(std::string_view name) {
  return FindByName(kPredicates, name);
}

}  // namespace baton::templates
