#include "cli/chat_input.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "cli/printable.h"

namespace baton {
namespace {

constexpr std::string_view kFence = "\"\"\"";
constexpr size_t kMaxShownBytes = 10000;
constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

ChatEntry CommandOf(std::string_view line) {
  line = Trim(line.substr(1));
  const size_t blank = line.find_first_of(kBlanks);
  ChatEntry entry = {.kind = ChatEntry::Kind::kCommand,
                     .text = {},
                     .name = std::string(line.substr(0, blank)),
                     .argument = {}};
  if (blank != line.npos) entry.argument = std::string(Trim(line.substr(blank)));
  return entry;
}

// A line that was typed ahead, or its beginning, as the terminal would have shown it.
std::string Shown(std::string typed) {
  const bool ends = typed.ends_with('\n');
  if (ends) typed.pop_back();
  return Printable(typed, kMaxShownBytes) + (ends ? "\n" : "");
}

// Whether a line is nothing but keys that are no characters, such as the arrows: a terminal that
// edits no lines passes them on as sequences that begin with escape.
bool IsKeysOnly(std::string_view line) {
  constexpr char kEscape = '\x1b';
  line = Trim(line);
  if (line.empty()) return false;
  while (!line.empty()) {
    if (line.front() != kEscape) return false;
    const size_t end = line.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz~",
                                          line.starts_with("\x1bO") ? 2 : 1);
    if (end == line.npos) return false;
    line.remove_prefix(end + 1);
  }
  return true;
}

// A message that grows line by line until `complete`.
class MessageBuilder {
 public:
  void Add(std::string_view line) {
    if (!started_ && line.starts_with(kFence)) {
      fenced_ = true;
      line.remove_prefix(kFence.size());
      started_ = true;
      AddFenced(line, /*first=*/true);
      return;
    }
    if (fenced_) {
      AddFenced(line, /*first=*/false);
      return;
    }
    if (started_) text_ += '\n';
    started_ = true;
    complete_ = !line.ends_with('\\');
    if (!complete_) line.remove_suffix(1);
    text_ += line;
  }

  bool complete() const { return complete_; }
  bool started() const { return started_; }
  size_t size() const { return text_.size(); }
  std::string Take() { return std::move(text_); }

 private:
  void AddFenced(std::string_view line, bool first) {
    const size_t end = line.find(kFence);
    complete_ = end != line.npos;
    if (complete_) line = line.substr(0, end);
    // Neither the line of the opening nor that of the closing fence adds a line of its own.
    if (complete_ && line.empty()) return;
    if (!first && (has_lines_ || !text_.empty())) text_ += '\n';
    has_lines_ = has_lines_ || !first;
    text_ += line;
  }

  std::string text_;
  bool started_ = false;
  bool fenced_ = false;
  bool has_lines_ = false;
  bool complete_ = false;
};

}  // namespace

Result<ChatEntry> ReadChatEntry(Input& input, Output* prompts) {
  MessageBuilder message;
  while (!message.complete()) {
    if (prompts != nullptr) {
      const Result<> prompted =
          prompts->Write((message.started() ? "... " : "> ") + Shown(input.Unechoed()));
      if (!prompted) return Forward(prompted);
    }
    const Result<Input::Line> line = input.ReadLine();
    if (!line) return Forward(line);
    if (line->state == Input::LineState::kInterrupted) {
      return ChatEntry{
          .kind = ChatEntry::Kind::kInterrupted, .text = {}, .name = {}, .argument = {}};
    }
    if (line->state == Input::LineState::kEnd) {
      if (message.started() && message.size() > 0) break;
      return ChatEntry{.kind = ChatEntry::Kind::kEnd, .text = {}, .name = {}, .argument = {}};
    }
    if (!message.started()) {
      if (Trim(line->text).empty() || IsKeysOnly(line->text)) continue;
      if (line->text.starts_with('/')) return CommandOf(line->text);
    }
    message.Add(line->text);
    if (message.size() > kMaxMessageBytes) {
      return Fail(ErrorCode::kExhausted,
                  fmt::format("a message is longer than {}", BytesText(kMaxMessageBytes)));
    }
  }
  return ChatEntry{
      .kind = ChatEntry::Kind::kMessage, .text = message.Take(), .name = {}, .argument = {}};
}

}  // namespace baton
