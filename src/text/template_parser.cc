// The statement half of Parser, and how both halves read tokens.
#include "text/template_parser.h"

#include <algorithm>
#include <utility>

namespace baton::templates {
namespace {

std::string Describe(const Token& token) {
  switch (token.type) {
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kData:
      return "text";
    case TokenType::kBlockEnd:
    case TokenType::kVariableEnd:
      return "the end of the tag";
    case TokenType::kString:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

bool IsOneOf(const Token& token, const std::vector<std::string_view>& names) {
  return token.type == TokenType::kName &&
         std::find(names.begin(), names.end(), token.text) != names.end();
}

}  // namespace

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

const Token& Parser::Next() const {
  return tokens_[std::min(index_ + 1, tokens_.size() - 1)];
}

Token Parser::Take() {
  Token token = tokens_[index_];
  if (index_ + 1 < tokens_.size()) ++index_;
  return token;
}

bool Parser::SkipOperator(std::string_view op) {
  if (!Current().IsOperator(op)) return false;
  ++index_;
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!Current().IsName(name)) return false;
  ++index_;
  return true;
}

void Parser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) Unexpected("'" + std::string(op) + "'");
}

std::string Parser::ExpectName() {
  if (Current().type != TokenType::kName) Unexpected("a name");
  return Take().text;
}

void Parser::Expect(TokenType type, std::string_view what) {
  if (Current().type != type) Unexpected(what);
  ++index_;
}

void Parser::Unexpected(std::string_view wanted) const {
  RaiseSyntax(Current().position,
              "expected " + std::string(wanted) + ", got " + Describe(Current()));
}

Body Parser::Run() {
  return ParseBody({}, nullptr);
}

// Reads statements up to one of `end_names`, which stays the current token (its "{%" is read).
Body Parser::ParseBody(const std::vector<std::string_view>& end_names, const Token* opened_by) {
  const Deeper deeper(this);
  Body body;
  while (Current().type != TokenType::kEnd) {
    const Token token = Take();
    auto stmt = std::make_unique<Stmt>();
    stmt->position = token.position;
    if (token.type == TokenType::kData) {
      stmt->kind = StmtKind::kText;
      stmt->text = token.text;
    } else if (token.type == TokenType::kVariableBegin) {
      stmt->kind = StmtKind::kOutput;
      stmt->expr = ParseTupleOrExpression(/*with_inline_if=*/true, {});
      Expect(TokenType::kVariableEnd, "'}}'");
    } else if (token.type == TokenType::kBlockBegin) {
      if (IsOneOf(Current(), end_names)) return body;
      if (Current().IsName("print")) {
        ++index_;
        ParsePrint(&body, token.position);
        continue;
      }
      stmt = ParseStatement();
      Expect(TokenType::kBlockEnd, "'%}'");
    }
    body.push_back(std::move(stmt));
  }
  if (opened_by != nullptr)
    RaiseSyntax(opened_by->position, "the statement '" + opened_by->text + "' is not closed: '" +
                                         std::string(end_names.back()) + "' is missing");
  return body;
}

Body Parser::ParseBlockBody(const std::vector<std::string_view>& end_names,
                            const Token& opened_by) {
  SkipOperator(":");
  Expect(TokenType::kBlockEnd, "'%}'");
  return ParseBody(end_names, &opened_by);
}

std::unique_ptr<Stmt> Parser::ParseStatement() {
  auto stmt = std::make_unique<Stmt>();
  const Token& token = Current();
  stmt->position = token.position;
  if (token.type != TokenType::kName) Unexpected("the name of a statement");
  const bool outer_closure = std::exchange(closure_, false);
  const std::string& name = token.text;
  if (name == "if") {
    ParseIf(stmt.get());
  } else if (name == "for") {
    ParseFor(stmt.get());
  } else if (name == "set") {
    ParseSet(stmt.get());
  } else if (name == "macro") {
    ParseMacro(stmt.get());
  } else if (name == "call") {
    ParseCallBlock(stmt.get());
  } else if (name == "filter") {
    ParseFilterBlock(stmt.get());
  } else if (name == "with") {
    ParseWith(stmt.get());
  } else if (name == "generation") {
    const Token opened_by = Take();
    stmt->kind = StmtKind::kScope;
    stmt->body = ParseBlockBody({"endgeneration"}, opened_by);
    ++index_;
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) RaiseSyntax(token.position, "'" + name + "' outside of a loop");
    stmt->kind = name == "break" ? StmtKind::kBreak : StmtKind::kContinue;
    ++index_;
  } else {
    RaiseSyntax(token.position, "unknown statement '" + name + "'");
  }
  stmt->holds_closure = closure_;
  closure_ = closure_ || outer_closure;
  return stmt;
}

void Parser::ParseIf(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kIf;
  while (true) {
    Branch branch;
    branch.condition = ParseTupleOrExpression(/*with_inline_if=*/false, {});
    branch.body = ParseBlockBody({"elif", "else", "endif"}, opened_by);
    stmt->branches.push_back(std::move(branch));
    const std::string end = Take().text;
    if (end == "elif") continue;
    if (end == "else") {
      stmt->branches.push_back(Branch{nullptr, ParseBlockBody({"endif"}, opened_by)});
      ++index_;
    }
    return;
  }
}

