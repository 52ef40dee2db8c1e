// The expression half of Parser: one function per level of precedence, loosest first.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "text/template_filters.h"
#include "text/template_parser.h"
#include "text/template_predicates.h"

namespace baton::templates {

struct BinaryOperator {
  std::string_view text;
  ExprKind kind;
  char op;               // of kBinary (template_ast.h)
  bool is_name = false;  // a name to the lexer, not an operator
};

namespace {

// The operators of the levels that join two operands from the left, loosest first.
constexpr std::array kOr = {BinaryOperator{"or", ExprKind::kOr, 0, true}};
constexpr std::array kAnd = {BinaryOperator{"and", ExprKind::kAnd, 0, true}};
constexpr std::array kSums = {BinaryOperator{"+", ExprKind::kBinary, '+'},
                              BinaryOperator{"-", ExprKind::kBinary, '-'}};
constexpr std::array kProducts = {
    BinaryOperator{"*", ExprKind::kBinary, '*'}, BinaryOperator{"/", ExprKind::kBinary, '/'},
    BinaryOperator{"//", ExprKind::kBinary, 'f'}, BinaryOperator{"%", ExprKind::kBinary, '%'}};
constexpr std::array kPower = {BinaryOperator{"**", ExprKind::kBinary, '^'}};

struct NamedCompare {
  std::string_view text;
  CompareOp op;
};
constexpr std::array<NamedCompare, 6> kCompareOps = {{{"==", CompareOp::kEq},
                                                      {"!=", CompareOp::kNe},
                                                      {"<", CompareOp::kLt},
                                                      {"<=", CompareOp::kLe},
                                                      {">", CompareOp::kGt},
                                                      {">=", CompareOp::kGe}}};

const BinaryOperator* FindOperator(std::span<const BinaryOperator> level, const Token& token) {
  for (const BinaryOperator& binary : level)
    if (binary.is_name ? token.IsName(binary.text) : token.IsOperator(binary.text)) return &binary;
  return nullptr;
}

void Deepen(int* depth, const ExprPtr& child) {
  if (child != nullptr) *depth = std::max(*depth, child->depth + 1);
}

}  // namespace

std::unique_ptr<Expr> Parser::Make(ExprKind kind, Position position) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->position = position;
  return expr;
}

ExprPtr Parser::Finish(std::unique_ptr<Expr> expr) const {
  int depth = 1;
  for (const ExprPtr& child : expr->children) Deepen(&depth, child);
  for (const ExprPtr& argument : expr->arguments.positional) Deepen(&depth, argument);
  for (const auto& [name, argument] : expr->arguments.named) Deepen(&depth, argument);
  Deepen(&depth, expr->arguments.star);
  Deepen(&depth, expr->arguments.double_star);
  if (depth > kMaxTreeDepth)
    RaiseSyntax(expr->position, "the expression is too long: at most " +
                                    std::to_string(kMaxTreeDepth) + " operations in a chain");
  expr->depth = depth;
  return expr;
}

bool Parser::AtTupleEnd(std::string_view end_name) const {
  const Token& token = Current();
  return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd ||
         token.IsOperator(")") || (!end_name.empty() && token.IsName(end_name));
}

ExprPtr Parser::ParseTupleOrExpression(bool with_inline_if, std::string_view end_name) {
  const Position position = Current().position;
  if (AtTupleEnd(end_name)) Unexpected("an expression");
  ExprPtr first = ParseExpression(with_inline_if);
  if (!Current().IsOperator(",")) return first;
  auto tuple = Make(ExprKind::kTuple, position);
  tuple->children.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (AtTupleEnd(end_name)) break;
    tuple->children.push_back(ParseExpression(with_inline_if));
  }
  return Finish(std::move(tuple));
}

