#include "format/gguf_split.h"

#include <fmt/format.h>

#include "format/byte_reader.h"

namespace baton {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// The number in exactly five digits, or nothing.
std::optional<uint32_t> ParseFiveDigits(std::string_view text) {
  if (text.size() != kDigits) return std::nullopt;
  uint32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number;
}

Result<uint64_t> ReadKey(const GgufPart& part, const std::string& path, std::string_view key) {
  const GgufValue* value = part.Find(key);
  const std::optional<uint64_t> number = value != nullptr ? value->AsUint64() : std::nullopt;
  if (!number) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: a part of a split model needs the integer key {}, it {}", path,
                            key, value != nullptr ? "has another type" : "is missing"));
  }
  return *number;
}

}  // namespace

std::string GgufPartName::PathOf(uint32_t k) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, k, count);
}

std::optional<GgufPartName> ParseGgufPartName(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  constexpr size_t kSuffix = 1 + kDigits + kOf.size() + kDigits + kExtension.size();
  if (path.size() <= base + kSuffix || !path.ends_with(kExtension)) return std::nullopt;
  const std::string_view suffix = path.substr(path.size() - kSuffix);
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = ParseFiveDigits(suffix.substr(1, kDigits));
  const auto count = ParseFiveDigits(suffix.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return GgufPartName{.prefix = std::string(path.substr(0, path.size() - kSuffix)),
                      .number = *number,
                      .count = *count};
}

Result<GgufSplitInfo> ReadGgufSplitInfo(const GgufPart& part, const std::string& path) {
  if (part.Find("split.count") == nullptr && part.Find("split.no") == nullptr) {
    return GgufSplitInfo{};
  }
  const Result<uint64_t> count = ReadKey(part, path, "split.count");
  if (!count) return Forward(count);
  if (*count <= 1) return GgufSplitInfo{.index = 0, .count = *count, .num_tensors = 0};
  if (*count > GgufLimits::kMaxParts) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: split.count is over the limit: {}, limit {}",
                                                 path, *count, GgufLimits::kMaxParts));
  }
  const Result<uint64_t> index = ReadKey(part, path, "split.no");
  if (!index) return Forward(index);
  if (*index >= *count) {
    return Fail(
        ErrorCode::kCorrupt,
        fmt::format("{}: split.no must be below split.count: {}, count {}", path, *index, *count));
  }
  const Result<uint64_t> num_tensors = ReadKey(part, path, "split.tensors.count");
  if (!num_tensors) return Forward(num_tensors);
  return GgufSplitInfo{.index = *index, .count = *count, .num_tensors = *num_tensors};
}

}  // namespace baton
