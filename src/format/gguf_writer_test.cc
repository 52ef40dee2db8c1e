#include "format/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/test_paths.h"
#include "format/gguf.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// The file written again by our writer from what our reader found.
Result<std::vector<std::byte>> Rewrite(const GgufFile& file) {
  GgufWriter writer({.version = file.version(), .alignment = file.alignment()});
  for (const GgufKeyValue& entry : file.metadata()) writer.Set(entry.key, entry.value);
  for (const GgufTensor& tensor : file.tensors()) {
    const auto added = writer.AddTensor(
        {.name = std::string(tensor.name), .type = tensor.type, .dims = tensor.dims});
    if (!added) return Forward(added);
  }
  return writer.ToBytes([&](const GgufWriter::Piece& piece) -> Result<void> {
    const GgufTensor& tensor = file.tensors()[piece.index];
    std::memcpy(piece.out.data(), tensor.data + piece.offset, piece.out.size());
    return {};
  });
}

// The reader and the writer are inverse to each other on files that another program wrote.
TEST(GgufWriter, WritesTheSameBytesAsAnotherWriter) {
  for (const char* name : {"kinds.gguf", "simple_types.gguf", "version_2.gguf", "other_types.gguf",
                           "vocabulary.gguf"}) {
    const std::string path = std::string(BATON_TEST_DATA) + "/gguf/corpus/" + name;
    const Result<GgufFile> file = GgufFile::Open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const auto rewritten = Rewrite(*file);
    ASSERT_TRUE(rewritten.has_value()) << rewritten.error().message;
    EXPECT_TRUE(*rewritten == ReadAll(path)) << name;
  }
}

TEST(GgufWriter, WritesARealModelAgainByteForByte) {
  BATON_CACHED_FILE_OR_SKIP(path, "smollm2-135m-instruct-q4_1.gguf");
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto rewritten = Rewrite(*file);
  ASSERT_TRUE(rewritten.has_value()) << rewritten.error().message;
  EXPECT_TRUE(*rewritten == ReadAll(path));
}

TEST(GgufWriter, ReplacesAndRemovesKeys) {
  GgufWriter writer({.version = 3, .alignment = 64});
  writer.SetUint32("a", 1);
  writer.SetString("b", "two");
  writer.SetFloat32("a", 1.5f);
  writer.Remove("b");
  writer.SetBool("c", true);
  writer.SetUint64("d", 5);
  writer.SetInt32("e", -5);
  const std::vector<std::string> strings = {"x", ""};
  writer.SetStringArray("f", strings);
  const std::vector<int32_t> numbers = {3, -4};
  writer.SetInt32Array("g", numbers);
  const std::vector<float> floats = {0.5f};
  writer.SetFloat32Array("h", floats);
  const auto image = writer.ToBytes([](const GgufWriter::Piece&) -> Result<void> { return {}; });
  ASSERT_TRUE(image.has_value());
  const Result<GgufFile> file = GgufFile::Parse(*image, "image");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(file->metadata()[1].key, "a");
  EXPECT_EQ(*file->GetFloat32("a"), 1.5f);
  EXPECT_FALSE(file->Has("b"));
  EXPECT_EQ(*file->GetBool("c"), true);
  EXPECT_EQ(*file->GetUint64("d"), 5u);
  EXPECT_EQ(*file->GetInt64("e"), -5);
  EXPECT_THAT(*file->GetStringArray("f"), ElementsAre("x", ""));
  EXPECT_THAT(*file->GetInt32Array("g"), ElementsAre(3, -4));
  EXPECT_THAT(*file->GetFloat32Array("h"), ElementsAre(0.5f));
}

TEST(GgufWriter, LargeTensorsComeInWholeBlocks) {
  GgufWriter writer(GgufWriterOptions{});
  // 210 bytes a block: not a divisor of the piece size.
  ASSERT_TRUE(
      writer.AddTensor({.name = "w", .type = DType::kQ6_K, .dims = {256 * 100, 500}}).has_value());
  const uint64_t total = writer.tensor_bytes(0);
  EXPECT_EQ(total, 210u * 100 * 500);
  uint64_t expected_offset = 0;
  const auto image = writer.ToBytes([&](const GgufWriter::Piece& piece) -> Result<void> {
    EXPECT_EQ(piece.offset, expected_offset);
    EXPECT_EQ(piece.out.size() % 210, 0u);
    EXPECT_LE(piece.out.size(), GgufWriter::kPieceBytes);
    expected_offset += piece.out.size();
    std::fill(piece.out.begin(), piece.out.end(), static_cast<std::byte>(piece.offset / 210));
    return {};
  });
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(expected_offset, total);
  const Result<GgufFile> file = GgufFile::Parse(*image, "image");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->tensors()[0].byte_size, total);
}

TEST(GgufWriter, RefusesImpossibleTensors) {
  GgufWriter writer(GgufWriterOptions{});
  const auto refused = [&](const GgufTensorSpec& spec) {
    const Result<void> added = writer.AddTensor(spec);
    return !added.has_value() && added.error().code == ErrorCode::kInvalid;
  };
  EXPECT_TRUE(refused({.name = "", .dims = {1}}));
  EXPECT_TRUE(refused({.name = std::string(65, 'x'), .dims = {1}}));
  EXPECT_TRUE(refused({.name = "w", .dims = {}}));
  EXPECT_TRUE(refused({.name = "w", .dims = {1, 1, 1, 1, 1}}));
  EXPECT_TRUE(refused({.name = "w", .dims = {0, 3}}));
  EXPECT_TRUE(refused({.name = "w", .type = DType::kQ4_K, .dims = {255}}));
  EXPECT_TRUE(refused({.name = "w", .dims = {uint64_t{1} << 32, uint64_t{1} << 32}}));
  EXPECT_EQ(writer.num_tensors(), 0u);
}

TEST(GgufWriter, LeavesNoHalfFile) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("baton_writer_" + std::to_string(getpid()));
  fs::create_directories(folder);
  GgufWriter writer(GgufWriterOptions{});
  ASSERT_TRUE(writer.AddTensor({.name = "w", .type = DType::kF32, .dims = {8}}).has_value());
  const auto failing = [](const GgufWriter::Piece&) -> Result<void> {
    return Fail(ErrorCode::kCancelled, "enough");
  };
  const Result<void> cancelled = writer.WriteFile((folder / "m.gguf").string(), failing);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder));
  const auto zeros = [](const GgufWriter::Piece&) -> Result<void> { return {}; };
  const Result<void> nowhere = writer.WriteFile((folder / "none" / "m.gguf").string(), zeros);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kInternal);
  EXPECT_THAT(nowhere.error().message, HasSubstr("No such file or directory"));
  EXPECT_TRUE(writer.WriteFile((folder / "m.gguf").string(), zeros).has_value());
  EXPECT_TRUE(GgufFile::Open((folder / "m.gguf").string()).has_value());
  // A disk without room.
  if (fs::exists("/dev/full")) {
    fs::create_symlink("/dev/full", folder / "full.gguf.partial");
    const Result<void> full = writer.WriteFile((folder / "full.gguf").string(), zeros);
    ASSERT_FALSE(full.has_value());
    EXPECT_THAT(full.error().message, HasSubstr("No space left on device"));
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace baton
