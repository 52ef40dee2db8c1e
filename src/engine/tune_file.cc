#include "engine/tune_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/replacing_file.h"
#include "base/shell_text.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Prompts are never so long.
constexpr int64_t kNoPrompt = int64_t{1} << 40;
constexpr std::string_view kFirstKey = "\"baton_tune\"";

// A brace, blanks and the first key: what this program writes.
bool HoldsTuning(std::string_view head) {
  size_t at = head.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || head[at] != '{') return false;
  at = head.find_first_not_of(" \t\r\n", at + 1);
  return at != std::string_view::npos && head.substr(at).starts_with(kFirstKey);
}

constexpr FileKind kTuneKind = {.name = "a tune file", .holds = HoldsTuning};

// The file that is read, and what makes it.
struct Place {
  const std::string& path;
  std::string tune;       // the command
  std::string elsewhere;  // what to do if the file there must stay
  bool is_usual = false;  // beside the model, and not named
};

Place PlaceOf(const std::string& path, const std::string& usual_path) {
  constexpr std::string_view kEnding = ".tune.json";
  std::string_view model = usual_path;
  if (model.ends_with(kEnding)) model.remove_suffix(kEnding.size());
  const std::string tune = fmt::format("baton tune {} --text FILE", ShellPath(std::string(model)));
  if (path == usual_path) {
    return {.path = path,
            .tune = tune,
            .elsewhere = "move it away, and make one with: " + tune,
            .is_usual = true};
  }
  return {.path = path,
          .tune = fmt::format("{} --tune-file {}", tune, ShellPath(path)),
          .elsewhere = fmt::format("name another, or make one with: {} --tune-file NEW", tune)};
}

std::string Again(const Place& place) {
  return "make it anew with: " + place.tune;
}

tl::unexpected<Error> Damaged(const Place& place, std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: a damaged tune file: {}; {}", place.path, what, Again(place)));
}

// What stands there is not ours, so 'baton tune' would not replace it.
tl::unexpected<Error> Foreign(const Place& place, std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: is not a tune file: {}; {}", place.path, what, place.elsewhere));
}

tl::unexpected<Error> CannotRead(const Place& place, int system_error) {
  const bool is_missing =
      system_error == ENOENT || system_error == ENOTDIR || system_error == ENAMETOOLONG;
  if (is_missing && place.is_usual) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: the model is not tuned; tune it with: {}",
                                                  place.path, place.tune));
  }
  if (system_error == ENOENT) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: there is no such file; make it with: {}", place.path, place.tune));
  }
  if (is_missing) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: {}; {}", place.path, std::generic_category().message(system_error),
                            place.elsewhere));
  }
  if (system_error == EACCES || system_error == EPERM) {
    return Fail(ErrorCode::kInvalid, place.path + ": no permission to read it; see ls -l");
  }
  return Fail(ErrorCode::kInternal,
              fmt::format("{}: cannot be read: {}; delete it, and {}", place.path,
                          std::generic_category().message(system_error), Again(place)));
}

// What stands in the place of a file; nothing for a file.
std::string_view OtherKind(mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return "a device or socket";
}

Result<std::string> ReadSmallFile(const Place& place) {
  // O_NONBLOCK: opening a pipe without a writer would wait for one.
  const Descriptor file(::open(place.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!file.is_open() && errno != ENXIO) return CannotRead(place, errno);
  if (file.is_open() && ::fstat(file.get(), &status) != 0) return CannotRead(place, errno);
  // A socket cannot even be opened.
  if (const std::string_view kind = OtherKind(!file.is_open() ? S_IFSOCK : status.st_mode);
      !kind.empty()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: is {}, not a tune file; {}", place.path, kind, place.elsewhere));
  }
  std::string text(kMaxTuneFileBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(place, errno);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  if (text.empty()) return Damaged(place, "it is empty");
  if (!HoldsTuning(text)) return Foreign(place, "it does not begin as one");
  if (text.size() > kMaxTuneFileBytes) return Damaged(place, "it is longer than 256 KiB");
  return text;
}

const Json* Find(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

std::string HashText(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

// The fields that do not depend on which model it is.
Result<Json> ParseTuning(const Place& place, const std::string& text) {
  // Depth and size of what is parsed are bounded by the file's.
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return Damaged(place, "it is no JSON object");
  const Json* version = Find(json, "baton_tune");
  if (version == nullptr || !version->is_number_integer()) {
    return Damaged(place, "'baton_tune' is missing");
  }
  if (version->get<int64_t>() > kTuneFileVersion) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: a tune file of version {}; this program knows versions up to {}; "
                            "use a newer one, or {}",
                            place.path, version->get<int64_t>(), kTuneFileVersion, Again(place)));
  }
  if (version->get<int64_t>() < 1) return Damaged(place, "'baton_tune' is below 1");
  return json;
}

}  // namespace

