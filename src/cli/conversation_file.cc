#include "cli/conversation_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>

#include "base/replacing_file.h"
#include "cli/input.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxMessages = 100'000;

// A look at the beginning does not do: the whole is read before it is replaced.
constexpr FileKind kConversationKind = {.name = "a saved conversation",
                                        .holds = [](std::string_view) { return true; },
                                        .is_private = true};

std::string ToJson(const std::vector<ConversationMessage>& messages) {
  Json list = Json::array();
  for (const ConversationMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  const Json json = {{"messages", std::move(list)}};
  return JsonText(json);
}

tl::unexpected<Error> CannotWrite(const std::string& path, int system_error) {
  const ErrorCode code = system_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Fail(code, fmt::format("cannot write '{}': {}", path,
                                std::generic_category().message(system_error)));
}

// Waits until a pipe or device takes more. Errors: cancelled.
Result<> WaitForRoom(int fd, const std::string& path, const Interrupt& interrupt) {
  std::array<pollfd, 2> waiting = {
      pollfd{.fd = fd, .events = POLLOUT, .revents = 0},
      pollfd{.fd = interrupt.wake_fd(), .events = POLLIN, .revents = 0}};
  if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
    return CannotWrite(path, errno);
  }
  if (!interrupt.requested()) return {};
  return Fail(ErrorCode::kCancelled, fmt::format("stopped before all was in '{}'", path));
}

Result<> WriteAll(int fd, std::string_view text, const std::string& path,
                  const Interrupt& interrupt) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const Result<> room = WaitForRoom(fd, path, interrupt);
      if (!room) return room;
    } else if (errno != EINTR) {
      return CannotWrite(path, errno);
    }
  }
  return {};
}

// Writes to something that is no regular file. It is opened without waiting: a pipe that nobody
// reads is an error, not a hang.
Result<> WriteDirectly(const std::string& path, const std::string& text,
                       const Interrupt& interrupt) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotWrite(path, errno);
  const Result<> written = WriteAll(fd, text, path, interrupt);
  if (::close(fd) != 0 && written) return CannotWrite(path, errno);
  return written;
}

// Reads one message, or says what is wrong with it.
Result<ConversationMessage> ReadMessage(const Json& json) {
  const auto text = [&](const char* key) -> const std::string* {
    const auto found = json.find(key);
    return found == json.end() ? nullptr : found->get_ptr<const std::string*>();
  };
  const std::string* role = json.is_object() ? text("role") : nullptr;
  const std::string* content = json.is_object() ? text("content") : nullptr;
  if (role == nullptr || content == nullptr) {
    return Fail(ErrorCode::kInvalid, "needs the texts \"role\" and \"content\"");
  }
  if (*role != "system" && *role != "user" && *role != "assistant") {
    return Fail(ErrorCode::kInvalid, "needs the role system, user or assistant");
  }
  return ConversationMessage{.role = *role, .content = *content};
}

}  // namespace

Result<> SaveConversation(const std::string& path, const std::vector<ConversationMessage>& messages,
                          Interrupt& interrupt) {
  const std::string text = ToJson(messages);
  struct stat old {};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  if (is_there && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
    return WriteDirectly(path, text, interrupt);
  }
  // Else a second Ctrl-C would leave the temporary file.
  const InterruptDelay delay(interrupt);
  Result<ReplacingFile> file = ReplacingFile::Create(path, kConversationKind);
  if (!file) return Forward(file);
  if (is_there && old.st_size > 0 && !LoadConversation(path)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("'{}' is there and is no saved conversation: remove it first, or name "
                            "another file",
                            path));
  }
  const Result<> written = file->WriteAt(0, std::as_bytes(std::span(text)));
  return written ? file->Finish(text.size()) : written;
}

Result<std::vector<ConversationMessage>> LoadConversation(const std::string& path) {
  StringInput no_input{std::string()};
  const Result<std::string> text = ReadTextOrInput(path, no_input);
  if (!text) return Forward(text);
  const auto bad = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalid, fmt::format("'{}' is no saved conversation: {}", path, why));
  };
  // A callback that looks at the depth: parsing nests as deep as the text.
  constexpr int kMaxDepth = 8;
  bool too_deep = false;
  const Json json = Json::parse(
      *text,
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kMaxDepth;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (too_deep) return bad("it nests too deep");
  if (json.is_discarded() || !json.is_object()) return bad("it holds no JSON object");
  const auto list = json.find("messages");
  if (list == json.end() || !list->is_array()) return bad("it has no list \"messages\"");
  if (list->size() > kMaxMessages) return bad(fmt::format("over {} messages", kMaxMessages));
  std::vector<ConversationMessage> messages;
  for (const Json& entry : *list) {
    Result<ConversationMessage> message = ReadMessage(entry);
    if (!message) {
      return bad(fmt::format("message {} {}", messages.size() + 1, message.error().message));
    }
    messages.push_back(std::move(*message));
  }
  return messages;
}

}  // namespace baton
