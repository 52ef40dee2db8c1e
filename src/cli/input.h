// What a command reads: files, standard input, lines of a conversation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

namespace baton {

// The most that is taken from one text file or from standard input: far beyond any context, but
// short of filling the memory. Units: bytes.
constexpr uint64_t kMaxInputBytes = uint64_t{64} << 20;

// A stream of bytes from somebody.
class Input {
 public:
  enum class LineState { kLine, kEnd, kInterrupted };
  struct Line {
    LineState state = LineState::kEnd;
    std::string text;  // without its end; empty unless kLine
  };

  virtual ~Input() = default;

  // Everything up to the end. Errors: internal (cannot be read), exhausted (over max_bytes).
  virtual Result<std::string> ReadAll(uint64_t max_bytes) = 0;

  // The next line. A last line without an end counts; an interrupt drops what was half typed.
  // Errors: internal (cannot be read), exhausted (a line over kMaxInputBytes).
  virtual Result<Line> ReadLine() = 0;

  // Whether there is text that nobody types: of a pipe, a socket or a file. Waits so long at most
  // for the first of it, or for the end; takes nothing.
  virtual bool HasText(int patience_ms) const = 0;

  // Between the two, what is typed is not echoed, and not lost. Nothing unless somebody types.
  virtual void HoldEcho() {}
  virtual void ReleaseEcho() {}

  // What is there already of the next line and was not echoed, with its end if that was typed; to
  // be shown behind the prompt.
  virtual std::string Unechoed() const { return {}; }
};

// Reads a descriptor that it does not own.
class FdInput final : public Input {
 public:
  struct Options {
    std::string name;                // for messages
    Interrupt* interrupt = nullptr;  // is looked at while waiting for a line; null: never comes
    TerminalEcho* echo = nullptr;    // of the descriptor; null: is left alone
  };
  FdInput(int fd, Options options);

  Result<std::string> ReadAll(uint64_t max_bytes) override;
  Result<Line> ReadLine() override;
  bool HasText(int patience_ms) const override;
  void HoldEcho() override;
  void ReleaseEcho() override;
  std::string Unechoed() const override;

 private:
  enum class Fill { kBytes, kEnd, kInterrupted };
  Result<Fill> FillBuffer(bool watch_interrupt);

  int fd_;
  std::string name_;
  Interrupt* interrupt_;
  TerminalEcho* echo_;
  std::string buffer_;
  size_t num_unechoed_ = 0;  // bytes at the start of buffer_
  bool is_ended_ = false;    // Ctrl-D was typed while the echo was held
};

// Reads a string.
class StringInput final : public Input {
 public:
  explicit StringInput(std::string text) : text_(std::move(text)) {}
  Result<std::string> ReadAll(uint64_t max_bytes) override;
  Result<Line> ReadLine() override;
  bool HasText(int) const override { return position_ < text_.size(); }

 private:
  std::string text_;
  size_t position_ = 0;
};

// Reads a whole regular file, pipe or device; `-` is `standard_input`.
// Errors: not-found, internal (no permission, a directory, a read error), exhausted (over
// kMaxInputBytes).
Result<std::string> ReadTextOrInput(const std::string& path, Input& standard_input);

// Passes text on if it is UTF-8. Errors: invalid, with the name and the offset of the first byte
// that is not.
Result<std::string> RequireUtf8(std::string text, std::string_view name);

}  // namespace baton