ExprPtr Parser::ParseExpression(bool with_inline_if) {
  const Deeper deeper(this);
  if (!with_inline_if) return ParseOr();
  ExprPtr expr = ParseOr();
  while (Current().IsName("if")) {
    auto choice = Make(ExprKind::kInlineIf, Take().position);
    choice->children.push_back(ParseOr());
    choice->children.push_back(std::move(expr));
    choice->children.push_back(SkipName("else") ? ParseExpression(true) : nullptr);
    expr = Finish(std::move(choice));
  }
  return expr;
}

ExprPtr Parser::ParseBinary(std::span<const BinaryOperator> level, ExprPtr (Parser::*operand)()) {
  ExprPtr left = (this->*operand)();
  while (const BinaryOperator* binary = FindOperator(level, Current())) {
    auto expr = Make(binary->kind, Take().position);
    expr->op = binary->op;
    expr->children.push_back(std::move(left));
    expr->children.push_back((this->*operand)());
    left = Finish(std::move(expr));
  }
  return left;
}

ExprPtr Parser::ParseOr() {
  return ParseBinary(kOr, &Parser::ParseAnd);
}

ExprPtr Parser::ParseAnd() {
  return ParseBinary(kAnd, &Parser::ParseNot);
}

ExprPtr Parser::ParseNot() {
  if (!Current().IsName("not")) return ParseCompare();
  const Deeper deeper(this);
  auto expr = Make(ExprKind::kUnary, Take().position);
  expr->op = '!';
  expr->children.push_back(ParseNot());
  return Finish(std::move(expr));
}

ExprPtr Parser::ParseCompare() {
  ExprPtr first = ParseSum();
  std::unique_ptr<Expr> compare;
  while (true) {
    const Token& token = Current();
    CompareOp op = CompareOp::kIn;
    if (token.type == TokenType::kOperator) {
      const auto found = std::find_if(kCompareOps.begin(), kCompareOps.end(),
                                      [&](const NamedCompare& c) { return token.text == c.text; });
      if (found == kCompareOps.end()) break;
      op = found->op;
    } else if (token.IsName("not") && Next().IsName("in")) {
      op = CompareOp::kNotIn;
    } else if (!token.IsName("in")) {
      break;
    }
    if (compare == nullptr) {
      compare = Make(ExprKind::kCompare, token.position);
      compare->children.push_back(std::move(first));
    }
    index_ += op == CompareOp::kNotIn ? 2 : 1;
    compare->compare_ops.push_back(op);
    compare->children.push_back(ParseSum());
  }
  return compare == nullptr ? std::move(first) : Finish(std::move(compare));
}

ExprPtr Parser::ParseSum() {
  return ParseBinary(kSums, &Parser::ParseConcat);
}

ExprPtr Parser::ParseConcat() {
  ExprPtr first = ParseProduct();
  if (!Current().IsOperator("~")) return first;
  auto expr = Make(ExprKind::kConcat, Current().position);
  expr->children.push_back(std::move(first));
  while (SkipOperator("~")) expr->children.push_back(ParseProduct());
  return Finish(std::move(expr));
}

ExprPtr Parser::ParseProduct() {
  return ParseBinary(kProducts, &Parser::ParsePower);
}

ExprPtr Parser::ParsePower() {
  return ParseBinary(kPower, &Parser::ParseOperand);
}

ExprPtr Parser::ParseOperand() {
  return ParseUnary(/*with_filters=*/true);
}

