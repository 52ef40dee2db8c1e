#include "cli/conversation_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/input.h"
#include "cli/output.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxMessages = 100'000;

std::string ToJson(const std::vector<ConversationMessage>& messages) {
  Json list = Json::array();
  for (const ConversationMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  const Json json = {{"messages", std::move(list)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

tl::unexpected<Error> CannotWrite(const std::string& path, int system_error) {
  const ErrorCode code = system_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Fail(code, fmt::format("cannot write '{}': {}", path,
                                std::generic_category().message(system_error)));
}

// Writes all of it and, for a file, waits until the disk has it; says which errno stopped it.
int WriteAndClose(int fd, const std::string& text, bool is_file) {
  size_t done = 0;
  int failure = 0;
  while (done < text.size() && failure == 0) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      failure = errno;
    }
  }
  if (failure == 0 && is_file && ::fsync(fd) != 0) failure = errno;
  if (::close(fd) != 0 && failure == 0) failure = errno;
  return failure;
}

Result<> WriteDirectly(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotWrite(path, errno);
  const int failure = WriteAndClose(fd, text, false);
  if (failure != 0) return CannotWrite(path, failure);
  return {};
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

Result<> SaveConversation(const std::string& path,
                          const std::vector<ConversationMessage>& messages) {
  const std::string text = ToJson(messages);
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return CannotWrite(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return WriteDirectly(path, text);
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return CannotWrite(path, errno);
  // mkstemp gives 0600; a file that is replaced keeps its mode.
  if (exists) (void)::fchmod(fd, status.st_mode & 07777);
  int failure = WriteAndClose(fd, text, true);
  if (failure == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return {};
  (void)::unlink(temporary.c_str());
  return CannotWrite(path, failure);
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
