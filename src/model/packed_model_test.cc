#include "model/packed_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/arch/architecture.h"
#include "model/test_model_image.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class PackedModelTest : public testing::Test {
 protected:
  PackedModelTest()
      : path_((std::filesystem::path(testing::TempDir()) /
               (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
                ".packed"))
                  .string()) {}
  ~PackedModelTest() override { std::filesystem::remove(path_); }

  static GgufFile Parse(const std::vector<std::byte>& image) {
    return *GgufFile::Parse(image, "tiny.gguf");
  }
  Result<> Pack(const GgufFile& file, const PackProgress& progress) {
    return PackModel({.file = file, .path = path_, .pool = *pool_, .progress = progress});
  }
  Result<Model> Load(const GgufFile& file, PackedFile packed) {
    return Model::LoadBySpec({.file = file,
                              .spec = *ReadModelSpec(file),
                              .pool = *pool_,
                              .progress = nullptr,
                              .packed = std::move(packed)});
  }

  std::string path_;
  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

void ExpectSamePanels(const WeightMatrix& a, const WeightMatrix& b) {
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.panels().data(), b.panels().data(), a.bytes()), 0);
}

TEST_F(PackedModelTest, HasTheMatricesOfTheModel) {
  const std::vector<std::byte> image =
      MakeTinyModel({.architecture = "gemma3", .sliding_window = 8, .has_output = true});
  const GgufFile file = Parse(image);
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  ASSERT_TRUE(Pack(file, [&](uint64_t done, uint64_t total) { seen.emplace_back(done, total); }));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().first, seen.back().second);

  Result<PackedFile> packed = PackedFile::Open(path_, PackedFileOf(file));
  ASSERT_TRUE(packed.has_value()) << packed.error().message;
  const Result<Model> from_packed = Load(file, *std::move(packed));
  ASSERT_TRUE(from_packed.has_value()) << from_packed.error().message;
  const Result<Model> from_file = Model::Load(file, *pool_, nullptr);
  ASSERT_TRUE(from_file.has_value());
  EXPECT_EQ(from_packed->weight_bytes(), from_file->weight_bytes());
  ExpectSamePanels(from_packed->embedding(), from_file->embedding());
  ExpectSamePanels(from_packed->output(), from_file->output());
  for (int layer = 0; layer < from_file->spec().num_layers(); ++layer) {
    for (int role = 0; role < kNumMatrixRoles; ++role) {
      ExpectSamePanels(from_packed->layer(layer).matrix(static_cast<MatrixRole>(role)),
                       from_file->layer(layer).matrix(static_cast<MatrixRole>(role)));
    }
  }
}

TEST_F(PackedModelTest, AnotherModelIsStaleAndAMissingMatrixIsNamed) {
  const std::vector<std::byte> image = MakeTinyModel({});
  const GgufFile file = Parse(image);
  ASSERT_TRUE(Pack(file, nullptr));
  // One byte of one weight.
  std::vector<std::byte> other = image;
  other.back() ^= std::byte{1};
  const Result<PackedFile> stale = PackedFile::Open(path_, PackedFileOf(Parse(other)));
  ASSERT_FALSE(stale.has_value());
  EXPECT_THAT(stale.error().message, HasSubstr("stale"));

  Result<PackedWriter> writer = PackedWriter::Create(path_, PackedFileOf(file), 1);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->Add({.low = 1, .high = 1}, std::vector<std::byte>(64)));
  ASSERT_TRUE(writer->Finish());
  Result<PackedFile> empty = PackedFile::Open(path_, PackedFileOf(file));
  ASSERT_TRUE(empty.has_value());
  const Result<Model> model = Load(file, *std::move(empty));
  ASSERT_FALSE(model.has_value());
  EXPECT_THAT(model.error().message, HasSubstr("token_embd.weight"));
  EXPECT_THAT(model.error().message, HasSubstr(path_));
}

// The fingerprint sees the first and last bytes of a tensor only.
TEST_F(PackedModelTest, CheckingComparesEveryByte) {
  std::vector<std::byte> image = MakeTinyModel({});
  uint64_t offset = 0;
  {
    const GgufFile file = Parse(image);
    ASSERT_TRUE(Pack(file, nullptr));
    const GgufTensor& tensor = *file.FindTensor("token_embd.weight");
    ASSERT_GT(tensor.byte_size, 3 * 2048u);
    offset = static_cast<uint64_t>(tensor.data - image.data()) + tensor.byte_size / 2;
  }
  const auto check = [&]() -> Result<> {
    const GgufFile file = Parse(image);
    const Result<PackedFile> packed = PackedFile::Open(path_, PackedFileOf(file));
    if (!packed) return Forward(packed);
    return CheckPackedModel({.file = file, .path = path_, .pool = *pool_, .progress = nullptr},
                            *packed);
  };
  EXPECT_TRUE(check());
  image[offset] ^= std::byte{1};
  const Result<> changed = check();
  ASSERT_FALSE(changed.has_value());
  EXPECT_THAT(changed.error().message, HasSubstr("stale: it has another tensor token_embd.weight"));
  EXPECT_THAT(changed.error().message, HasSubstr("--no-packed"));
}

TEST_F(PackedModelTest, AModelThatCannotBeLoadedIsNotPacked) {
  const std::vector<std::byte> image = MakeTinyModel({.architecture = "unheard-of"});
  EXPECT_FALSE(Pack(Parse(image), nullptr).has_value());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace baton
