#include "text/content_guard.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace baton {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The byte ranges of a text without the blanks at its ends.
struct Inside {
  size_t begin = 0;
  size_t end = 0;
};

Inside WithoutBlanks(std::string_view text) {
  Inside inside;
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text, at);
    if (!IsUnicodeSpace(step.code_point)) {
      if (!found) inside.begin = at;
      found = true;
      inside.end = at + step.length;
    }
    at += step.length;
  }
  return inside;
}

bool StartsALongerOne(const std::vector<std::string>& ascending, std::string_view part) {
  const auto next = std::upper_bound(ascending.begin(), ascending.end(), part);
  return next != ascending.end() && next->starts_with(part);
}

// Whether an end of the text, of fewer bytes than `longest`, starts one of the names.
bool EndStartsAName(std::string_view text, const std::vector<std::string>& ascending,
                    size_t longest) {
  for (size_t bytes = 1; bytes < longest && bytes <= text.size(); ++bytes) {
    if (StartsALongerOne(ascending, text.substr(text.size() - bytes))) return true;
  }
  return false;
}

std::string Backward(std::string_view text) {
  return std::string(text.rbegin(), text.rend());
}

}  // namespace

ContentGuard::ContentGuard(std::vector<std::string> names) {
  std::vector<AddedToken> singles = {{std::string(kContentGuard), 0}};
  std::vector<AddedToken> others;
  for (std::string& name : names) {
    if (name.empty()) continue;
    if (StepUtf8(name, 0).length == name.size()) {
      singles.push_back({std::move(name), 0});
      continue;
    }
    longest_ = std::max(longest_, name.size());
    backward_.push_back(Backward(name));
    others.push_back({name, 0});
    forward_.push_back(std::move(name));
  }
  std::sort(forward_.begin(), forward_.end());
  std::sort(backward_.begin(), backward_.end());
  singles_ = AddedTokens(std::move(singles));
  names_ = AddedTokens(std::move(others));
}

std::string ContentGuard::ReplaceSingles(std::string_view content) const {
  std::string out;
  size_t position = 0;
  while (const auto match = singles_.FindNext(content, position)) {
    out.append(content.substr(position, match->begin - position)).append(kReplacement);
    position = match->end;
  }
  return out.append(content.substr(position));
}

std::string ContentGuard::Guard(std::string_view content) const {
  const std::string replaced = ReplaceSingles(content);
  const std::string_view text = replaced;
  const Inside inside = WithoutBlanks(text);
  std::vector<size_t> guards;  // offsets in text, ascending
  const std::string head =
      Backward(text.substr(inside.begin, std::min(longest_, inside.end - inside.begin)));
  if (EndStartsAName(head, backward_, longest_)) guards.push_back(inside.begin);
  size_t position = 0;
  while (const auto match = names_.FindNext(text, position)) {
    position = match->begin + StepUtf8(text, match->begin).length;
    guards.push_back(position);
  }
  if (EndStartsAName(text.substr(0, inside.end), forward_, longest_)) {
    guards.push_back(inside.end);
  }
  std::sort(guards.begin(), guards.end());
  std::string out;
  position = 0;
  for (const size_t guard : guards) {
    out.append(text.substr(position, guard - position)).append(kContentGuard);
    position = guard;
  }
  return out.append(text.substr(position));
}

UnguardedText RemoveGuards(std::string_view text) {
  UnguardedText out;
  size_t position = 0;
  for (size_t found = text.find(kContentGuard); found != std::string_view::npos;
       found = text.find(kContentGuard, position)) {
    out.text.append(text.substr(position, found - position));
    out.guards.push_back(out.text.size());
    position = found + kContentGuard.size();
  }
  out.text.append(text.substr(position));
  return out;
}

}  // namespace baton
