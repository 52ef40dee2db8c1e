// Real models: cut and changed in many places they are refused; whole they hold what the binary64
// reference found in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/test_paths.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "tensor/dequantize.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr char kSmol[] = "smollm2-135m-instruct-q4_1";
constexpr char kGemma[] = "gemma-3-270m-q4_k_m";

struct Sums {
  double sum = 0;
  double sum_sq = 0;
};

void Add(std::span<const float> row, Sums& sums) {
  for (const float value : row) {
    sums.sum += value;
    sums.sum_sq += double{value} * value;
  }
}

// What binary64 sums of n numbers may differ by when added in another order, and the 12 digits that
// the golden file states.
double Tolerance(double sum_sq, uint64_t n) {
  return 1e-10 * std::sqrt(sum_sq * static_cast<double>(n)) + 1e-9;
}

void CheckTensor(const GgufFile& file, const nlohmann::json& golden) {
  const std::string name = golden["tensor"];
  SCOPED_TRACE(name);
  const GgufTensor* tensor = file.FindTensor(name);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(DTypeName(tensor->type), golden["type"].get<std::string>());
  ASSERT_EQ(tensor->row_length(), golden["row_length"].get<uint64_t>());
  ASSERT_EQ(tensor->num_rows(), golden["rows"].get<uint64_t>());
  std::vector<float> row(tensor->row_length());
  const auto decode = [&](uint64_t r) {
    ASSERT_TRUE(DequantizeRow(tensor->type, tensor->Row(r).data(), row).has_value());
  };
  decode(golden["row"]);
  const std::vector<float> first = golden["first"];
  const std::vector<float> last = golden["last"];
  ASSERT_EQ(first.size(), 64u);
  ASSERT_EQ(last.size(), 32u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), row.begin()));
  EXPECT_TRUE(std::equal(last.begin(), last.end(), row.end() - 32));
  Sums sums;
  Add(row, sums);
  EXPECT_NEAR(sums.sum, golden["sum"], Tolerance(sums.sum_sq, row.size()));
  EXPECT_NEAR(sums.sum_sq, golden["sum_sq"], 1e-9 * sums.sum_sq);
  Sums all;
  for (uint64_t r = 0; r < tensor->num_rows(); ++r) {
    decode(r);
    Add(row, all);
  }
  EXPECT_NEAR(all.sum, golden["tensor_sum"], Tolerance(all.sum_sq, tensor->num_elements()));
  EXPECT_NEAR(all.sum_sq, golden["tensor_sum_sq"], 1e-9 * all.sum_sq);
}

void CheckModel(const std::string& path, const std::string& model, size_t num_tensors) {
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), num_tensors);
  EXPECT_EQ(file->metadata().size(), 33u);
  EXPECT_TRUE(file->CheckSupportedTypes().has_value());
  EXPECT_EQ(file->total_file_bytes(), std::filesystem::file_size(path));
  std::ifstream in(std::string(BATON_TEST_DATA) + "/golden/" + model + "/dequant.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  ASSERT_GE(golden["tensors"].size(), 11u);
  for (const nlohmann::json& tensor : golden["tensors"]) CheckTensor(*file, tensor);
}

TEST(GgufModel, SmolHoldsWhatTheReferenceFound) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  CheckModel(path, kSmol, 272);
}

TEST(GgufModel, GemmaHoldsWhatTheReferenceFound) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kGemma) + ".gguf");
  CheckModel(path, kGemma, 236);
}

TEST(GgufModel, SmolMetadata) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(*file->GetString("general.architecture"), "llama");
  EXPECT_EQ(*file->GetUint32("llama.block_count"), 30u);
  EXPECT_EQ(*file->GetFloat32("llama.rope.freq_base"), 100000.0f);
  EXPECT_EQ(*file->GetBool("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file->GetStringArray("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(file->GetStringArray("tokenizer.ggml.merges")->size(), 48900u);
  EXPECT_EQ(file->GetInt32Array("tokenizer.ggml.token_type")->size(), 49152u);
}

// A released tensor reads back the same.
TEST(GgufModel, ReleasedPagesComeBack) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const GgufTensor* tensor = file->FindTensor("token_embd.weight");
  ASSERT_NE(tensor, nullptr);
  std::vector<std::byte> before(tensor->data, tensor->data + tensor->byte_size);
  file->ReleasePages(*tensor);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), tensor->data));
}

void ExpectCutRefused(std::span<const std::byte> whole, size_t cut) {
  const Result<GgufFile> file = GgufFile::Parse(whole.first(cut), "cut.gguf");
  ASSERT_FALSE(file.has_value()) << "opens when cut at " << cut;
  ASSERT_TRUE(file.error().message.starts_with("cut.gguf: ")) << file.error().message;
  if (cut == 0) return;
  ASSERT_EQ(file.error().code, ErrorCode::kCorrupt) << file.error().message;
  ASSERT_THAT(file.error().message, HasSubstr("at byte ")) << cut;
}

