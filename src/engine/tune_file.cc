#include "engine/tune_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

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

// The model's path, as a tune file's name has it.
std::string_view ModelOf(std::string_view path) {
  constexpr std::string_view kEnding = ".tune.json";
  if (path.ends_with(kEnding)) path.remove_suffix(kEnding.size());
  return path;
}

std::string Again(const std::string& path) {
  return fmt::format("make it anew with: baton tune {} --text FILE", ShellPath(std::string(ModelOf(path))));
}

tl::unexpected<Error> Damaged(const std::string& path, std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: a damaged tune file: {}; {}", path, what, Again(path)));
}

Result<std::string> ReadSmallFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr && errno == ENOENT) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: the model is not tuned; tune it with: baton tune {} --text FILE", path,
                            ShellPath(std::string(ModelOf(path)))));
  }
  if (file == nullptr) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  }
  std::string text(kMaxTuneFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return Fail(ErrorCode::kInternal, fmt::format("{}: cannot be read", path));
  }
  if (text.size() > kMaxTuneFileBytes) return Damaged(path, "it is longer than 256 KiB");
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
Result<Json> ParseTuning(const std::string& path, const std::string& text) {
  // Depth and size of what is parsed are bounded by the file's.
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return Damaged(path, "it is no JSON object");
  const Json* version = Find(json, "baton_tune");
  if (version == nullptr || !version->is_number_integer()) {
    return Damaged(path, "'baton_tune' is missing");
  }
  if (version->get<int64_t>() > kTuneFileVersion) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: a tune file of version {}; this program knows versions up to {}; "
                            "use a newer one, or {}",
                            path, version->get<int64_t>(), kTuneFileVersion, Again(path)));
  }
  if (version->get<int64_t>() < 1) return Damaged(path, "'baton_tune' is below 1");
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
  const Result<std::string> text = ReadSmallFile(path);
  if (!text) return Forward(text);
  const Result<Json> json = ParseTuning(path, *text);
  if (!json) return Forward(json);
  const Json* fingerprint = Find(*json, "model");
  if (fingerprint == nullptr || !fingerprint->is_string()) {
    return Damaged(path, "'model' is missing");
  }
  if (fingerprint->get_ref<const std::string&>() != HashText(model.fingerprint)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: tuned for another model file; {}", path, Again(path)));
  }
  const Json* words = Find(*json, "policy");
  if (words == nullptr || !words->is_string()) return Damaged(path, "'policy' is missing");
  Result<SparsePolicy> policy =
      ParsePolicy(words->get_ref<const std::string&>(), DefaultSparsePolicy());
  if (!policy) return Damaged(path, policy.error().message);
  if (const Result<> valid = ValidatePolicyFor(*policy, model.model); !valid) {
    return Damaged(path, valid.error().message);
  }
  const Json* tokens = Find(*json, "break_even_tokens");
  const bool is_count = tokens != nullptr && tokens->is_number_unsigned() &&
                        tokens->get<uint64_t>() <= static_cast<uint64_t>(kNoPrompt);
  if (tokens == nullptr || (!is_count && !tokens->is_null())) {
    return Damaged(path, "'break_even_tokens' is no count of tokens and not null");
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
