// Models in several files. The parts are made here, from a small model.
#include "format/gguf_split.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

// What one part says about itself; the parts of a model hold two tensors each.
struct PartSpec {
  uint16_t index = 0;
  uint16_t count = 3;
  int32_t total = 6;
  std::string architecture = {};  // empty: the key is left out
};

class GgufSplit : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("baton_split_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inner");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(int number, int count) const { return Name("m", number, count); }
  std::string Name(const std::string& stem, int number, int count) const {
    return GgufPartName{
        .prefix = (folder_ / stem).string(), .number = 1, .count = static_cast<uint32_t>(count)}
        .PathOf(static_cast<uint32_t>(number));
  }

  // Tensor "t<k>" of the model holds 8 floats of value k.
  static void WritePart(const std::string& path, const PartSpec& spec) {
    GgufWriter writer(GgufWriterOptions{});
    if (!spec.architecture.empty()) writer.SetString("general.architecture", spec.architecture);
    writer.SetUint16("split.no", spec.index);
    writer.SetUint16("split.count", spec.count);
    writer.SetInt32("split.tensors.count", spec.total);
    for (int i = 0; i < 2; ++i) {
      const std::string name = "t" + std::to_string(2 * spec.index + i);
      ASSERT_TRUE(writer.AddTensor({.name = name, .type = DType::kF32, .dims = {8}}).has_value());
    }
    const auto fill = [&](const GgufWriter::Piece& piece) -> Result<void> {
      const std::vector<float> values(8, static_cast<float>(2 * spec.index + piece.index));
      std::memcpy(piece.out.data(), values.data(), piece.out.size());
      return {};
    };
    ASSERT_TRUE(writer.WriteFile(path, fill).has_value());
  }
  void WriteModel() const {
    for (uint16_t i = 0; i < 3; ++i) {
      WritePart(Path(i + 1, 3), {.index = i, .architecture = i == 0 ? "llama" : ""});
    }
  }
  static void ExpectWhole(const std::string& path) {
    const Result<GgufFile> file = GgufFile::Open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(*file->GetString("general.architecture"), "llama");
    ASSERT_EQ(file->tensors().size(), 6u);
    ASSERT_EQ(file->part_paths().size(), 3u);
    for (size_t k = 0; k < 6; ++k) {
      const GgufTensor* tensor = file->FindTensor("t" + std::to_string(k));
      ASSERT_EQ(tensor, &file->tensors()[k]);
      EXPECT_EQ(tensor->part, k / 2);
      float value = -1;
      std::memcpy(&value, tensor->Row(0).data() + 28, sizeof(value));
      EXPECT_EQ(value, static_cast<float>(k));
      file->ReleasePages(*tensor);
    }
  }
  static void ExpectRefused(const std::string& path, ErrorCode code, const std::string& reason) {
    const Result<GgufFile> file = GgufFile::Open(path);
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, code) << file.error().message;
    EXPECT_NE(file.error().message.find(reason), std::string::npos)
        << file.error().message << "\nwanted: " << reason;
  }

  fs::path folder_;
};

TEST_F(GgufSplit, AnyPartOpensAll) {
  WriteModel();
  for (int number = 1; number <= 3; ++number) ExpectWhole(Path(number, 3));
  // The folder may be spelled any way; the parts come from that folder.
  ExpectWhole((folder_ / "inner" / ".." / "m-00002-of-00003.gguf").string());
}

TEST_F(GgufSplit, MissingPartIsNamed) {
  WriteModel();
  fs::remove(Path(3, 3));
  ExpectRefused(Path(1, 3), ErrorCode::kNotFound, "m-00003-of-00003.gguf: part 3 of 3");
  ExpectRefused(Path(3, 3), ErrorCode::kNotFound, "m-00003-of-00003.gguf");
  WritePart(Path(3, 3), {.index = 2});
  fs::remove(Path(1, 3));
  ExpectRefused(Path(2, 3), ErrorCode::kNotFound, "m-00001-of-00003.gguf: part 1 of 3");
}

TEST_F(GgufSplit, SwappedPartsAreNamed) {
  WriteModel();
  fs::rename(Path(2, 3), folder_ / "x");
  fs::rename(Path(3, 3), Path(2, 3));
  fs::rename(folder_ / "x", Path(3, 3));
  ExpectRefused(Path(1, 3), ErrorCode::kInvalid,
                "the name says part 2, the file says part 3 (split.no 2)");
}

