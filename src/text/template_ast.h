// The tree that a template is parsed into. Immutable after parsing; shared by concurrent renders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_failure.h"
#include "text/template_value.h"

namespace baton::templates {

struct FilterEntry;
struct PredicateEntry;

enum class ExprKind : std::uint8_t {
  kConstant,   // value
  kName,       // name
  kList,       // children: items
  kTuple,      // children: items
  kDict,       // children: key, value, key, value, ...
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children: start, stop, step, each may be null; only as children[1] of kItem
  kCall,       // children[0](arguments)
  kFilter,     // children[0] | name(arguments); children[0] is null in a filter block
  kPredicate,  // children[0] is name(arguments)
  kUnary,      // op children[0]; op is '-', '+' or '!' (not)
  kBinary,     // children[0] op children[1]; op also '^' for ** and 'f' for //
  kConcat,     // children joined by ~
  kCompare,    // children[0] compare_ops[0] children[1] compare_ops[1] children[2] ...
  kAnd,        // children: two
  kOr,         // children: two
  kInlineIf,   // children: condition, then, else (may be null)
};

enum class CompareOp : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

// The arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *expression
  ExprPtr double_star;  // **expression
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  Position position;
  int depth = 1;  // of the tree below and with this node
  Value value;
  std::string name;
  char op = 0;
  std::vector<ExprPtr> children;
  std::vector<CompareOp> compare_ops;
  CallArguments arguments;
  const FilterEntry* filter = nullptr;
  const PredicateEntry* predicate = nullptr;
};

// Where an assignment goes: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;  // not empty: name.attribute
  std::vector<Target> parts;
  bool is_tuple = false;
  Position position;
};

enum class StmtKind : std::uint8_t {
  kText,         // text
  kOutput,       // expr
  kIf,           // branches
  kFor,          // target, expr (iterable), condition, body, else_body, recursive
  kSet,          // target, expr
  kSetBlock,     // target, filter (may be null), body
  kMacro,        // macro
  kCallBlock,    // expr (the call), macro (its body as the caller)
  kFilterBlock,  // filter, body
  kWith,         // withs, body
  kScope,        // body: a generation block
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<const Stmt>>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExprPtr default_value;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body names these; a macro takes surplus arguments only if it does.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  // Whether a macro or call block lies inside: the scope of a call must then outlive it.
  bool holds_closure = false;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  Position position;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  ExprPtr filter;
  Target target;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExprPtr>> withs;
  Body body;
  Body else_body;
  MacroDefinition macro;
  bool recursive = false;
  // Whether a macro or call block lies inside: its scopes must then outlive the statement.
  bool holds_closure = false;
};

}  // namespace baton::templates
