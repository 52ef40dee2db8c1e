// GgufFile::Open and Parse: reads the parts, holds them against each other and joins them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "format/byte_reader.h"
#include "format/gguf.h"
#include "format/gguf_part.h"
#include "format/gguf_split.h"

namespace baton {

class GgufAssembler {
 public:
  explicit GgufAssembler(const std::string& name) { file_.name_ = name; }

  Result<GgufFile> Open();
  Result<GgufFile> Parse(std::span<const std::byte> image);

 private:
  struct OpenPart {
    MappedFile mapping;
    GgufPart part;
    GgufSplitInfo split;
  };

  static Result<OpenPart> ReadPart(const std::string& path);
  static Result<void> CheckWhole(const OpenPart& opened, const std::string& path);
  static Result<void> CheckAgainstName(const OpenPart& opened, const GgufPartName& name,
                                       uint32_t number);
  Result<void> CheckAgainstFirst(const OpenPart& opened, const std::string& path) const;
  Result<void> AddPart(OpenPart opened, const std::string& path);
  Result<GgufFile> Finish();

  GgufFile file_;
  uint64_t expected_tensors_ = 0;
};

Result<GgufFile> GgufAssembler::Open() {
  const std::optional<GgufPartName> name = ParseGgufPartName(file_.name_);
  if (!name) {
    Result<OpenPart> opened = ReadPart(file_.name_);
    if (!opened) return Forward(opened);
    if (const auto ok = CheckWhole(*opened, file_.name_); !ok) return Forward(ok);
    if (const auto ok = AddPart(*std::move(opened), file_.name_); !ok) return Forward(ok);
    return Finish();
  }
  if (name->count > GgufLimits::kMaxParts) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: the name says more parts than the limit: {}, limit {}",
                            file_.name_, name->count, GgufLimits::kMaxParts));
  }
  for (uint32_t number = 1; number <= name->count; ++number) {
    const std::string path = name->PathOf(number);
    Result<OpenPart> opened = ReadPart(path);
    if (!opened && opened.error().code == ErrorCode::kNotFound) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("{}: part {} of {} of the model is missing: put it in the same folder", path,
                      number, name->count));
    }
    if (!opened) return Forward(opened);
    if (const auto ok = CheckAgainstName(*opened, *name, number); !ok) return Forward(ok);
    if (const auto ok = CheckAgainstFirst(*opened, path); !ok) return Forward(ok);
    if (const auto ok = AddPart(*std::move(opened), path); !ok) return Forward(ok);
  }
  if (name->count > 1 && file_.tensors_.size() != expected_tensors_) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: the parts hold {} tensors together, part 1 says {}: they are not "
                            "parts of one model",
                            file_.name_, file_.tensors_.size(), expected_tensors_));
  }
  return Finish();
}

Result<GgufFile> GgufAssembler::Parse(std::span<const std::byte> image) {
  if (image.empty()) return Fail(ErrorCode::kInvalid, file_.name_ + ": is empty");
  Result<GgufPart> part = ParseGgufPart(image, file_.name_);
  if (!part) return Forward(part);
  const Result<GgufSplitInfo> split = ReadGgufSplitInfo(*part, file_.name_);
  if (!split) return Forward(split);
  OpenPart opened{.mapping = {}, .part = *std::move(part), .split = *split};
  if (const auto ok = CheckWhole(opened, file_.name_); !ok) return Forward(ok);
  if (const auto ok = AddPart(std::move(opened), file_.name_); !ok) return Forward(ok);
  file_.parts_.clear();
  file_.total_file_bytes_ = image.size();
  return Finish();
}

Result<GgufAssembler::OpenPart> GgufAssembler::ReadPart(const std::string& path) {
  Result<MappedFile> mapping = MappedFile::Open(path);
  if (!mapping) return Forward(mapping);
  Result<GgufPart> part = ParseGgufPart(mapping->bytes(), path);
  if (!part) return Forward(part);
  const Result<GgufSplitInfo> split = ReadGgufSplitInfo(*part, path);
  if (!split) return Forward(split);
  return OpenPart{.mapping = *std::move(mapping), .part = *std::move(part), .split = *split};
}