ExprPtr Parser::ParseUnary(bool with_filters) {
  ExprPtr expr;
  if (Current().IsOperator("-") || Current().IsOperator("+")) {
    const Deeper deeper(this);
    const Token token = Take();
    auto unary = Make(ExprKind::kUnary, token.position);
    unary->op = token.text[0];
    unary->children.push_back(ParseUnary(/*with_filters=*/false));
    expr = Finish(std::move(unary));
  } else {
    expr = ParsePrimary();
  }
  expr = ParsePostfix(std::move(expr));
  return with_filters ? ParseFilters(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::ParsePrimary() {
  const Token& token = Current();
  auto expr = Make(ExprKind::kConstant, token.position);
  switch (token.type) {
    case TokenType::kName: {
      const std::string name = Take().text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        expr->value = Value::Bool(name[0] == 't' || name[0] == 'T');
      } else if (name == "none" || name == "None") {
        expr->value = Value::None();
      } else {
        expr->kind = ExprKind::kName;
        expr->name = name;
      }
      return Finish(std::move(expr));
    }
    case TokenType::kString: {
      std::string text;
      while (Current().type == TokenType::kString) text += Take().text;
      expr->value = Value::String(std::move(text));
      return Finish(std::move(expr));
    }
    case TokenType::kInteger:
    case TokenType::kFloat:
      expr->value = Take().number;
      return Finish(std::move(expr));
    default:
      break;
  }
  if (token.IsOperator("(")) return ParseParenthesized();
  if (token.IsOperator("[")) return ParseList();
  if (token.IsOperator("{")) return ParseDict();
  Unexpected("an expression");
}

ExprPtr Parser::ParseParenthesized() {
  const Position position = Take().position;
  if (SkipOperator(")")) return Finish(Make(ExprKind::kTuple, position));
  ExprPtr expr = ParseTupleOrExpression(/*with_inline_if=*/true, {});
  ExpectOperator(")");
  return expr;
}

ExprPtr Parser::ParseList() {
  auto list = Make(ExprKind::kList, Take().position);
  while (!Current().IsOperator("]")) {
    if (!list->children.empty()) ExpectOperator(",");
    if (Current().IsOperator("]")) break;
    list->children.push_back(ParseExpression(/*with_inline_if=*/true));
  }
  ExpectOperator("]");
  return Finish(std::move(list));
}

ExprPtr Parser::ParseDict() {
  auto dict = Make(ExprKind::kDict, Take().position);
  while (!Current().IsOperator("}")) {
    if (!dict->children.empty()) ExpectOperator(",");
    if (Current().IsOperator("}")) break;
    dict->children.push_back(ParseExpression(/*with_inline_if=*/true));
    ExpectOperator(":");
    dict->children.push_back(ParseExpression(/*with_inline_if=*/true));
  }
  ExpectOperator("}");
  return Finish(std::move(dict));
}

ExprPtr Parser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (Current().IsOperator(".") || Current().IsOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (Current().IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::ParseCall(ExprPtr callee) {
  auto call = Make(ExprKind::kCall, Current().position);
  call->children.push_back(std::move(callee));
  call->arguments = ParseArguments();
  return Finish(std::move(call));
}

ExprPtr Parser::ParseFilters(ExprPtr expr) {
  while (true) {
    if (SkipOperator("|")) {
      expr = ParseFilter(std::move(expr));
    } else if (Current().IsName("is")) {
      expr = ParsePredicate(std::move(expr));
    } else if (Current().IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

std::string Parser::ParseDottedName() {
  std::string name = ExpectName();
  while (SkipOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr Parser::ParseFilter(ExprPtr input) {
  auto expr = Make(ExprKind::kFilter, Current().position);
  expr->name = ParseDottedName();
  expr->filter = FindFilter(expr->name);
  if (expr->filter == nullptr) RaiseSyntax(expr->position, "unknown filter '" + expr->name + "'");
  expr->children.push_back(std::move(input));
  if (Current().IsOperator("(")) expr->arguments = ParseArguments();
  return Finish(std::move(expr));
}

ExprPtr Parser::ParsePredicate(ExprPtr subject) {
  ++index_;
  const bool negated = SkipName("not");
  auto expr = Make(ExprKind::kPredicate, Current().position);
  expr->name = ParseDottedName();
  expr->predicate = FindPredicate(expr->name);
  if (expr->predicate == nullptr) RaiseSyntax(expr->position, "unknown test '" + expr->name + "'");
  expr->children.push_back(std::move(subject));
  const Token& token = Current();
  const bool bare_argument = (token.type == TokenType::kName && !token.IsName("else") &&
                              !token.IsName("or") && !token.IsName("and")) ||
                             token.type == TokenType::kString ||
                             token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
                             token.IsOperator("[") || token.IsOperator("{");
  if (token.IsOperator("(")) {
    expr->arguments = ParseArguments();
  } else if (bare_argument) {
    if (token.IsName("is")) RaiseSyntax(token.position, "tests cannot be chained with 'is'");
    expr->arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  ExprPtr test = Finish(std::move(expr));
  if (!negated) return test;
  auto inverse = Make(ExprKind::kUnary, test->position);
  inverse->op = '!';
  inverse->children.push_back(std::move(test));
  return Finish(std::move(inverse));
}

ExprPtr Parser::ParseSubscript(ExprPtr object) {
  const Token token = Take();
  if (token.IsOperator(".")) {
    const Token attribute = Current();
    if (attribute.type == TokenType::kName) {
      auto expr = Make(ExprKind::kAttribute, attribute.position);
      expr->name = Take().text;
      expr->children.push_back(std::move(object));
      return Finish(std::move(expr));
    }
    if (attribute.type != TokenType::kInteger) Unexpected("a name or a number");
    auto index = Make(ExprKind::kConstant, attribute.position);
    index->value = Take().number;
    auto expr = Make(ExprKind::kItem, attribute.position);
    expr->children.push_back(std::move(object));
    expr->children.push_back(Finish(std::move(index)));
    return Finish(std::move(expr));
  }
  const Deeper deeper(this);
  auto expr = Make(ExprKind::kItem, token.position);
  expr->children.push_back(std::move(object));
  std::vector<ExprPtr> parts;
  while (!Current().IsOperator("]")) {
    if (!parts.empty()) ExpectOperator(",");
    parts.push_back(ParseSubscriptPart());
  }
  ExpectOperator("]");
  if (parts.size() == 1) {
    expr->children.push_back(std::move(parts[0]));
  } else {
    auto tuple = Make(ExprKind::kTuple, token.position);
    for (const ExprPtr& part : parts)
      if (part->kind == ExprKind::kSlice)
        RaiseSyntax(part->position, "a slice cannot stand beside other subscripts");
    tuple->children = std::move(parts);
    expr->children.push_back(Finish(std::move(tuple)));
  }
  return Finish(std::move(expr));
}

ExprPtr Parser::ParseSubscriptPart() {
  const Position position = Current().position;
  ExprPtr start;
  if (!Current().IsOperator(":")) {
    start = ParseExpression(/*with_inline_if=*/true);
    if (!Current().IsOperator(":")) return start;
  }
  auto slice = Make(ExprKind::kSlice, position);
  slice->children.push_back(std::move(start));
  for (int part = 0; part < 2; ++part) {
    const bool present = SkipOperator(":") && !Current().IsOperator(":") &&
                         !Current().IsOperator("]") && !Current().IsOperator(",");
    slice->children.push_back(present ? ParseExpression(/*with_inline_if=*/true) : nullptr);
  }
  return Finish(std::move(slice));
}

CallArguments Parser::ParseArguments() {
  const Position position = Current().position;
  const auto ensure = [&](bool condition) {
    if (!condition) RaiseSyntax(position, "the arguments of this call are in an invalid order");
  };
  CallArguments arguments;
  ExpectOperator("(");
  bool first = true;
  while (!Current().IsOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (Current().IsOperator(")")) break;
    }
    first = false;
    if (SkipOperator("*")) {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr);
      arguments.star = ParseExpression(/*with_inline_if=*/true);
    } else if (SkipOperator("**")) {
      ensure(arguments.double_star == nullptr);
      arguments.double_star = ParseExpression(/*with_inline_if=*/true);
    } else if (Current().type == TokenType::kName && Next().IsOperator("=")) {
      ensure(arguments.double_star == nullptr);
      std::string name = Take().text;
      ++index_;
      arguments.named.emplace_back(std::move(name), ParseExpression(/*with_inline_if=*/true));
    } else {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr &&
             arguments.named.empty());
      arguments.positional.push_back(ParseExpression(/*with_inline_if=*/true));
    }
  }
  ExpectOperator(")");
  return arguments;
}

}  // namespace baton::templates
