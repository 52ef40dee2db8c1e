// Where a command writes: a file descriptor, or a string in tests.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

// A stream of bytes to somebody.
// Threads: one at a time; TryWrite any, also beside another call.
class Output {
 public:
  virtual ~Output() = default;

  // Hands all bytes on; when it returns, nothing is held back.
  // Errors: internal (full disk and the like, with the system's words), cancelled (the reader has
  // closed the pipe). After an error every later call fails in the same way.
  virtual Result<> Write(std::string_view bytes) = 0;

  // As Write, but gives up where the reader takes nothing and `may_wait`, which is asked a few
  // times a second, says no. Errors: as Write; deadline (given up; a later call may go on).
  virtual Result<> WriteWhile(std::string_view bytes, const std::function<bool()>& may_wait) = 0;

  // Writes what is taken without waiting, and leaves no trace of a failure: for the last words of a
  // program.
  virtual void TryWrite(std::string_view bytes) = 0;

  // Whether writing failed because nobody reads any more. That is no news to the user.
  virtual bool reader_is_gone() const = 0;
};

// Writes to a file descriptor that it does not own.
class FdOutput final : public Output {
 public:
  // `name` is for messages: "standard output".
  FdOutput(int fd, std::string name);

  Result<> Write(std::string_view bytes) override;
  Result<> WriteWhile(std::string_view bytes, const std::function<bool()>& may_wait) override;
  void TryWrite(std::string_view bytes) override;
  bool reader_is_gone() const override { return error_.code == ErrorCode::kCancelled && failed_; }

 private:
  Result<> Remember(int system_error);

  const int fd_;
  const std::string name_;
  bool failed_ = false;
  Error error_;
};

// Keeps what is written; can be told to fail. Threads: one.
class StringOutput final : public Output {
 public:
  Result<> Write(std::string_view bytes) override;
  Result<> WriteWhile(std::string_view bytes, const std::function<bool()>&) override {
    return Write(bytes);
  }
  void TryWrite(std::string_view bytes) override { (void)Write(bytes); }
  bool reader_is_gone() const override { return closed_; }

  const std::string& text() const { return text_; }

  // From now on writing fails, as if the reader had closed the pipe.
  void Close() { closed_ = true; }

 private:
  std::string text_;
  bool closed_ = false;
};

}  // namespace baton
