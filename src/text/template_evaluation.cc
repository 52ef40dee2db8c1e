// The statement half of Evaluation, and what it owns: output, scopes, the objects of the render.
#include "text/template_evaluation.h"

#include <utility>

#include "text/template_filters.h"
#include "text/template_print.h"

namespace baton::templates {
namespace {

// Objects that live until the end of the render are charged this much each.
constexpr std::size_t kObjectSteps = 20;

}  // namespace

// Counts a level of operations inside operations while it lives.
class Evaluation::Deeper {
 public:
  explicit Deeper(Evaluation* evaluation) : evaluation_(evaluation) {
    if (++evaluation_->depth_ > evaluation_->budget_.limits().max_depth) {
      --evaluation_->depth_;
      throw TemplateFailure{FailureKind::kExhausted, "the template recurses too deeply", {}, false};
    }
  }
  ~Deeper() { --evaluation_->depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Evaluation* evaluation_;
};

void Budget::Exhausted(const char* what, std::size_t limit) {
  throw TemplateFailure{FailureKind::kExhausted,
                        "the template uses too much: at most " + std::to_string(limit) + " " + what,
                        {},
                        false};
}

Evaluation::Evaluation(const TemplateInputs& inputs, const TemplateLimits& limits)
    : inputs_(inputs), budget_(limits) {}

std::string Evaluation::Run(const Body& body) {
  std::string out;
  try {
    for (const auto& [name, value] : inputs_.variables) root_.Set(name, value);
    Scope scope{.parent = &root_};
    RunBody(body, &scope, &out);
  } catch (TemplateFailure& failure) {
    if (!failure.has_position) {
      failure.position = position_;
      failure.has_position = true;
    }
    throw;
  }
  return out;
}

std::string Evaluation::Text(const Value& value) {
  budget_.ChargeBytes(value.weight());
  return Str(value);
}

std::vector<Value> Evaluation::Items(const Value& value) {
  if (value.is_string()) {
    budget_.ChargeItems(value.string().size());
  } else if (value.is(Kind::kSequence)) {
    budget_.ChargeItems(value.sequence().items.size());
  } else if (value.is(Kind::kDict)) {
    budget_.ChargeItems(value.dict().size());
  } else if (value.is(Kind::kLoop)) {
    Raise("a loop cannot be iterated over here");
  }
  return ItemsOf(value);
}

Namespace* Evaluation::NewNamespace() {
  budget_.ChargeSteps(kObjectSteps);
  return &namespaces_.emplace_back();
}

const Macro* Evaluation::NewMacro(const MacroDefinition* definition, Scope* scope) {
  budget_.ChargeSteps(kObjectSteps);
  return &macros_.emplace_back(Macro{definition, scope});
}

void Evaluation::Append(std::string* out, const std::string& text) {
  budget_.CheckOutput(out->size() + text.size());
  out->append(text);
}

Evaluation::Flow Evaluation::RunBody(const Body& body, Scope* scope, std::string* out) {
  const Deeper deeper(this);
  for (const auto& stmt : body) {
    const Flow flow = RunStatement(*stmt, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluation::Flow Evaluation::RunStatement(const Stmt& stmt, Scope* scope, std::string* out) {
  budget_.ChargeSteps(1);
  switch (stmt.kind) {
    case StmtKind::kText:
      Append(out, stmt.text);
      break;
    case StmtKind::kOutput: {
      const Value value = Evaluate(*stmt.expr, scope);
      if (value.is_string()) {
        Append(out, value.string());
      } else {
        Append(out, Text(value));
      }
      break;
    }
    case StmtKind::kIf:
      return RunIf(stmt, scope, out);
    case StmtKind::kFor:
      RunFor(stmt, scope, out);
      break;
    case StmtKind::kSet:
      Assign(stmt.target, Evaluate(*stmt.expr, scope), scope);
      break;
    case StmtKind::kSetBlock:
      RunSetBlock(stmt, scope);
      break;
    case StmtKind::kMacro:
      scope->Set(stmt.macro.name, Value::Of(NewMacro(&stmt.macro, scope)));
      break;
    case StmtKind::kCallBlock:
      RunCallBlock(stmt, scope, out);
      break;
    case StmtKind::kFilterBlock: {
      std::string text;
      RunInner(stmt.body, stmt.holds_closure, scope, &text);
      const Value input = Value::String(std::move(text));
      Append(out, Text(EvaluateFilter(*stmt.filter, &input, scope)));
      break;
    }
    case StmtKind::kWith:
      return RunWith(stmt, scope, out);
    case StmtKind::kScope:
      return RunInner(stmt.body, stmt.holds_closure, scope, out);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluation::Flow Evaluation::RunIf(const Stmt& stmt, Scope* scope, std::string* out) {
  for (const Branch& branch : stmt.branches)
    if (branch.condition == nullptr || Truth(Evaluate(*branch.condition, scope)))
      return RunBody(branch.body, scope, out);
  return Flow::kNext;
}

// Runs a body in a scope of its own.
Evaluation::Flow Evaluation::RunInner(const Body& body, bool holds_closure, Scope* outer,
                                      std::string* out) {
  if (!holds_closure) {
    Scope scope{.parent = outer};
    return RunBody(body, &scope, out);
  }
  budget_.ChargeSteps(kObjectSteps);
  scopes_.push_back(std::make_unique<Scope>(Scope{.parent = outer}));
  return RunBody(body, scopes_.back().get(), out);
}

void Evaluation::RunSetBlock(const Stmt& stmt, Scope* scope) {
  std::string text;
  RunInner(stmt.body, stmt.holds_closure, scope, &text);
  Value value = Value::String(std::move(text));
  if (stmt.filter != nullptr) value = EvaluateFilter(*stmt.filter, &value, scope);
  Assign(stmt.target, value, scope);
}

void Evaluation::RunCallBlock(const Stmt& stmt, Scope* scope, std::string* out) {
  const Expr& call = *stmt.expr;
  const Value callee = Evaluate(*call.children[0], scope);
  Arguments arguments = EvaluateArguments(call.arguments, scope);
  arguments.named.emplace_back("caller", Value::Of(NewMacro(&stmt.macro, scope)));
  position_ = call.position;
  Append(out, Text(Call(callee, arguments)));
}

Evaluation::Flow Evaluation::RunWith(const Stmt& stmt, Scope* scope, std::string* out) {
  Scope inner{.parent = scope};
  Scope* target = &inner;
  if (stmt.holds_closure) {
    budget_.ChargeSteps(kObjectSteps);
    scopes_.push_back(std::make_unique<Scope>(Scope{.parent = scope}));
    target = scopes_.back().get();
  }
  std::vector<Value> values;
  for (const auto& [name, expr] : stmt.withs) values.push_back(Evaluate(*expr, scope));
  for (std::size_t i = 0; i < values.size(); ++i) Assign(stmt.withs[i].first, values[i], target);
  return RunBody(stmt.body, target, out);
}

void Evaluation::Assign(const Target& target, const Value& value, Scope* scope) {
  if (target.is_tuple) {
    const std::vector<Value> items = Items(value);
    if (items.size() != target.parts.size())
      Raise((items.size() < target.parts.size() ? "not enough values to unpack (expected "
                                                : "too many values to unpack (expected ") +
            std::to_string(target.parts.size()) + ", got " + std::to_string(items.size()) + ")");
    for (std::size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    scope->Set(target.name, value);
    return;
  }
  position_ = target.position;
  const Value* object = scope->Find(target.name);
  if (object == nullptr || !object->is(Kind::kNamespace))
    Raise("cannot assign attribute on non-namespace object");
  budget_.ChargeSteps(object->name_space()->attributes.size());
  object->name_space()->Set(target.attribute, value);
}

void Evaluation::RunFor(const Stmt& stmt, Scope* scope, std::string* out) {
  RunLoop(stmt, Evaluate(*stmt.expr, scope), scope, 0, out);
}

std::vector<Value> Evaluation::FilteredItems(const Stmt& stmt, const Value& iterable,
                                             Scope* outer) {
  std::vector<Value> items = Items(iterable);
  if (stmt.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    Scope scope{.parent = outer};
    Assign(stmt.target, item, &scope);
    if (Truth(Evaluate(*stmt.condition, &scope))) kept.push_back(std::move(item));
  }
  return kept;
}

void Evaluation::RunLoop(const Stmt& stmt, const Value& iterable, Scope* outer, std::size_t depth0,
                         std::string* out) {
  position_ = stmt.expr->position;
  std::vector<Value> items = FilteredItems(stmt, iterable, outer);
  if (items.empty()) {
    RunInner(stmt.else_body, stmt.holds_closure, outer, out);
    return;
  }
  budget_.ChargeSteps(kObjectSteps);
  LoopState& loop = loops_.emplace_back(
      LoopState{.stmt = &stmt, .outer = outer, .items = std::move(items), .depth0 = depth0});
  Scope stack_scope;
  for (; loop.index0 < loop.items.size(); ++loop.index0) {
    budget_.ChargeSteps(1);
    Scope* scope = &stack_scope;
    if (stmt.holds_closure) {
      budget_.ChargeSteps(kObjectSteps);
      scopes_.push_back(std::make_unique<Scope>());
      scope = scopes_.back().get();
    }
    scope->parent = outer;
    scope->names.clear();
    scope->Set("loop", Value::Of(&loop));
    Assign(stmt.target, loop.items[loop.index0], scope);
    if (RunBody(stmt.body, scope, out) == Flow::kBreak) break;
  }
  loop.active = false;
  loop.items.clear();
}

}  // namespace baton::templates
