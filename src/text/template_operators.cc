// Arithmetic on integers of 120 bits and on floats, what + and * do to strings and lists, orders,
// membership, slices, and the escaping of HTML.
#include "text/template_operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_format.h"
#include "text/template_search.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

[[noreturn]] void Unsupported(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) Raise(a.undefined_message());
  if (b.is_undefined()) Raise(b.undefined_message());
  Raise("unsupported operand type(s) for " + std::string(op) + ": '" + std::string(TypeName(a)) +
        "' and '" + std::string(TypeName(b)) + "'");
}

[[noreturn]] void Overflow() {
  Raise("the integer is too large");
}

// Integers stay below 2^120 in magnitude, so that sums and differences cannot overflow.
constexpr Integer kMaxInteger = static_cast<Integer>(1) << 120;

Integer Checked(Integer value) {
  if (value > kMaxInteger || value < -kMaxInteger) Overflow();
  return value;
}

Integer Multiply(Integer a, Integer b) {
  if (a == 0 || b == 0) return 0;
  const double estimate = std::fabs(static_cast<double>(a)) * std::fabs(static_cast<double>(b));
  if (estimate > static_cast<double>(kMaxInteger)) Overflow();
  return Checked(a * b);
}

Integer FloorDivide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double FloatModulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value Power(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral() && b.integer() >= 0) {
    Integer result = 1;
    Integer base = a.integer();
    Integer exponent = b.integer();
    if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
    if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
    for (; exponent > 0; --exponent) result = Multiply(result, base);  // overflows by 2^120
    return Value::Int(result);
  }
  const double x = a.number();
  const double y = b.number();
  if (x == 0 && y < 0) Raise("0.0 cannot be raised to a negative power");
  if (x < 0 && y != std::floor(y)) Raise("a negative number cannot be raised to a fraction");
  const double result = std::pow(x, y);
  if (std::isinf(result) && !std::isinf(x) && !std::isinf(y)) Raise("the result is too large");
  return Value::Float(result);
}

Value Arithmetic(char op, const Value& a, const Value& b) {
  const bool integers = a.is_integral() && b.is_integral();
  if ((op == '/' || op == 'f' || op == '%') && b.number() == 0)
    Raise(integers ? "division by zero" : "float division by zero");
  if (integers) {
    const Integer x = a.integer();
    const Integer y = b.integer();
    switch (op) {
      case '+':
        return Value::Int(Checked(x + y));
      case '-':
        return Value::Int(Checked(x - y));
      case '*':
        return Value::Int(Multiply(x, y));
      case 'f':
        return Value::Int(FloorDivide(x, y));
      case '%':
        return Value::Int(x - FloorDivide(x, y) * y);
      default:
        break;
    }
  }
  const double x = a.number();
  const double y = b.number();
  switch (op) {
    case '+':
      return Value::Float(x + y);
    case '-':
      return Value::Float(x - y);
    case '*':
      return Value::Float(x * y);
    case '/':
      return Value::Float(x / y);
    case '%':
      return Value::Float(FloatModulo(x, y));
    case 'f': {
      const double quotient = (x - FloatModulo(x, y)) / y;
      const double floor = std::floor(quotient);
      const double whole = quotient - floor > 0.5 ? floor + 1 : floor;
      return Value::Float(whole == 0 ? std::copysign(0.0, x / y) : whole);
    }
    default:
      return Power(a, b);
  }
}

Value AddStrings(Evaluation& evaluation, const Value& a, const Value& b) {
  if (!a.is_markup() && !b.is_markup()) {
    evaluation.budget().ChargeBytes(a.string().size() + b.string().size());
    return Value::String(a.string() + b.string());
  }
  return Value::Markup(HtmlEscape(evaluation, a) + HtmlEscape(evaluation, b));
}

