// From tokens to the tree: the statements and expressions of Jinja that chat templates use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_ast.h"
#include "text/template_lexer.h"

namespace baton::templates {

// Expressions nested deeper than this, and statements nested deeper than this, are refused.
inline constexpr int kMaxNesting = 200;
// An expression's tree may be at most this deep (long chains of operators are deep trees).
inline constexpr int kMaxTreeDepth = 500;

// Parses the template text.
// Requires: valid UTF-8.
// Errors: throws TemplateFailure(kSyntax) with the place: bad syntax, and statements, filters and
// tests that do not exist.
Body ParseTemplate(std::string_view source);

struct BinaryOperator;

// One pass over the tokens; the statements are in template_parser.cc, the expressions in
// template_expression_parser.cc.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens);
  Body Run();

 private:
  // Tokens.
  const Token& Current() const { return tokens_[index_]; }
  const Token& Next() const;
  Token Take();
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  void ExpectOperator(std::string_view op);
  std::string ExpectName();
  void Expect(TokenType type, std::string_view what);
  [[noreturn]] void Unexpected(std::string_view wanted) const;

  // Statements.
  Body ParseBody(const std::vector<std::string_view>& end_names, const Token* opened_by);
  Body ParseBlockBody(const std::vector<std::string_view>& end_names, const Token& opened_by);
  std::unique_ptr<Stmt> ParseStatement();
  void ParseIf(Stmt* stmt);
  void ParseFor(Stmt* stmt);
  void ParseSet(Stmt* stmt);
  void ParseMacroBody(MacroDefinition* macro, std::string_view end_name, const Token& opened_by);
  void ParseMacro(Stmt* stmt);
  void ParseCallBlock(Stmt* stmt);
  void ParseFilterBlock(Stmt* stmt);
  void ParseWith(Stmt* stmt);
  void ParsePrint(Body* body, Position position);
  void ParseParameters(MacroDefinition* macro);
  void NoteSpecialNames(MacroDefinition* macro, std::size_t first_token) const;
  Target ParseTarget(bool allow_attribute);
  Target ParseSingleTarget(bool allow_attribute);

  // Expressions.
  ExprPtr ParseTupleOrExpression(bool with_inline_if, std::string_view end_name);
  bool AtTupleEnd(std::string_view end_name) const;
  ExprPtr ParseExpression(bool with_inline_if);
  ExprPtr ParseBinary(std::span<const BinaryOperator> level, ExprPtr (Parser::*operand)());
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseOperand();
  ExprPtr ParseUnary(bool with_filters);
  ExprPtr ParsePrimary();
  ExprPtr ParseParenthesized();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseCall(ExprPtr callee);
  ExprPtr ParseFilters(ExprPtr expr);
  std::string ParseDottedName();
  ExprPtr ParseFilter(ExprPtr input);
  ExprPtr ParsePredicate(ExprPtr subject);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseSubscriptPart();
  CallArguments ParseArguments();
  ExprPtr Finish(std::unique_ptr<Expr> expr) const;
  std::unique_ptr<Expr> Make(ExprKind kind, Position position) const;

  class Deeper;

  std::vector<Token> tokens_;
  std::size_t index_ = 0;
  int nesting_ = 0;
  int loops_ = 0;         // for statements around the present place, up to the nearest macro
  bool closure_ = false;  // a macro or call block was read since this was last cleared
};

// Counts a level of nesting while it lives.
class Parser::Deeper {
 public:
  explicit Deeper(Parser* parser) : parser_(parser) {
    if (++parser_->nesting_ > kMaxNesting)
      RaiseSyntax(parser_->Current().position, "the template nests too deeply");
  }
  ~Deeper() { --parser_->nesting_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Parser* parser_;
};

}  // namespace baton::templates
