#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model/arch/architecture.h"
#include "model/test_model_image.h"
#include "model/test_tiny_model.h"
#include "tensor/dequantize.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelLoad : public testing::Test {
 protected:
  Result<Model> Load(const std::vector<std::byte>& image) {
    return Model::Load(*GgufFile::Parse(image, "tiny.gguf"), *pool_, nullptr);
  }
  Result<Model> Load(const std::vector<std::byte>& image, const ModelSpec& spec) {
    const GgufFile file = *GgufFile::Parse(image, "tiny.gguf");
    return Model::LoadBySpec({.file = file, .spec = spec, .pool = *pool_, .progress = nullptr});
  }

  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

std::vector<float> Row(const GgufTensor& tensor, uint64_t row) {
  std::vector<float> values(tensor.row_length());
  CHECK(DequantizeRow(tensor.type, tensor.Row(row).data(), values).has_value());
  return values;
}

std::vector<float> Row(const WeightMatrix& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.num_inputs()));
  matrix.DequantizeRow(row, values);
  return values;
}

void ExpectSameMatrix(const WeightMatrix& a, const WeightMatrix& b) {
  ASSERT_EQ(a.num_outputs(), b.num_outputs());
  ASSERT_EQ(a.num_inputs(), b.num_inputs());
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.panel(0), b.panel(0), a.bytes()), 0);
}

TEST_F(ModelLoad, EveryWeightIsInItsRole) {
  const std::vector<std::byte> image =
      MakeTinyModel({.architecture = "gemma3", .sliding_window = 8, .has_output = true});
  const Result<Model> model = Load(image);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const GgufFile file = *GgufFile::Parse(image, "tiny");
  const auto expect_matrix = [&](const WeightMatrix& matrix, const std::string& name) {
    const GgufTensor& tensor = *file.FindTensor(name);
    ASSERT_EQ(static_cast<uint64_t>(matrix.num_outputs()), tensor.num_rows()) << name;
    for (int64_t row : {int64_t{0}, matrix.num_outputs() - 1}) {
      EXPECT_EQ(Row(matrix, row), Row(tensor, static_cast<uint64_t>(row))) << name;
    }
  };
  expect_matrix(model->embedding(), "token_embd.weight");
  expect_matrix(model->output(), "output.weight");
  const std::pair<MatrixRole, const char*> matrices[] = {
      {MatrixRole::kQuery, "attn_q"},  {MatrixRole::kKey, "attn_k"},
      {MatrixRole::kValue, "attn_v"},  {MatrixRole::kAttentionOutput, "attn_output"},
      {MatrixRole::kGate, "ffn_gate"}, {MatrixRole::kUp, "ffn_up"},
      {MatrixRole::kDown, "ffn_down"}};
  const std::pair<VectorRole, const char*> vectors[] = {
      {VectorRole::kAttentionNorm, "attn_norm"},
      {VectorRole::kQueryNorm, "attn_q_norm"},
      {VectorRole::kKeyNorm, "attn_k_norm"},
      {VectorRole::kPostAttentionNorm, "post_attention_norm"},
      {VectorRole::kFeedForwardNorm, "ffn_norm"},
      {VectorRole::kPostFeedForwardNorm, "post_ffw_norm"}};
  for (int layer = 0; layer < 2; ++layer) {
    const auto name = [&](const char* part) {
      return "blk." + std::to_string(layer) + "." + part + ".weight";
    };
    for (const auto& [role, part] : matrices) {
      expect_matrix(model->layer(layer).matrix(role), name(part));
    }
    for (const auto& [role, part] : vectors) {
      const View1<const float> values = model->layer(layer).vector(role);
      const std::vector<float> wanted = Row(*file.FindTensor(name(part)), 0);
      EXPECT_TRUE(std::ranges::equal(values.span(), wanted)) << name(part);
    }
    EXPECT_TRUE(model->layer(layer).vector(VectorRole::kQueryBias).empty());
  }
  EXPECT_TRUE(std::ranges::equal(model->output_norm().span(),
                                 Row(*file.FindTensor("output_norm.weight"), 0)));
}

TEST_F(ModelLoad, TiedOutputIsTheEmbedding) {
  const Result<Model> model = Load(MakeTinyModel({}));
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(&model->output(), &model->embedding());
}

TEST_F(ModelLoad, ProgressRisesToTheTotal) {
  const std::vector<std::byte> image = MakeTinyModel({});
  const GgufFile file = *GgufFile::Parse(image, "tiny");
  uint64_t tensor_bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) tensor_bytes += tensor.byte_size;
  std::vector<uint64_t> done;
  const PackProgress note = [&](uint64_t done_bytes, uint64_t total_bytes) {
    EXPECT_EQ(total_bytes, tensor_bytes);
    done.push_back(done_bytes);
  };
  ASSERT_TRUE(Model::Load(file, *pool_, note).has_value());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), tensor_bytes);
}