Value Add(Evaluation& evaluation, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return AddStrings(evaluation, a, b);
  if (a.is_list_or_tuple() && b.is_list_or_tuple() && a.sequence().flavor == b.sequence().flavor) {
    std::vector<Value> items = a.sequence().items;
    const std::vector<Value>& more = b.sequence().items;
    evaluation.budget().ChargeItems(items.size() + more.size());
    items.insert(items.end(), more.begin(), more.end());
    return Value::Of(Sequence{.flavor = a.sequence().flavor, .items = std::move(items)});
  }
  if (a.is_undefined()) Raise(a.undefined_message());
  if (b.is_undefined()) Raise(b.undefined_message());
  if (a.is_string())
    Raise("can only concatenate str (not \"" + std::string(TypeName(b)) + "\") to str");
  if (a.is_list_or_tuple())
    Raise("can only concatenate " + std::string(TypeName(a)) + " (not \"" +
          std::string(TypeName(b)) + "\") to " + std::string(TypeName(a)));
  Unsupported("+", a, b);
}

Value Repeat(Evaluation& evaluation, const Value& value, const Value& count_value) {
  const std::int64_t count = std::max<std::int64_t>(0, IndexOf(count_value));
  const auto times = static_cast<std::size_t>(count);
  if (value.is_string()) {
    const std::string& text = value.string();
    const std::size_t limit = evaluation.budget().limits().max_value_bytes;
    const bool too_large = !text.empty() && times > limit / text.size();
    evaluation.budget().ChargeBytes(too_large ? limit + 1 : text.size() * times);
    std::string out;
    if (!text.empty()) {
      out.reserve(text.size() * times);
      for (std::size_t i = 0; i < times; ++i) out += text;
    }
    return Value::StringLike(value, std::move(out));
  }
  const std::vector<Value>& items = value.sequence().items;
  const std::size_t limit = evaluation.budget().limits().max_items;
  const bool too_large = !items.empty() && times > limit / items.size();
  evaluation.budget().ChargeItems(too_large ? limit + 1 : items.size() * times);
  std::vector<Value> out;
  if (!items.empty())
    for (std::size_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  return Value::Of(Sequence{.flavor = value.sequence().flavor, .items = std::move(out)});
}

bool IsRepeatable(const Value& value) {
  return value.is_string() || value.is_list_or_tuple();
}

std::string_view OperatorName(char op) {
  switch (op) {
    case '+':
      return "+";
    case '-':
      return "-";
    case '*':
      return "*";
    case '/':
      return "/";
    case 'f':
      return "//";
    case '%':
      return "%";
    default:
      return "** or pow()";
  }
}

bool Ordered(CompareOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    const bool unordered = (a.is(Kind::kFloat) && std::isnan(a.floating())) ||
                           (b.is(Kind::kFloat) && std::isnan(b.floating()));
    if (unordered) return false;
  }
  switch (op) {
    case CompareOp::kLt:
      return Less(a, b);
    case CompareOp::kGt:
      return Less(b, a);
    case CompareOp::kLe:
      return !Less(b, a);
    default:
      return !Less(a, b);
  }
}

}  // namespace

Value Binary(Evaluation& evaluation, char op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return Arithmetic(op, a, b);
  if (op == '+') return Add(evaluation, a, b);
  if (op == '%' && a.is_string()) return PercentFormat(evaluation, a, b);
  if (op == '*' && IsRepeatable(a) && b.is_integral()) return Repeat(evaluation, a, b);
  if (op == '*' && IsRepeatable(b) && a.is_integral()) return Repeat(evaluation, b, a);
  Unsupported(OperatorName(op), a, b);
}

Value Negate(char op, const Value& operand) {
  if (operand.is_undefined()) Raise(operand.undefined_message());
  if (!operand.is_number())
    Raise(std::string("bad operand type for unary ") + op + ": '" + std::string(TypeName(operand)) +
          "'");
  if (operand.is(Kind::kFloat))
    return Value::Float(op == '-' ? -operand.floating() : operand.floating());
  return Value::Int(op == '-' ? -operand.integer() : operand.integer());
}

