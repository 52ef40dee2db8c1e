// One render: walks the tree of a template over its inputs and writes the output.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_ast.h"
#include "text/template_budget.h"
#include "text/template_engine.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

// Statements are evaluated in template_evaluation.cc, expressions in template_expressions.cc,
// calls of macros and loops in template_calls.cc.
// Errors: every function throws TemplateFailure.
class Evaluation {
 public:
  Evaluation(const TemplateInputs& inputs, const TemplateLimits& limits);

  std::string Run(const Body& body);

  // Services for the built-ins.
  Budget& budget() { return budget_; }
  const TemplateInputs& inputs() const { return inputs_; }
  // str(value), charged.
  std::string Text(const Value& value);
  // The items of an iteration, charged.
  std::vector<Value> Items(const Value& value);
  Value Call(const Value& callee, const Arguments& arguments);
  // object.name as a template sees it.
  Value Attribute(const Value& object, std::string_view name);
  // object[key] as a template sees it.
  Value Item(const Value& object, const Value& key);
  Namespace* NewNamespace();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Deeper;

  // Statements.
  Flow RunBody(const Body& body, Scope* scope, std::string* out);
  Flow RunStatement(const Stmt& stmt, Scope* scope, std::string* out);
  Flow RunIf(const Stmt& stmt, Scope* scope, std::string* out);
  void RunFor(const Stmt& stmt, Scope* scope, std::string* out);
  Flow RunInner(const Body& body, bool holds_closure, Scope* outer, std::string* out);
  void RunSetBlock(const Stmt& stmt, Scope* scope);
  void RunCallBlock(const Stmt& stmt, Scope* scope, std::string* out);
  Flow RunWith(const Stmt& stmt, Scope* scope, std::string* out);
  void RunLoop(const Stmt& stmt, const Value& iterable, Scope* outer, std::size_t depth0,
               std::string* out);
  std::vector<Value> FilteredItems(const Stmt& stmt, const Value& iterable, Scope* outer);
  void Assign(const Target& target, const Value& value, Scope* scope);
  void Append(std::string* out, const std::string& text);
  const Macro* NewMacro(const MacroDefinition* definition, Scope* scope);

  // Expressions.
  Value Evaluate(const Expr& expr, Scope* scope);
  Value EvaluateName(const Expr& expr, Scope* scope);
  Value EvaluateDict(const Expr& expr, Scope* scope);
  Value EvaluateItem(const Expr& expr, Scope* scope);
  Value EvaluateCall(const Expr& expr, Scope* scope);
  Value EvaluateFilter(const Expr& expr, const Value* block_input, Scope* scope);
  Value EvaluatePredicate(const Expr& expr, Scope* scope);
  Value EvaluateCompare(const Expr& expr, Scope* scope);
  Value EvaluateConcat(const Expr& expr, Scope* scope);
  Value EvaluateInlineIf(const Expr& expr, Scope* scope);
  std::vector<Value> EvaluateAll(const std::vector<ExprPtr>& exprs, Scope* scope);
  Arguments EvaluateArguments(const CallArguments& call, Scope* scope);

  // Calls.
  Value CallMacro(const Macro& macro, const Arguments& arguments);
  void BindParameters(const Macro& macro, const Arguments& arguments, Scope* scope);
  Value CallLoop(LoopState* loop, const Arguments& arguments);

  const TemplateInputs& inputs_;
  Budget budget_;
  int depth_ = 0;
  Position position_;  // of the operation under way, for errors
  Scope root_;
  std::deque<std::unique_ptr<Scope>> scopes_;  // those that a macro may refer to
  std::deque<Macro> macros_;
  std::deque<Namespace> namespaces_;
  std::deque<LoopState> loops_;
};

}  // namespace baton::templates