TEST_F(GgufSplit, PartOfAnotherModel) {
  WriteModel();
  WritePart(Path(2, 3), {.index = 1, .total = 7});
  ExpectRefused(Path(1, 3), ErrorCode::kInvalid, "m-00002-of-00003.gguf: is part of another model");
  WritePart(Path(2, 3), {.index = 1, .architecture = "gemma3"});
  ExpectRefused(Path(1, 3), ErrorCode::kInvalid, "the architectures differ");
  // Same numbers, but the names of the tensors clash.
  WriteModel();
  WritePart(folder_ / "x", {.index = 0});
  GgufWriter writer(GgufWriterOptions{});
  writer.SetUint16("split.no", 1);
  writer.SetUint16("split.count", 3);
  writer.SetInt32("split.tensors.count", 6);
  ASSERT_TRUE(writer.AddTensor({.name = "t0", .type = DType::kF32, .dims = {8}}).has_value());
  ASSERT_TRUE(writer.AddTensor({.name = "t1", .type = DType::kF32, .dims = {8}}).has_value());
  const auto zeros = [](const GgufWriter::Piece&) -> Result<void> { return {}; };
  ASSERT_TRUE(writer.WriteFile(Path(2, 3), zeros).has_value());
  ExpectRefused(Path(1, 3), ErrorCode::kCorrupt, "tensor \"t0\" occurs twice");
}

TEST_F(GgufSplit, CountsMustAgree) {
  for (const uint16_t count : {uint16_t{4}, uint16_t{0}, uint16_t{1}}) {
    WriteModel();
    WritePart(Path(1, 3), {.index = 0, .count = count});
    ExpectRefused(Path(1, 3), ErrorCode::kInvalid,
                  "the name says 3 parts, the file says " + std::to_string(count));
  }
  WriteModel();
  WritePart(Path(1, 3), {.index = 0, .count = 65535});
  ExpectRefused(Path(1, 3), ErrorCode::kCorrupt, "split.count is over the limit: 65535");
  for (uint16_t i = 0; i < 3; ++i) WritePart(Path(i + 1, 3), {.index = i, .total = 9});
  ExpectRefused(Path(1, 3), ErrorCode::kCorrupt,
                "the parts hold 6 tensors together, part 1 says 9");
  WritePart(Path(1, 3), {.index = 5});
  ExpectRefused(Path(1, 3), ErrorCode::kCorrupt, "split.no must be below split.count: 5");
  WritePart(Path(1, 3), {.index = 0, .total = -6});
  ExpectRefused(Path(1, 3), ErrorCode::kCorrupt, "split.tensors.count");
}

TEST_F(GgufSplit, JoinedWithCat) {
  WriteModel();
  const auto join = [&](const std::string& to) {
    std::ofstream out(to, std::ios::binary);
    for (int number = 1; number <= 3; ++number) {
      out << std::ifstream(Path(number, 3), std::ios::binary).rdbuf();
    }
  };
  join((folder_ / "joined.gguf").string());
  ExpectRefused((folder_ / "joined.gguf").string(), ErrorCode::kInvalid,
                "another GGUF file starts inside this one");
  join((folder_ / "j-00001-of-00003.gguf").string());
  ExpectRefused((folder_ / "j-00001-of-00003.gguf").string(), ErrorCode::kInvalid,
                "another GGUF file starts inside this one");
}

TEST_F(GgufSplit, NamesThatDoNotFit) {
  WritePart(folder_ / "renamed.gguf", {.index = 1});
  ExpectRefused((folder_ / "renamed.gguf").string(), ErrorCode::kInvalid,
                "is part 2 of 3 of a split model, but is not named so: give all parts names like "
                "NAME-00002-of-00003.gguf");
  ExpectRefused(Name("m", 1, 99999), ErrorCode::kInvalid, "more parts than the limit: 99999");
  // A merged model keeps split.count 0, and a model may be "split" into one part.
  WritePart(folder_ / "merged.gguf", {.count = 0});
  EXPECT_TRUE(GgufFile::Open(folder_ / "merged.gguf").has_value());
  WritePart(Path(1, 1), {.count = 1, .total = 2});
  EXPECT_TRUE(GgufFile::Open(Path(1, 1)).has_value());
}

TEST(GgufPartName, TakesNamesApart) {
  const auto name = ParseGgufPartName("/models/../a-b-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/models/../a-b");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 3u);
  EXPECT_EQ(name->PathOf(3), "/models/../a-b-00003-of-00003.gguf");
  for (const char* other :
       {"", "m.gguf", "m-00001-of-00003.bin", "-00001-of-00003.gguf", "x/-00001-of-00003.gguf",
        "m-0001-of-00003.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf",
        "m-00001-of-0000x.gguf", "m-+0001-of-00003.gguf", "m-00001-of-00000.gguf"}) {
    EXPECT_FALSE(ParseGgufPartName(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace baton
