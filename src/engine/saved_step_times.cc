#include "engine/saved_step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "base/replacing_file.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "BATONST1";
constexpr std::string_view kSuffix = ".step-times";
constexpr size_t kNumFields = StepTimeModel::kNumFeatures;
constexpr size_t kNumNumbers = kNumFields + kNumFields * kNumFields + kNumFields + 2;
constexpr size_t kHashedBytes = kMagic.size() + sizeof(Hash128) + kNumNumbers * sizeof(double);
constexpr size_t kFileBytes = kHashedBytes + sizeof(Hash128);
using FileBytes = std::array<std::byte, kFileBytes>;

std::array<double, kNumNumbers> NumbersOf(const StepTimeModel::State& state) {
  std::array<double, kNumNumbers> numbers{};
  auto next = std::ranges::copy(state.unconstrained, numbers.begin()).out;
  for (const auto& row : state.information) next = std::ranges::copy(row, next).out;
  next = std::ranges::copy(state.usual_information, next).out;
  *next++ = state.usual_residual;
  *next = state.num_observed;
  return numbers;
}

StepTimeModel::State StateOf(const std::array<double, kNumNumbers>& numbers) {
  StepTimeModel::State state;
  const double* next = numbers.data();
  const auto take = [&next](std::span<double> to) {
    std::copy_n(next, to.size(), to.begin());
    next += to.size();
  };
  take(state.unconstrained);
  for (auto& row : state.information) take(row);
  take(state.usual_information);
  state.usual_residual = *next++;
  state.num_observed = *next;
  return state;
}

FileBytes Encoded(const Hash128& key, const StepTimeModel::State& state) {
  FileBytes bytes{};
  const auto numbers = NumbersOf(state);
  std::byte* next = bytes.data();
  const auto put = [&next](const void* from, size_t count) {
    std::memcpy(next, from, count);
    next += count;
  };
  put(kMagic.data(), kMagic.size());
  put(&key, sizeof(key));
  put(numbers.data(), sizeof(numbers));
  const Hash128 hash = ContentHash(std::span(bytes).first(kHashedBytes));
  put(&hash, sizeof(hash));
  return bytes;
}

bool HoldsStepTimes(std::string_view head) {
  return head.starts_with(kMagic);
}

tl::unexpected<Error> Damaged(const std::string& path, std::string_view what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: {}; what steps take is measured anew", path, what));
}

// Lets go of the oldest files of this kind beyond the limit. What cannot be removed stays.
void KeepYoungest(const fs::path& folder) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != kSuffix) continue;
    std::error_code gone;
    const fs::file_time_type time = entry->last_write_time(gone);
    if (!gone) files.emplace_back(time, entry->path());
  }
  if (files.size() <= kMaxStepTimesFiles) return;
  std::ranges::sort(files, std::greater<>());
  for (size_t i = kMaxStepTimesFiles; i < files.size(); ++i) fs::remove(files[i].second, error);
}

}  // namespace

Hash128 StepTimesKey(const LoadedModel& model, const StepTimesOwner& owner) {
  return Hasher()
      .Add("step times")
      .Add(model.kv_key.low)
      .Add(model.kv_key.high)
      .Add(owner.cpu_name)
      .Add(IsaName(model.options.isa))
      .Add(static_cast<uint64_t>(model.options.num_threads))
      .Add(owner.version)
      .Finish();
}

std::string StepTimesPath(const std::string& folder, const Hash128& key) {
  return fmt::format("{}/{:016x}{:016x}{}", folder, key.high, key.low, kSuffix);
}

Result<StepTimeModel> ReadStepTimes(const std::string& path, const Hash128& key) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Fail(ErrorCode::kNotFound, path + ": there is no such file");
  }
  if (error) return Fail(ErrorCode::kInternal, fmt::format("{}: {}", path, error.message()));
  if (!fs::is_regular_file(status)) return Damaged(path, "this is no file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(ErrorCode::kInternal, path + ": it cannot be read");
  FileBytes bytes{};
  file.read(reinterpret_cast<char*>(bytes.data()), kFileBytes);
  if (file.gcount() != static_cast<std::streamsize>(kFileBytes) || file.peek() != EOF) {
    return Damaged(path, fmt::format("it is not {} bytes long", kFileBytes));
  }
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return Damaged(path, "it holds no step times");
  }
  Hash128 hash;
  std::memcpy(&hash, bytes.data() + kHashedBytes, sizeof(hash));
  if (hash != ContentHash(std::span(bytes).first(kHashedBytes))) {
    return Damaged(path, "it is damaged");
  }
  Hash128 owner;
  std::memcpy(&owner, bytes.data() + kMagic.size(), sizeof(owner));
  if (owner != key) return Damaged(path, "it is of another model or machine");
  std::array<double, kNumNumbers> numbers{};
  std::memcpy(numbers.data(), bytes.data() + kMagic.size() + sizeof(owner), sizeof(numbers));
  Result<StepTimeModel> model = StepTimeModel::FromState(StateOf(numbers));
  if (!model) return Damaged(path, "its numbers are not a fit");
  return model;
}

Result<> WriteStepTimes(const std::string& path, const Hash128& key, const StepTimeModel& model) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kInternal,
                fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
  }
  Result<ReplacingFile> file =
      ReplacingFile::Create(path, {.name = "saved step times", .holds = HoldsStepTimes});
  if (!file) return Forward(file);
  const FileBytes bytes = Encoded(key, model.state());
  if (Result<> written = file->WriteAt(0, bytes); !written) return written;
  if (Result<> finished = file->Finish(kFileBytes); !finished) return finished;
  KeepYoungest(folder);
  return {};
}

}  // namespace baton
