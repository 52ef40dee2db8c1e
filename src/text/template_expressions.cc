// The expression half of Evaluation: one function per kind of node.
#include <utility>

#include "text/template_evaluation.h"
#include "text/template_filters.h"
#include "text/template_functions.h"
#include "text/template_operators.h"
#include "text/template_predicates.h"

namespace baton::templates {
namespace {

// Counts a level of expressions while it lives; the depth is checked by the caller.
class Level {
 public:
  explicit Level(int* depth) : depth_(depth) { ++*depth_; }
  ~Level() { --*depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int* depth_;
};

}  // namespace

Value Evaluation::Evaluate(const Expr& expr, Scope* scope) {
  const Level level(&depth_);
  if (depth_ > budget_.limits().max_depth)
    throw TemplateFailure{FailureKind::kExhausted, "the template recurses too deeply", {}, false};
  budget_.ChargeSteps(1);
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return EvaluateName(expr, scope);
    case ExprKind::kList:
      return Value::List(EvaluateAll(expr.children, scope));
    case ExprKind::kTuple:
      return Value::Tuple(EvaluateAll(expr.children, scope));
    case ExprKind::kDict:
      return EvaluateDict(expr, scope);
    case ExprKind::kAttribute: {
      const Value object = Evaluate(*expr.children[0], scope);
      position_ = expr.position;
      return Attribute(object, expr.name);
    }
    case ExprKind::kItem:
      return EvaluateItem(expr, scope);
    case ExprKind::kSlice:
      Raise("a slice stands outside of a subscript");
    case ExprKind::kCall:
      return EvaluateCall(expr, scope);
    case ExprKind::kFilter:
      return EvaluateFilter(expr, nullptr, scope);
    case ExprKind::kPredicate:
      return EvaluatePredicate(expr, scope);
    case ExprKind::kUnary: {
      const Value operand = Evaluate(*expr.children[0], scope);
      position_ = expr.position;
      return expr.op == '!' ? Value::Bool(!Truth(operand)) : Negate(expr.op, operand);
    }
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.children[0], scope);
      const Value right = Evaluate(*expr.children[1], scope);
      position_ = expr.position;
      return Binary(*this, expr.op, left, right);
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr, scope);
    case ExprKind::kCompare:
      return EvaluateCompare(expr, scope);
    case ExprKind::kAnd: {
      Value left = Evaluate(*expr.children[0], scope);
      return Truth(left) ? Evaluate(*expr.children[1], scope) : std::move(left);
    }
    case ExprKind::kOr: {
      Value left = Evaluate(*expr.children[0], scope);
      return Truth(left) ? std::move(left) : Evaluate(*expr.children[1], scope);
    }
    case ExprKind::kInlineIf:
      return EvaluateInlineIf(expr, scope);
  }
  return Value();
}

std::vector<Value> Evaluation::EvaluateAll(const std::vector<ExprPtr>& exprs, Scope* scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(Evaluate(*expr, scope));
  return values;
}

Value Evaluation::EvaluateName(const Expr& expr, Scope* scope) {
  if (const Value* value = scope->Find(expr.name); value != nullptr) return *value;
  if (const std::optional<Value> function = GlobalFunction(expr.name); function.has_value())
    return *function;
  position_ = expr.position;
  return Value::Undefined("'" + expr.name + "' is undefined");
}

Value Evaluation::EvaluateDict(const Expr& expr, Scope* scope) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    Value key = Evaluate(*expr.children[i], scope);
    Value value = Evaluate(*expr.children[i + 1], scope);
    position_ = expr.position;
    dict.Set(std::move(key), std::move(value));
  }
  return Value::Of(std::move(dict));
}