TEST_F(ModelLoad, FusedTensorsEqualSplitOnesBitForBit) {
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ4_K}) {
    const std::vector<std::byte> split_image =
        MakeTinyModel({.type = type, .hidden = 256, .feed_forward = 256, .head_dim = 64});
    ModelImage image(split_image);
    ModelSpec spec = *ReadModelSpec(*GgufFile::Parse(split_image, "tiny"));
    for (int i = 0; i < 2; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      image.Fuse(blk + "attn_qkv.weight",
                 {blk + "attn_q.weight", blk + "attn_k.weight", blk + "attn_v.weight"});
      image.Fuse("joined", {blk + "ffn_gate.weight", blk + "ffn_up.weight"});
      image.tensor("joined").spec.name = blk + "ffn_up.weight";
      spec.layers[static_cast<size_t>(i)].has_fused_qkv = true;
      spec.layers[static_cast<size_t>(i)].has_fused_gate_up = true;
    }
    const Result<Model> split = Load(split_image);
    const Result<Model> fused = Load(image.Bytes(), spec);
    ASSERT_TRUE(split.has_value()) << split.error().message;
    ASSERT_TRUE(fused.has_value()) << fused.error().message;
    for (int layer = 0; layer < 2; ++layer) {
      for (int role = 0; role < kNumMatrixRoles; ++role) {
        SCOPED_TRACE(testing::Message() << DTypeName(type) << " role " << role);
        ExpectSameMatrix(split->layer(layer).matrix(static_cast<MatrixRole>(role)),
                         fused->layer(layer).matrix(static_cast<MatrixRole>(role)));
      }
    }
    EXPECT_EQ(split->weight_bytes(), fused->weight_bytes());
  }
}

TEST_F(ModelLoad, ErrorsCarryTheObstaclesCodeFileAndCount) {
  const std::vector<std::byte> original = MakeTinyModel({});
  ModelImage missing(original);
  missing.Remove("blk.0.attn_q.weight");
  missing.Remove("blk.1.ffn_norm.weight");
  missing.Remove("output_norm.weight");
  Result<Model> model = Load(missing.Bytes());
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(model.error().message,
              AllOf(HasSubstr("tiny.gguf"), HasSubstr("blk.0.attn_q.weight"), HasSubstr("2 more")));

  ModelImage wrong_shape(original);
  wrong_shape.tensor("blk.0.ffn_down.weight").spec.dims = {64, 128};
  model = Load(wrong_shape.Bytes());
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(model.error().message, HasSubstr("blk.0.ffn_down.weight"));

  ModelImage wrong_type(original);
  ImageTensor& tensor = wrong_type.tensor("blk.1.attn_v.weight");
  tensor.spec.type = DType::kIQ4_NL;
  tensor.bytes.assign(*RowBytes(DType::kIQ4_NL, 64) * 32, std::byte{0});
  model = Load(wrong_type.Bytes());
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(model.error().message, AllOf(HasSubstr("blk.1.attn_v.weight"), HasSubstr("IQ4_NL")));

  ModelImage no_embedding(original);
  no_embedding.Remove("token_embd.weight");
  model = Load(no_embedding.Bytes());
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(model.error().message, HasSubstr("token_embd.weight"));
}

TEST_F(ModelLoad, UnusedTensorsAreKeptForTheReport) {
  ModelImage image(MakeTinyModel({}));
  image.SetFloats("blk.7.attn_norm.weight", std::vector<float>(64, 1.0f));
  image.SetFloats("something.else", std::vector<float>(3, 1.0f));
  const Result<Model> model = Load(image.Bytes());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_THAT(model->unused_tensors(), ElementsAre("blk.7.attn_norm.weight", "something.else"));
}

TEST_F(ModelLoad, FrequencyFactorsOfTheFile) {
  const std::vector<std::byte> original = MakeTinyModel({});
  const std::vector<float> factors = {1, 2, 4, 8, 1, 1, 1, 32};
  ModelImage image(original);
  image.SetFloats("rope_freqs.weight", factors);
  const Result<Model> plain = Load(original);
  const Result<Model> model = Load(image.Bytes());
  ASSERT_TRUE(plain.has_value());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  for (size_t i = 0; i < factors.size(); ++i) {
    EXPECT_EQ(model->ropes()[0].frequencies()[i],
              plain->ropes()[0].frequencies()[i] / static_cast<double>(factors[i]));
  }
  EXPECT_THAT(model->unused_tensors(), testing::IsEmpty());

  for (const std::vector<float>& bad :
       {std::vector<float>(7, 1.0f), std::vector<float>(8, 0.0f), std::vector<float>(8, -1.0f)}) {
    image.SetFloats("rope_freqs.weight", bad);
    const Result<Model> refused = Load(image.Bytes());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace baton