void Parser::ParseFor(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kFor;
  stmt->target = ParseTarget(/*allow_attribute=*/false);
  if (!SkipName("in")) Unexpected("'in'");
  stmt->expr = ParseTupleOrExpression(/*with_inline_if=*/false, "recursive");
  if (SkipName("if")) stmt->condition = ParseExpression(/*with_inline_if=*/true);
  stmt->recursive = SkipName("recursive");
  ++loops_;
  stmt->body = ParseBlockBody({"else", "endfor"}, opened_by);
  --loops_;
  if (Take().text == "else") {
    stmt->else_body = ParseBlockBody({"endfor"}, opened_by);
    ++index_;
  }
}

void Parser::ParseSet(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->target = ParseTarget(/*allow_attribute=*/true);
  if (SkipOperator("=")) {
    stmt->kind = StmtKind::kSet;
    stmt->expr = ParseTupleOrExpression(/*with_inline_if=*/true, {});
    return;
  }
  stmt->kind = StmtKind::kSetBlock;
  while (SkipOperator("|")) stmt->filter = ParseFilter(std::move(stmt->filter));
  const int loops = std::exchange(loops_, 0);
  stmt->body = ParseBlockBody({"endset"}, opened_by);
  loops_ = loops;
  ++index_;
}

void Parser::ParseParameters(MacroDefinition* macro) {
  ExpectOperator("(");
  bool has_default = false;
  while (!Current().IsOperator(")")) {
    if (!macro->parameters.empty()) ExpectOperator(",");
    if (Current().IsOperator(")")) Unexpected("a name");
    MacroDefinition::Parameter parameter;
    const Position position = Current().position;
    parameter.name = ExpectName();
    if (SkipOperator("=")) {
      parameter.default_value = ParseExpression(/*with_inline_if=*/true);
      has_default = true;
    } else if (has_default) {
      RaiseSyntax(position, "a parameter without a default follows one with a default");
    }
    macro->parameters.push_back(std::move(parameter));
  }
  ExpectOperator(")");
}

void Parser::NoteSpecialNames(MacroDefinition* macro, std::size_t first_token) const {
  for (std::size_t i = first_token; i < index_; ++i) {
    macro->uses_varargs = macro->uses_varargs || tokens_[i].IsName("varargs");
    macro->uses_kwargs = macro->uses_kwargs || tokens_[i].IsName("kwargs");
    macro->uses_caller = macro->uses_caller || tokens_[i].IsName("caller");
  }
}

void Parser::ParseMacroBody(MacroDefinition* macro, std::string_view end_name,
                            const Token& opened_by) {
  const std::size_t first_token = index_;
  const int loops = std::exchange(loops_, 0);
  macro->body = ParseBlockBody({end_name}, opened_by);
  loops_ = loops;
  NoteSpecialNames(macro, first_token);
  macro->holds_closure = std::exchange(closure_, true);
  ++index_;
}

void Parser::ParseMacro(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kMacro;
  stmt->macro.name = ExpectName();
  ParseParameters(&stmt->macro);
  ParseMacroBody(&stmt->macro, "endmacro", opened_by);
}

void Parser::ParseCallBlock(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kCallBlock;
  stmt->macro.name = "caller";
  if (Current().IsOperator("(")) ParseParameters(&stmt->macro);
  stmt->expr = ParseExpression(/*with_inline_if=*/true);
  if (stmt->expr->kind != ExprKind::kCall)
    RaiseSyntax(stmt->expr->position, "a call block needs a call");
  ParseMacroBody(&stmt->macro, "endcall", opened_by);
}

void Parser::ParseFilterBlock(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kFilterBlock;
  stmt->filter = ParseFilter(nullptr);
  while (SkipOperator("|")) stmt->filter = ParseFilter(std::move(stmt->filter));
  const int loops = std::exchange(loops_, 0);
  stmt->body = ParseBlockBody({"endfilter"}, opened_by);
  loops_ = loops;
  ++index_;
}

void Parser::ParseWith(Stmt* stmt) {
  const Token opened_by = Take();
  stmt->kind = StmtKind::kWith;
  while (Current().type != TokenType::kBlockEnd) {
    if (!stmt->withs.empty()) ExpectOperator(",");
    Target target = ParseTarget(/*allow_attribute=*/false);
    ExpectOperator("=");
    stmt->withs.emplace_back(std::move(target), ParseExpression(/*with_inline_if=*/true));
  }
  stmt->body = ParseBlockBody({"endwith"}, opened_by);
  ++index_;
}

void Parser::ParsePrint(Body* body, Position position) {
  bool first = true;
  while (Current().type != TokenType::kBlockEnd) {
    if (!first) ExpectOperator(",");
    first = false;
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::kOutput;
    stmt->position = position;
    stmt->expr = ParseExpression(/*with_inline_if=*/true);
    body->push_back(std::move(stmt));
  }
  ++index_;
}

Target Parser::ParseSingleTarget(bool allow_attribute) {
  const Deeper deeper(this);
  if (SkipOperator("(")) {
    Target target = ParseTarget(/*allow_attribute=*/allow_attribute);
    ExpectOperator(")");
    return target;
  }
  Target target;
  target.position = Current().position;
  target.name = ExpectName();
  constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants))
    RaiseSyntax(target.position, "cannot assign to '" + target.name + "'");
  if (allow_attribute && SkipOperator(".")) target.attribute = ExpectName();
  return target;
}

Target Parser::ParseTarget(bool allow_attribute) {
  Target first = ParseSingleTarget(allow_attribute);
  if (!Current().IsOperator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.position = first.position;
  tuple.parts.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (Current().IsName("in") || Current().IsOperator(")")) break;
    tuple.parts.push_back(ParseSingleTarget(allow_attribute));
  }
  return tuple;
}

Body ParseTemplate(std::string_view source) {
  return Parser(Tokenize(source)).Run();
}

}  // namespace baton::templates
