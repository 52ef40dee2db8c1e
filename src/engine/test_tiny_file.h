// A tiny model with a tokenizer, written to a file, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/test_tiny_vocabulary.h"
#include "model/test_tiny_model.h"

namespace baton {

// A file that lives as long as the object.
class TinyFile {
 public:
  explicit TinyFile(TinyModel tiny) {
    const auto edit = std::move(tiny.edit);
    tiny.edit = [&](GgufWriter& writer) {
      SetTinyVocabulary(tiny.vocabulary, writer);
      if (edit) edit(writer);
    };
    Write(MakeTinyModel(tiny));
  }
  explicit TinyFile(const std::vector<std::byte>& image) { Write(image); }
  ~TinyFile() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  TinyFile(const TinyFile&) = delete;
  TinyFile& operator=(const TinyFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  void Write(const std::vector<std::byte>& image) {
    std::string name = testing::TempDir() + "tiny_XXXXXX";
    const int descriptor = mkstemp(name.data());
    CHECK(descriptor >= 0);
    close(descriptor);
    path_ = name;
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()),
               static_cast<std::streamsize>(image.size()));
  }

  std::string path_;
};

}  // namespace baton