TEST(GgufModel, SmolCutAnywhereIsRefused) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Result<MappedFile> mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.has_value());
  const auto whole = mapped->bytes();
  constexpr size_t kDataStart = 1785664;  // the `gguf` package says so
  for (size_t cut = 0; cut <= 4096; ++cut) ExpectCutRefused(whole, cut);
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 100; ++i) ExpectCutRefused(whole, random() % kDataStart);
  ExpectCutRefused(whole, kDataStart);
  const Result<GgufFile> file = GgufFile::Parse(whole, "whole");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  uint64_t end = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    end = std::max(end, tensor.file_offset + tensor.byte_size);
  }
  EXPECT_EQ(file->tensors()[0].file_offset, kDataStart);
  ExpectCutRefused(whole, end - 1);
  EXPECT_TRUE(GgufFile::Parse(whole.first(end), "end").has_value());
}

// One byte of the header changed at a time: whatever opens still lies inside the file.
TEST(GgufModel, SmolWithAChangedByteIsSafe) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Result<MappedFile> mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.has_value());
  std::vector<std::byte> image(mapped->bytes().begin(), mapped->bytes().end());
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    // Half in the first keys, half in the tensors' entries behind the vocabulary.
    const size_t place = i % 2 == 0 ? random() % 2048 : 1785664 - random() % 18000;
    const std::byte before = image[place];
    image[place] ^= std::byte(1 << (random() % 8));
    const Result<GgufFile> file = GgufFile::Parse(image, "changed");
    if (file.has_value()) {
      for (const GgufTensor& tensor : file->tensors()) {
        ASSERT_LE(tensor.file_offset, image.size());
        ASSERT_LE(tensor.byte_size, image.size() - tensor.file_offset);
        ASSERT_EQ(tensor.data, image.data() + tensor.file_offset);
      }
    }
    image[place] = before;
  }
}

// Writes tensors [first, last) of a model as part `index` of three.
void WritePart(const GgufFile& model, const std::string& path, size_t index) {
  const size_t total = model.tensors().size();
  const size_t first = total * index / 3;
  const size_t last = total * (index + 1) / 3;
  GgufWriter writer({.version = 3, .alignment = model.alignment()});
  if (index == 0) {
    for (const GgufKeyValue& entry : model.metadata()) writer.Set(entry.key, entry.value);
  }
  writer.SetUint16("split.no", static_cast<uint16_t>(index));
  writer.SetUint16("split.count", 3);
  writer.SetInt32("split.tensors.count", static_cast<int32_t>(total));
  for (size_t i = first; i < last; ++i) {
    const GgufTensor& tensor = model.tensors()[i];
    ASSERT_TRUE(
        writer
            .AddTensor({.name = std::string(tensor.name), .type = tensor.type, .dims = tensor.dims})
            .has_value());
  }
  const auto copy = [&](const GgufWriter::Piece& piece) -> Result<void> {
    const std::byte* data = model.tensors()[first + piece.index].data;
    std::memcpy(piece.out.data(), data + piece.offset, piece.out.size());
    return {};
  };
  ASSERT_TRUE(writer.WriteFile(path, copy).has_value());
}

TEST(GgufModel, SmolInThreePartsIsTheSameModel) {
  BATON_CACHED_FILE_OR_SKIP(path, std::string(kSmol) + ".gguf");
  const Result<GgufFile> whole = GgufFile::Open(path);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("baton_parts_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < 3; ++i) {
    WritePart(*whole, folder / ("smol-0000" + std::to_string(i + 1) + "-of-00003.gguf"), i);
  }
  const Result<GgufFile> parts = GgufFile::Open(folder / "smol-00003-of-00003.gguf");
  std::filesystem::remove_all(folder);  // the mappings keep the bytes
  ASSERT_TRUE(parts.has_value()) << parts.error().message;
  EXPECT_EQ(parts->part_paths().size(), 3u);
  ASSERT_EQ(parts->tensors().size(), whole->tensors().size());
  for (size_t i = 0; i < whole->tensors().size(); ++i) {
    const GgufTensor& a = whole->tensors()[i];
    const GgufTensor& b = parts->tensors()[i];
    ASSERT_EQ(a.name, b.name);
    ASSERT_EQ(a.dims, b.dims);
    ASSERT_EQ(a.byte_size, b.byte_size);
    ASSERT_EQ(std::memcmp(a.data, b.data, a.byte_size), 0) << a.name;
  }
  EXPECT_EQ(parts->GetStringArray("tokenizer.ggml.tokens")->size(), 49152u);
}

// Every vocabulary of the test package opens, without tensors.
TEST(GgufModel, VocabularyFilesOpen) {
  BATON_CACHED_FILE_OR_SKIP(folder, "llama-cpp-models");
  size_t opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const Result<GgufFile> file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_TRUE(file->tensors().empty()) << entry.path();
    EXPECT_GT(file->GetStringArray("tokenizer.ggml.tokens")->size(), 1000u) << entry.path();
    ++opened;
  }
  EXPECT_GE(opened, 10u);
}

}  // namespace
}  // namespace baton