Result<void> GgufAssembler::CheckWhole(const OpenPart& opened, const std::string& path) {
  if (opened.split.count <= 1) return {};
  return Fail(
      ErrorCode::kInvalid,
      fmt::format("{}: is part {} of {} of a split model, but is not named so: give all parts "
                  "names like NAME-{:05}-of-{:05}.gguf in one folder",
                  path, opened.split.index + 1, opened.split.count, opened.split.index + 1,
                  opened.split.count));
}

Result<void> GgufAssembler::CheckAgainstName(const OpenPart& opened, const GgufPartName& name,
                                             uint32_t number) {
  const std::string path = name.PathOf(number);
  const uint64_t count = std::max<uint64_t>(opened.split.count, 1);
  if (count != name.count) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: the name says {} parts, the file says {} (split.count): give each "
                            "part the name it was made with",
                            path, name.count, opened.split.count));
  }
  if (opened.split.index + 1 != number) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("{}: the name says part {}, the file says part {} (split.no {}): name it "
                    "{}",
                    path, number, opened.split.index + 1, opened.split.index,
                    name.PathOf(static_cast<uint32_t>(opened.split.index) + 1)));
  }
  return {};
}

// What parts of different models can be told by: the number of tensors, and the architecture if
// the part repeats it.
Result<void> GgufAssembler::CheckAgainstFirst(const OpenPart& opened,
                                              const std::string& path) const {
  if (file_.part_paths_.empty()) return {};
  const std::string& first = file_.part_paths_.front();
  if (opened.split.num_tensors != expected_tensors_) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("{}: is part of another model than {}: split.tensors.count is {}, there "
                    "it is {}",
                    path, first, opened.split.num_tensors, expected_tensors_));
  }
  const GgufValue* own = opened.part.Find("general.architecture");
  const GgufValue* other = file_.Find("general.architecture");
  if (own != nullptr && other != nullptr && own->AsString() != other->AsString()) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("{}: is part of another model than {}: the architectures differ", path, first));
  }
  return {};
}

Result<void> GgufAssembler::AddPart(OpenPart opened, const std::string& path) {
  const size_t index = file_.part_paths_.size();
  if (index == 0) {
    file_.version_ = opened.part.version;
    file_.alignment_ = opened.part.alignment;
    file_.header_ = opened.part.header;
    file_.metadata_ = std::move(opened.part.metadata);
    file_.metadata_by_key_ = std::move(opened.part.metadata_by_key);
    expected_tensors_ = opened.split.num_tensors;
  }
  if (opened.part.tensors.size() > GgufLimits::kMaxTensors - file_.tensors_.size()) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: the parts together hold more tensors than the limit: limit {}",
                            path, GgufLimits::kMaxTensors));
  }
  for (GgufTensor& tensor : opened.part.tensors) {
    tensor.part = index;
    file_.tensors_.push_back(std::move(tensor));
  }
  file_.part_paths_.push_back(path);
  file_.total_file_bytes_ += opened.mapping.bytes().size();
  file_.parts_.push_back(std::move(opened.mapping));
  return {};
}

Result<GgufFile> GgufAssembler::Finish() {
  auto& order = file_.tensors_by_name_;
  const auto& tensors = file_.tensors_;
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(tensors[a].name, a) < std::pair(tensors[b].name, b);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors[order[i - 1]];
    const GgufTensor& after = tensors[order[i]];
    if (before.name == after.name) {
      return Fail(
          ErrorCode::kCorrupt,
          fmt::format("{}: tensor {} occurs twice, its data at bytes {} of {} and {}: the file "
                      "is damaged: download or convert it again",
                      file_.part_paths_[after.part], QuoteForMessage(after.name),
                      before.file_offset, file_.part_paths_[before.part], after.file_offset));
    }
  }
  return std::move(file_);
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  return GgufAssembler(path).Open();
}

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> image, const std::string& name) {
  return GgufAssembler(name).Parse(image);
}

}  // namespace baton
