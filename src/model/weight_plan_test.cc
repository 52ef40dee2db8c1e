#include "model/weight_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/arch/architecture.h"
#include "model/test_model_image.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The obstacles of a changed file by the plan of the file as it was.
std::vector<Obstacle> ObstaclesOf(const std::vector<std::byte>& original, const ModelImage& image) {
  const ModelSpec spec = *ReadModelSpec(*GgufFile::Parse(original, "tiny"));
  const std::vector<std::byte> changed = image.Bytes();
  return FindObstacles(*GgufFile::Parse(changed, "changed"), PlanWeights(spec));
}

TEST(WeightPlan, UsesEveryTensorOfAFileOnce) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const std::vector<std::byte> image =
        MakeTinyModel({.architecture = architecture, .sliding_window = 8, .has_output = true});
    const GgufFile file = *GgufFile::Parse(image, "tiny");
    const std::vector<WeightUse> plan = PlanWeights(*ReadModelSpec(file));
    EXPECT_EQ(plan.size(), file.tensors().size()) << architecture;
    std::set<std::string> names;
    for (const WeightUse& use : plan) {
      names.insert(use.tensor_name);
      const GgufTensor* tensor = file.FindTensor(use.tensor_name);
      ASSERT_NE(tensor, nullptr) << use.tensor_name;
      EXPECT_EQ(tensor->row_length(), static_cast<uint64_t>(use.num_columns)) << use.tensor_name;
      EXPECT_EQ(tensor->num_rows(), static_cast<uint64_t>(use.num_rows)) << use.tensor_name;
      EXPECT_EQ(use.first_row, 0);
      EXPECT_EQ(use.is_matrix, tensor->dims.size() == 2) << use.tensor_name;
    }
    EXPECT_EQ(names.size(), plan.size()) << architecture;
    EXPECT_THAT(FindObstacles(file, plan), IsEmpty());
    EXPECT_THAT(UnusedTensors(file, plan), IsEmpty());
  }
}

TEST(WeightPlan, FusedTensorsGiveTheirRowsInOrder) {
  ModelSpec spec = *ReadModelSpec(*GgufFile::Parse(MakeTinyModel({.layers = 1}), "tiny"));
  spec.layers[0].has_fused_qkv = true;
  spec.layers[0].has_fused_gate_up = true;
  std::vector<std::vector<int64_t>> rows;  // first, count, of
  for (const WeightUse& use : PlanWeights(spec)) {
    if (use.num_rows != use.tensor_rows) {
      rows.push_back({use.first_row, use.num_rows, use.tensor_rows});
    }
  }
  // 4 query and 2 key heads of 16; 128 wide inside.
  EXPECT_THAT(
      rows, ElementsAre(ElementsAre(0, 64, 128), ElementsAre(64, 32, 128), ElementsAre(96, 32, 128),
                        ElementsAre(0, 128, 256), ElementsAre(128, 128, 256)));
}

TEST(WeightPlan, EveryMissingTensorIsNamed) {
  const std::vector<std::byte> original =
      MakeTinyModel({.architecture = "gemma3", .layers = 1, .sliding_window = 8});
  std::vector<std::string> names;
  ModelImage whole(original);
  for (const ImageTensor& tensor : whole.tensors()) names.push_back(tensor.spec.name);
  for (const std::string& name : names) {
    ModelImage image(original);
    image.Remove(name);
    const std::vector<Obstacle> obstacles = ObstaclesOf(original, image);
    ASSERT_EQ(obstacles.size(), 1u) << name;
    EXPECT_EQ(obstacles[0].code, ErrorCode::kNotFound);
    EXPECT_THAT(obstacles[0].sentence, AllOf(HasSubstr(name), HasSubstr("missing")));
  }
}