Value Evaluation::EvaluateItem(const Expr& expr, Scope* scope) {
  const Value object = Evaluate(*expr.children[0], scope);
  const Expr& key = *expr.children[1];
  if (key.kind != ExprKind::kSlice) {
    const Value index = Evaluate(key, scope);
    position_ = expr.position;
    return Item(object, index);
  }
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    bounds[i] = key.children[i] == nullptr ? Value::None() : Evaluate(*key.children[i], scope);
  position_ = expr.position;
  return Slice(*this, object, SliceBounds{bounds[0], bounds[1], bounds[2]});
}

Arguments Evaluation::EvaluateArguments(const CallArguments& call, Scope* scope) {
  Arguments arguments;
  arguments.positional = EvaluateAll(call.positional, scope);
  for (const auto& [name, expr] : call.named)
    arguments.named.emplace_back(name, Evaluate(*expr, scope));
  if (call.star != nullptr)
    for (Value& item : Items(Evaluate(*call.star, scope)))
      arguments.positional.push_back(std::move(item));
  if (call.double_star != nullptr) {
    const Value surplus = Evaluate(*call.double_star, scope);
    if (!surplus.is(Kind::kDict)) Raise("the argument after ** must be a mapping");
    budget_.ChargeItems(surplus.dict().size());
    for (const auto& [key, value] : surplus.dict().entries()) {
      if (!key.is_string()) Raise("keywords must be strings");
      arguments.named.emplace_back(key.string(), value);
    }
  }
  for (std::size_t i = 0; i < arguments.named.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (arguments.named[i].first == arguments.named[k].first)
        Raise("got multiple values for keyword argument '" + arguments.named[i].first + "'");
  return arguments;
}

Value Evaluation::EvaluateCall(const Expr& expr, Scope* scope) {
  const Value callee = Evaluate(*expr.children[0], scope);
  const Arguments arguments = EvaluateArguments(expr.arguments, scope);
  position_ = expr.position;
  return Call(callee, arguments);
}

Value Evaluation::EvaluateFilter(const Expr& expr, const Value* block_input, Scope* scope) {
  Value input;
  if (expr.children[0] != nullptr) {
    const Expr& inner = *expr.children[0];
    input = inner.kind == ExprKind::kFilter ? EvaluateFilter(inner, block_input, scope)
                                            : Evaluate(inner, scope);
  } else if (block_input != nullptr) {
    input = *block_input;
  }
  const Arguments arguments = EvaluateArguments(expr.arguments, scope);
  position_ = expr.position;
  budget_.ChargeSteps(1);
  return expr.filter->function(*this, input, arguments);
}

Value Evaluation::EvaluatePredicate(const Expr& expr, Scope* scope) {
  const Value subject = Evaluate(*expr.children[0], scope);
  const Arguments arguments = EvaluateArguments(expr.arguments, scope);
  position_ = expr.position;
  return Value::Bool(expr.predicate->function(*this, subject, arguments));
}

Value Evaluation::EvaluateConcat(const Expr& expr, Scope* scope) {
  const std::vector<Value> parts = EvaluateAll(expr.children, scope);
  std::string text;
  position_ = expr.position;
  for (const Value& part : parts) text += Text(part);
  budget_.ChargeBytes(text.size());
  return Value::String(std::move(text));
}

Value Evaluation::EvaluateCompare(const Expr& expr, Scope* scope) {
  Value left = Evaluate(*expr.children[0], scope);
  for (std::size_t i = 0; i < expr.compare_ops.size(); ++i) {
    Value right = Evaluate(*expr.children[i + 1], scope);
    position_ = expr.position;
    if (!Compare(*this, expr.compare_ops[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Evaluation::EvaluateInlineIf(const Expr& expr, Scope* scope) {
  if (Truth(Evaluate(*expr.children[0], scope))) return Evaluate(*expr.children[1], scope);
  if (expr.children[2] != nullptr) return Evaluate(*expr.children[2], scope);
  return Value::Undefined("the inline if-expression on line " + std::to_string(expr.position.line) +
                          " evaluated to false and no else section was defined");
}

}  // namespace baton::templates
