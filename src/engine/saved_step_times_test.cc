// Saved step times: what is written is read back, and what is not whole or not one's own is not.
#include "engine/saved_step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr Hash128 kKey{.low = 1, .high = 2};

StepTimeModel Fitted() {
  StepTimeModel model;
  for (int i = 1; i < 40; ++i) {
    StepFeatures features;
    features.AddPrefill(i * 10, i * 31 % 400);
    features.AddDecode(i);
    model.Observe(features, 1e-3 * static_cast<double>(i));
  }
  return model;
}

class SavedStepTimes : public testing::Test {
 protected:
  SavedStepTimes() {
    std::string name = testing::TempDir() + "steps_XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~SavedStepTimes() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  std::string Path() const { return StepTimesPath(folder_ + "/deep/er", kKey); }
  std::string Content() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Put(const std::string& content) const { std::ofstream(Path(), std::ios::binary) << content; }

  std::string folder_;
};

TEST_F(SavedStepTimes, AreReadBackToTheLastBit) {
  EXPECT_EQ(ReadStepTimes(Path(), kKey).error().code, ErrorCode::kNotFound);
  const StepTimeModel fitted = Fitted();
  ASSERT_TRUE(WriteStepTimes(Path(), kKey, fitted).has_value());
  const Result<StepTimeModel> read = ReadStepTimes(Path(), kKey);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->state(), fitted.state());
  // Written again, the newer one counts.
  ASSERT_TRUE(WriteStepTimes(Path(), kKey, StepTimeModel()).has_value());
  EXPECT_EQ(ReadStepTimes(Path(), kKey)->state(), StepTimeModel().state());
}

TEST_F(SavedStepTimes, WhatIsNotWholeOrOnesOwnIsToldByItsPath) {
  ASSERT_TRUE(WriteStepTimes(Path(), kKey, Fitted()).has_value());
  const std::string whole = Content();
  ASSERT_EQ(whole.size(), 336u);
  const auto expect_corrupt = [&](const std::string& content) {
    Put(content);
    const Result<StepTimeModel> read = ReadStepTimes(Path(), kKey);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr(Path()));
  };
  for (const size_t length : {0, 1, 100, 335}) expect_corrupt(whole.substr(0, length));
  expect_corrupt(whole + "x");
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    expect_corrupt(changed);
  }
  Put(whole);
  EXPECT_EQ(ReadStepTimes(Path(), {.low = 1, .high = 3}).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(ReadStepTimes(Path(), kKey).has_value());
}

// A pipe would be waited for, and a foreign file is not ours to replace.
TEST_F(SavedStepTimes, NothingForeignIsReadOrReplaced) {
  ASSERT_TRUE(WriteStepTimes(Path(), kKey, Fitted()).has_value());
  Put("somebody's notes");
  EXPECT_FALSE(WriteStepTimes(Path(), kKey, Fitted()).has_value());
  EXPECT_EQ(Content(), "somebody's notes");
  std::filesystem::remove(Path());
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(ReadStepTimes(Path(), kKey).error().code, ErrorCode::kCorrupt);
}

TEST_F(SavedStepTimes, TheFolderDoesNotGrowForEver) {
  for (uint64_t i = 0; i < kMaxStepTimesFiles + 10; ++i) {
    const Hash128 key{.low = i, .high = 9};
    ASSERT_TRUE(WriteStepTimes(StepTimesPath(folder_, key), key, Fitted()).has_value());
  }
  std::ofstream(folder_ + "/other") << "stays";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    count += entry.path().extension() == ".step-times" ? 1 : 0;
  }
  EXPECT_EQ(count, kMaxStepTimesFiles);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/other"));
}

}  // namespace
}  // namespace baton