TEST(WeightPlan, WrongShapesAreNamedWithBothShapes) {
  const std::vector<std::byte> original = MakeTinyModel({.layers = 1});
  const auto with_dims = [&](const std::string& name, std::vector<uint64_t> dims) {
    ModelImage image(original);
    ImageTensor& tensor = image.tensor(name);
    uint64_t elements = 1;
    for (uint64_t dim : dims) elements *= dim;
    tensor.spec.dims = std::move(dims);
    tensor.bytes.resize(elements * sizeof(float));
    return ObstaclesOf(original, image);
  };
  struct Shape {
    std::string name;
    std::vector<uint64_t> dims;
    std::string stated;
    std::string wanted;
  };
  const Shape shapes[] = {
      {"blk.0.attn_q.weight", {64, 32}, "64 x 32", "64 x 64"},
      {"blk.0.ffn_down.weight", {64, 128}, "64 x 128", "128 x 64"},  // transposed
      {"blk.0.attn_norm.weight", {32}, "32", "64 x 1"},
      {"blk.0.ffn_up.weight", {64, 64, 2}, "64 x 64 x 2", "64 x 128"},
      {"output_norm.weight", {64, 2}, "64 x 2", "64 x 1"},
      {"blk.0.attn_k.weight", {2048}, "2048", "64 x 32"},
  };
  for (const Shape& shape : shapes) {
    const std::vector<Obstacle> obstacles = with_dims(shape.name, shape.dims);
    ASSERT_EQ(obstacles.size(), 1u) << shape.name;
    EXPECT_EQ(obstacles[0].code, ErrorCode::kCorrupt);
    EXPECT_THAT(obstacles[0].sentence,
                AllOf(HasSubstr(shape.name), HasSubstr(shape.stated), HasSubstr(shape.wanted)));
  }
  EXPECT_THAT(with_dims("blk.0.attn_norm.weight", {64, 1}), IsEmpty());
}

TEST(WeightPlan, TypesWithoutKernelsAreNamed) {
  const std::vector<std::byte> original = MakeTinyModel({.layers = 1});
  for (const DType type : {DType::kIQ4_NL, DType::kMXFP4, DType::kF64, DType::kI32}) {
    ModelImage image(original);
    ImageTensor& tensor = image.tensor("blk.0.attn_v.weight");
    tensor.spec.type = type;
    tensor.bytes.assign(*RowBytes(type, 64) * 32, std::byte{0});
    const std::vector<Obstacle> obstacles = ObstaclesOf(original, image);
    ASSERT_EQ(obstacles.size(), 1u) << DTypeName(type);
    EXPECT_EQ(obstacles[0].code, ErrorCode::kUnavailable);
    EXPECT_THAT(obstacles[0].sentence,
                AllOf(HasSubstr("blk.0.attn_v.weight"), HasSubstr(std::string(DTypeName(type)))));
  }
}

TEST(WeightPlan, UnusedTensorsAreReportedAndBiasesRefused) {
  const std::vector<std::byte> original = MakeTinyModel({.layers = 1});
  const std::vector<float> values(64, 0.5f);
  ModelImage image(original);
  image.SetFloats("blk.1.attn_norm.weight", values);
  image.SetFloats("rope_freqs.weight", std::vector<float>(8, 1.0f));  // read with the metadata
  EXPECT_THAT(ObstaclesOf(original, image), IsEmpty());
  const std::vector<std::byte> bytes = image.Bytes();
  const GgufFile file = *GgufFile::Parse(bytes, "changed");
  EXPECT_THAT(UnusedTensors(file, PlanWeights(*ReadModelSpec(file))),
              ElementsAre("blk.1.attn_norm.weight"));

  image.SetFloats("blk.0.attn_output.bias", values);
  const std::vector<Obstacle> obstacles = ObstaclesOf(original, image);
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_EQ(obstacles[0].code, ErrorCode::kUnavailable);
  EXPECT_THAT(obstacles[0].sentence, HasSubstr("blk.0.attn_output.bias"));
}

TEST(WeightPlan, BiasesOfQueryKeyAndValueBelongToLlama) {
  const std::vector<std::byte> original = MakeTinyModel({.layers = 1});
  ModelImage image(original);
  image.SetFloats("blk.0.attn_q.bias", std::vector<float>(64, 0.5f));
  image.SetFloats("blk.0.attn_k.bias", std::vector<float>(32, 0.5f));
  std::vector<std::byte> bytes = image.Bytes();
  GgufFile file = *GgufFile::Parse(bytes, "changed");
  std::vector<Obstacle> obstacles = FindObstacles(file, PlanWeights(*ReadModelSpec(file)));
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_THAT(obstacles[0].sentence, HasSubstr("blk.0.attn_v.bias"));
  image.SetFloats("blk.0.attn_v.bias", std::vector<float>(32, 0.5f));
  bytes = image.Bytes();
  file = *GgufFile::Parse(bytes, "changed");
  EXPECT_THAT(FindObstacles(file, PlanWeights(*ReadModelSpec(file))), IsEmpty());
}

}  // namespace
}  // namespace baton