SparsePolicy Tuning::AutoPolicy() const {
  SparsePolicy used = policy;
  used.min_prompt_tokens = break_even_tokens.value_or(kNoPrompt);
  return used;
}

std::string TunePathOf(const GgufFile& file) {
  return file.part_paths().front() + ".tune.json";
}

Result<Tuning> ReadTuneFile(const std::string& path, const TuneFileModel& model) {
  const Place place = PlaceOf(path, model.usual_path);
  const Result<std::string> text = ReadSmallFile(place);
  if (!text) return Forward(text);
  const Result<Json> json = ParseTuning(place, *text);
  if (!json) return Forward(json);
  const Json* fingerprint = Find(*json, "model");
  if (fingerprint == nullptr || !fingerprint->is_string()) {
    return Damaged(place, "'model' is missing");
  }
  if (fingerprint->get_ref<const std::string&>() != HashText(model.fingerprint)) {
    return Fail(ErrorCode::kInvalid, fmt::format("{}: tuned for another model file; {}", path,
                                                 place.is_usual ? Again(place) : place.elsewhere));
  }
  const Json* words = Find(*json, "policy");
  if (words == nullptr || !words->is_string()) return Damaged(place, "'policy' is missing");
  Result<SparsePolicy> policy =
      ParsePolicy(words->get_ref<const std::string&>(), DefaultSparsePolicy());
  if (!policy) return Damaged(place, policy.error().message);
  if (const Result<> valid = ValidatePolicyFor(*policy, model.model); !valid) {
    return Damaged(place, valid.error().message);
  }
  const Json* tokens = Find(*json, "break_even_tokens");
  const bool is_count = tokens != nullptr && tokens->is_number_unsigned() &&
                        tokens->get<uint64_t>() <= static_cast<uint64_t>(kNoPrompt);
  if (tokens == nullptr || (!is_count && !tokens->is_null())) {
    return Damaged(place, "'break_even_tokens' is no count of tokens and not null");
  }
  Tuning tuning{.path = path, .policy = *std::move(policy), .break_even_tokens = std::nullopt};
  if (is_count) tuning.break_even_tokens = tokens->get<int64_t>();
  return tuning;
}

Result<> CheckTunePath(const std::string& path) {
  const Result<ReplacingFile> file = ReplacingFile::Create(path, kTuneKind);
  return file ? Result<>() : Forward(file);
}

Result<> WriteTuneFile(const WriteTuneFileArgs& args) {
  const Tuning& tuning = args.tuning;
  Json json = {{"baton_tune", kTuneFileVersion},
               {"model", HashText(args.fingerprint)},
               {"policy", PolicyText(tuning.policy)},
               {"break_even_tokens", nullptr},
               {"measured", Json::parse(args.measured)}};
  if (tuning.break_even_tokens) json["break_even_tokens"] = *tuning.break_even_tokens;
  const std::string text = json.dump(2) + "\n";
  Result<ReplacingFile> file = ReplacingFile::Create(tuning.path, kTuneKind);
  if (!file) return Forward(file);
  if (Result<> written = file->WriteAt(0, std::as_bytes(std::span(text))); !written) return written;
  return file->Finish(text.size());
}

}  // namespace baton
