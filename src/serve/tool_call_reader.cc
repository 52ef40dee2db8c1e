#include "serve/tool_call_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/json_body.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kOpenTag = "<tool_call>";
constexpr std::string_view kCloseTag = "</tool_call>";
constexpr std::string_view kBracketMark = "[TOOL_CALLS]";
// May stand before a bare call.
constexpr std::string_view kBareMark = "<|python_tag|>";
// So many spaces are held until it is clear whether they belong to a call.
constexpr size_t kMaxSpaces = 256;

void DropSpaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
}

// The arguments as an object: some models write its JSON as a string. Null: neither.
Json ArgumentsOf(const Json& call) {
  for (const char* name : {"arguments", "parameters"}) {
    const auto found = call.find(name);
    if (found == call.end()) continue;
    if (found->is_object()) return *found;
    if (!found->is_string()) return nullptr;
    const auto parsed = ParseJsonBody(found->get_ref<const std::string&>());
    return parsed ? *parsed : Json();
  }
  return Json::object();
}

}  // namespace

std::optional<ToolFormat> ToolFormatOf(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != source.npos; };
  // Variants of these forms whose calls are no JSON.
  if (has("<function=") || has("[ARGS]")) return std::nullopt;
  if (has(kOpenTag)) return ToolFormat::kTagged;
  if (has(kBracketMark)) return ToolFormat::kBracket;
  if (has("ipython") && has("\"parameters\"")) return ToolFormat::kBare;
  return std::nullopt;
}

ToolPiece ToolCallReader::Push(std::string_view text) {
  ToolPiece piece;
  for (const char c : text) {
    if (state_ == State::kText) {
      PushText(c, piece);
    } else if (state_ == State::kCall) {
      PushCall(c, piece);
    } else {
      GiveText({&c, 1}, piece);
    }
  }
  return piece;
}

ToolPiece ToolCallReader::Finish() {
  ToolPiece piece;
  // The last closing tag is often left out.
  if (state_ == State::kCall && rules_->format == ToolFormat::kTagged) {
    EndCall(std::string_view(held_).substr(body_begin_), piece);
  }
  GiveText(held_, piece);
  held_.clear();
  return piece;
}

// Whether more text may make a call's beginning of this one.
bool ToolCallReader::MayBegin(std::string_view text) const {
  if (text.find_first_not_of(kSpaces) > kMaxSpaces && text.size() > kMaxSpaces) return false;
  DropSpaces(text);
  if (rules_->format == ToolFormat::kTagged) return kOpenTag.starts_with(text);
  if (rules_->format == ToolFormat::kBracket) return kBracketMark.starts_with(text);
  if (num_calls_ > 0 && (text.starts_with(';') || text.starts_with(','))) {
    text.remove_prefix(1);
    DropSpaces(text);
  }
  if (kBareMark.starts_with(text)) return true;
  if (text.starts_with(kBareMark)) text.remove_prefix(kBareMark.size());
  DropSpaces(text);
  return text.empty() || text == "{";
}

// Requires: MayBegin(held_).
bool ToolCallReader::HasBegun() const {
  switch (rules_->format) {
    case ToolFormat::kTagged:
      return held_.ends_with(kOpenTag);
    case ToolFormat::kBracket:
      return held_.ends_with(kBracketMark);
    case ToolFormat::kBare:
      break;
  }
  return held_.ends_with('{');
}

void ToolCallReader::PushText(char c, ToolPiece& piece) {
  held_ += c;
  if (!MayBegin(held_)) {
    // Bare calls are at the answer's beginning or nowhere.
    size_t num_text = held_.size();
    if (rules_->format == ToolFormat::kBare) {
      state_ = State::kRest;
    } else {
      num_text = 1;
      while (!MayBegin(std::string_view(held_).substr(num_text))) ++num_text;
    }
    GiveText(std::string_view(held_).substr(0, num_text), piece);
    held_.erase(0, num_text);
    return;
  }
  if (!HasBegun()) return;
  state_ = State::kCall;
  depth_ = 0;
  in_string_ = escaped_ = false;
  body_begin_ = held_.size();
  if (rules_->format != ToolFormat::kBare) return;
  --body_begin_;
  (void)EndsJson('{');
}

void ToolCallReader::PushCall(char c, ToolPiece& piece) {
  held_ += c;
  const std::string_view body = std::string_view(held_).substr(body_begin_);
  if (rules_->format == ToolFormat::kTagged) {
    if (body.ends_with(kCloseTag)) EndCall(body.substr(0, body.size() - kCloseTag.size()), piece);
    return;
  }
  if (depth_ == 0 && kSpaces.find(c) != kSpaces.npos && body.size() <= kMaxSpaces) return;
  const bool is_list = rules_->format != ToolFormat::kBracket || depth_ > 0 || c == '[';
  if (!is_list || EndsJson(c)) EndCall(body, piece);
}

// Whether the character closes the JSON's outermost bracket.
bool ToolCallReader::EndsJson(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ <= 0;
}

// What is held is a call, or text.
void ToolCallReader::EndCall(std::string_view json, ToolPiece& piece) {
  const bool is_call = TakeCalls(json, piece);
  const bool is_bare = rules_->format == ToolFormat::kBare;
  state_ = !is_call && is_bare ? State::kRest : State::kText;
  if (is_call) after_call_ = true;
  if (!is_call) GiveText(held_, piece);
  held_.clear();
}

bool ToolCallReader::TakeCalls(std::string_view json, ToolPiece& piece) {
  const auto parsed = ParseJsonBody("{\"calls\":" + std::string(json) + "}");
  if (!parsed || parsed->size() != 1) return false;
  const Json& given = parsed->front();
  const bool is_list = rules_->format == ToolFormat::kBracket;
  if (is_list ? !given.is_array() || given.empty() : !given.is_object()) return false;
  std::vector<ToolCall> calls;
  for (const Json& call : is_list ? given : Json::array({given})) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
    const auto& name = call["name"].get_ref<const std::string&>();
    const Json arguments = ArgumentsOf(call);
    const auto& names = rules_->names;
    if (!arguments.is_object() || std::find(names.begin(), names.end(), name) == names.end()) {
      return false;
    }
    calls.push_back({.name = name, .arguments = arguments.dump()});
  }
  num_calls_ += std::ssize(calls);
  std::move(calls.begin(), calls.end(), std::back_inserter(piece.calls));
  return true;
}

void ToolCallReader::GiveText(std::string_view text, ToolPiece& piece) {
  if (after_call_) DropSpaces(text);
  if (text.empty()) return;
  after_call_ = false;
  piece.text += text;
}

}  // namespace baton
