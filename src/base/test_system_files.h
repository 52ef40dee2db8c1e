// A made-up /proc and /sys in a temporary folder. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/system_files.h"

namespace baton {

// A fixture whose machine has no files until a test writes them.
class SystemFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / ("system_" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
    system_ = {.proc = root_ / "proc", .sys = root_ / "sys"};
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Writes a file; `path` begins with "proc/" or "sys/".
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  SystemFolders system_;

 private:
  std::filesystem::path root_;
};

}  // namespace baton