bool Contains(Evaluation& evaluation, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (needle.is_undefined()) Raise(needle.undefined_message());
    if (!needle.is_string())
      Raise("'in <string>' requires string as left operand, not " + std::string(TypeName(needle)));
    const TextSearch search(evaluation.budget(),
                            {.text = haystack.string(), .needle = needle.string()});
    return search.Find(0) != TextSearch::kNone;
  }
  if (haystack.is(Kind::kDict)) return haystack.dict().Find(needle) != nullptr;
  if (haystack.is_undefined()) return false;
  if (!haystack.is(Kind::kSequence))
    Raise("argument of type '" + std::string(TypeName(haystack)) + "' is not iterable");
  evaluation.budget().ChargeSteps(haystack.weight() / 64);
  for (const Value& item : evaluation.Items(haystack))
    if (Equal(item, needle)) return true;
  return false;
}

bool Compare(Evaluation& evaluation, CompareOp op, const Value& a, const Value& b) {
  if (op == CompareOp::kIn) return Contains(evaluation, b, a);
  if (op == CompareOp::kNotIn) return !Contains(evaluation, b, a);
  evaluation.budget().ChargeSteps(std::min(a.weight(), b.weight()) / 64);
  if (op == CompareOp::kEq) return Equal(a, b);
  if (op == CompareOp::kNe) return !Equal(a, b);
  return Ordered(op, a, b);
}

Value Slice(Evaluation& evaluation, const Value& object, const SliceBounds& bounds) {
  if (object.is_undefined()) Raise(object.undefined_message());
  const bool is_sequence =
      object.is_list_or_tuple() ||
      (object.is(Kind::kSequence) && object.sequence().flavor == Flavor::kRange);
  if (!object.is_string() && !is_sequence)
    Raise("'" + std::string(TypeName(object)) + "' object cannot be sliced");
  for (const Value* bound : {&bounds.start, &bounds.stop, &bounds.step})
    if (!bound->is_none() && !bound->is_integral()) Raise("slice indices must be integers or None");
  const std::int64_t step = bounds.step.is_none() ? 1 : IndexOf(bounds.step);
  if (step == 0) Raise("slice step cannot be zero");
  std::vector<std::string_view> characters;
  if (object.is_string()) {
    evaluation.budget().ChargeBytes(object.string().size());
    characters = Characters(object.string());
  }
  const auto length = static_cast<std::int64_t>(
      object.is_string() ? characters.size() : object.sequence().items.size());
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? length : length - 1;
  const auto clamp = [&](const Value& bound, std::int64_t fallback) {
    if (bound.is_none()) return fallback;
    std::int64_t index = IndexOf(bound);
    if (index < 0) index = index < -length ? lowest : index + length;
    return std::clamp(index, lowest, highest);
  };
  const std::int64_t start = clamp(bounds.start, step > 0 ? 0 : length - 1);
  const std::int64_t stop = clamp(bounds.stop, step > 0 ? length : -1);
  std::string text;
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    const auto index = static_cast<std::size_t>(i);
    if (object.is_string()) {
      text += characters[index];
    } else {
      items.push_back(object.sequence().items[index]);
    }
    if (step > 0 ? step >= stop - i : step <= stop - i) break;
    i += step;
  }
  if (object.is_string()) return Value::StringLike(object, std::move(text));
  evaluation.budget().ChargeItems(items.size());
  const Flavor flavor = object.sequence().flavor == Flavor::kTuple ? Flavor::kTuple : Flavor::kList;
  return Value::Of(Sequence{.flavor = flavor, .items = std::move(items)});
}

std::string HtmlEscape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string HtmlEscape(Evaluation& evaluation, const Value& value) {
  const std::string text = evaluation.Text(value);
  return value.is_markup() ? text : HtmlEscape(text);
}

}  // namespace baton::templates
