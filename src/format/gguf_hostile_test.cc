// Files that lie: cut, reversed, overflowing, overlapping. Each is refused with one line that
// names the file, the byte and the reason; none reaches an allocation sized by the lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "format/test_image.h"

namespace baton {
namespace {

using Head = GgufImage::Head;

// The message of a refused image. Fails the test if it opens or the message is not as promised.
std::string Refusal(std::span<const std::byte> bytes) {
  const Result<GgufFile> file = GgufFile::Parse(bytes, "bad.gguf");
  if (file.has_value()) {
    ADD_FAILURE() << "it opens";
    return "";
  }
  const std::string& message = file.error().message;
  EXPECT_TRUE(message.starts_with("bad.gguf: ")) << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
  EXPECT_TRUE(file.error().code == ErrorCode::kInvalid || file.error().code == ErrorCode::kCorrupt);
  return message;
}

void ExpectRefused(const GgufImage& image, const std::string& reason) {
  const std::string message = Refusal(image.bytes());
  EXPECT_NE(message.find(reason), std::string::npos) << message << "\nwanted: " << reason;
}

// An image with one tensor and enough data for small ones.
GgufImage OneTensor(const GgufImage::Tensor& tensor) {
  return GgufImage(Head{.tensors = 1}).Add(tensor).Data(4096);
}

TEST(GgufHeader, MagicAndVersions) {
  EXPECT_NE(Refusal(GgufImage(Head{}).bytes().first(4)).find("ends inside the version"),
            std::string::npos);
  const std::string_view lower = "gguf\3\0\0\0";
  EXPECT_NE(
      Refusal(std::as_bytes(std::span(lower))).find("not a GGUF file: it starts with \"gguf\""),
      std::string::npos);
  for (const uint32_t version : {0u, 4u, 1u << 31, 0xffffffffu}) {
    ExpectRefused(GgufImage(Head{.version = version}), "at byte 4: unknown GGUF version");
  }
  ExpectRefused(GgufImage(Head{.version = 1}), "version 1 is not supported");
  ExpectRefused(GgufImage(Head{.version = 0x03000000}), "at byte 4: the file is big-endian");
  ExpectRefused(GgufImage(Head{.version = 0x02000000}), "big-endian");
  EXPECT_TRUE(GgufFile::Parse(GgufImage(Head{.version = 2}).bytes(), "v2").has_value());
  EXPECT_TRUE(GgufFile::Parse(GgufImage(Head{.version = 3}).bytes(), "v3").has_value());
}

TEST(GgufHeader, CountsAreHeldAgainstTheFile) {
  ExpectRefused(GgufImage(Head{.tensors = UINT64_MAX}), "number of tensors is over the limit");
  ExpectRefused(GgufImage(Head{.keys = UINT64_MAX}), "number of metadata keys is over the limit");
  ExpectRefused(GgufImage(Head{.tensors = 1000}),
                "number of tensors does not fit in the file: 1000");
  ExpectRefused(GgufImage(Head{.keys = 60000}), "metadata keys does not fit in the file: 60000");
}

TEST(GgufMetadata, LengthsAndTypes) {
  const Head one{.keys = 1};
  ExpectRefused(GgufImage(one).Int(UINT64_MAX).Data(64),
                "length of a metadata key is over the limit");
  ExpectRefused(GgufImage(one).Int(uint64_t{60000}).Data(64), "ends inside a metadata key");
  ExpectRefused(GgufImage(one).Key("", 0).Data(64), "empty");
  ExpectRefused(GgufImage(one).Key("a\nb", 0).Data(64), "control characters: \"a\\x0ab\"");
  ExpectRefused(GgufImage(one).Key("k", 13).Data(64), "key \"k\" has an unknown value type: 13");
  ExpectRefused(GgufImage(one).Key("k", 8).Int(UINT64_MAX).Data(64),
                "length of the value of \"k\" is over the limit");
  ExpectRefused(GgufImage(one).Key("k", 7).Int(uint8_t{2}).Data(0), "neither 0 nor 1: 2");
  ExpectRefused(GgufImage(one).Key("k", 10).Int(uint32_t{2}), "ends inside the value of \"k\"");
}

TEST(GgufMetadata, Arrays) {
  const auto array = [](uint32_t element_type, uint64_t count) {
    return GgufImage(Head{.keys = 1}).Key("k", 9).Int(element_type).Int(count).Data(64);
  };
  ExpectRefused(array(9, 1), "arrays of arrays are not supported");
  ExpectRefused(array(77, 1), "unknown value type: 77");
  ExpectRefused(array(4, UINT64_MAX), "does not fit");
  ExpectRefused(array(4, uint64_t{1} << 62), "does not fit");  // times 4 would wrap to 0
  ExpectRefused(array(8, uint64_t{1} << 61), "does not fit");
  ExpectRefused(array(0, uint64_t{1} << 20), "does not fit");
  ExpectRefused(GgufImage(Head{.keys = 1}).Key("k", 9).Int(7u).Int(uint64_t{1}).Int(uint8_t{9}),
                "neither 0 nor 1: 9");
}

TEST(GgufMetadata, DuplicatesAndAlignment) {
  ExpectRefused(GgufImage(Head{.keys = 2}).Key("k", 4).Int(1u).Key("k", 4).Int(2u),
                "a metadata key occurs twice: \"k\"");
  for (const uint32_t alignment : {0u, 1u, 4u, 33u, 48u, 1u << 21, 0xffffffffu}) {
    ExpectRefused(GgufImage(Head{.keys = 1}).Key("general.alignment", 4).Int(alignment),
                  "general.alignment must be a power of two from 8");
  }
  ExpectRefused(GgufImage(Head{.keys = 1}).Key("general.alignment", 8).String("32"),
                "it is string");
}

TEST(GgufTensorShape, ImpossibleDimensions) {
  const auto minus_32 = static_cast<uint64_t>(-32);
  ExpectRefused(OneTensor({.dims = {32, 0}}), "tensor \"t\" has a dimension below 1: 0");
  ExpectRefused(OneTensor({.dims = {minus_32, 4}}), "tensor \"t\" has a dimension below 1: -32");
  ExpectRefused(OneTensor({.dims = {uint64_t{1} << 62, 8}}), "tensor \"t\"");
  ExpectRefused(OneTensor({.dims = {8, uint64_t{1} << 62}}),
                "tensor \"t\" is larger than the file");
  // 2^32 x 2^32 x 4 bytes wraps to 0.
  ExpectRefused(OneTensor({.dims = {uint64_t{1} << 32, uint64_t{1} << 32}}),
                "tensor \"t\" is larger than the file");
  ExpectRefused(OneTensor({.dims = {1, 1, 1, 1, 1}}), "tensor \"t\" must have 1 to 4 dimensions");
  ExpectRefused(OneTensor({.dims = {}}), "must have 1 to 4 dimensions, it has 0");
  ExpectRefused(
      OneTensor({.dims = {31, 4}, .type = 3}),
      "tensor \"t\" has rows that are not whole blocks of type Q4_1: 31 elements, block 32");
  ExpectRefused(OneTensor({.dims = {1025}}), "reaches past the end");
}

TEST(GgufTensorType, UnknownAndWithdrawn) {
  ExpectRefused(OneTensor({.type = 9999}),
                "tensor \"t\" has a type that this version of Baton does "
                "not know: 9999");
  ExpectRefused(OneTensor({.type = 4}), "tensor \"t\" has a type that the format withdrew: Q4_2");
  ExpectRefused(OneTensor({.type = 31}), "withdrew: Q4_0_4_4");
}

TEST(GgufTensorPlace, OffsetsOutsideTheData) {
  // Added to the start of the data, this would come back into the header.
  ExpectRefused(OneTensor({.offset = UINT64_MAX - 31}), "tensor \"t\" reaches past the end");
  ExpectRefused(OneTensor({.offset = UINT64_MAX - 127}), "tensor \"t\" reaches past the end");
  ExpectRefused(OneTensor({.offset = 1}), "tensor \"t\" is not aligned: offset 1, alignment 32");
  ExpectRefused(OneTensor({.offset = 4096 - 96}), "tensor \"t\" reaches past the end");
  EXPECT_TRUE(GgufFile::Parse(OneTensor({.offset = 4096 - 128}).bytes(), "fits").has_value());
  // A header that ends where no data can follow.
  ExpectRefused(GgufImage(Head{.tensors = 1}).Add({.dims = {8}}), "reaches past the end");
}

TEST(GgufTensorPlace, Overlap) {
  const auto two = [](uint64_t first, uint64_t second) {
    return GgufImage(Head{.tensors = 2})
        .Add({.name = "a", .dims = {48}, .offset = first})
        .Add({.name = "b", .dims = {48}, .offset = second})
        .Data(4096);
  };
  ExpectRefused(two(0, 160), "tensors \"a\" and \"b\" overlap");
  ExpectRefused(two(160, 0), "tensors \"b\" and \"a\" overlap");
  ExpectRefused(two(0, 0), "overlap");
  EXPECT_TRUE(GgufFile::Parse(two(0, 192).bytes(), "apart").has_value());
}

TEST(GgufTensorName, LengthsAndDuplicates) {
  const std::string long_name(65, 'n');
  ExpectRefused(OneTensor({.name = long_name}), "length of a tensor's name is over the limit: 65");
  EXPECT_TRUE(
      GgufFile::Parse(OneTensor({.name = std::string_view(long_name).substr(1)}).bytes(), "64")
          .has_value());
  ExpectRefused(OneTensor({.name = ""}), "name is empty");
  ExpectRefused(OneTensor({.name = std::string_view("a\0b", 3)}), "\"a\\x00b\"");
  ExpectRefused(GgufImage(Head{.tensors = 2})
                    .Add({.name = "same"})
                    .Add({.name = "same", .offset = 128})
                    .Data(256),
                "tensor \"same\" occurs twice");
}

TEST(GgufEnd, AnotherFileBehindIt) {
  GgufImage image = OneTensor({.dims = {1024}});
  image.Raw("GGUF\3");
  ExpectRefused(image, "another GGUF file starts inside this one");
}

// Every prefix of every seed of the fuzzer: opens or is refused, nothing else.
TEST(GgufHeader, EveryCutOfASmallFile) {
  const GgufImage whole = GgufImage(Head{.tensors = 2, .keys = 3})
                              .Key("general.architecture", 8)
                              .String("llama")
                              .Key("a", 9)
                              .Int(8u)
                              .Int(uint64_t{2})
                              .String("x")
                              .String("yz")
                              .Key("b", 12)
                              .Int(1.5)
                              .Add({.name = "first", .dims = {64}, .type = 8})
                              .Add({.name = "second", .dims = {16, 2}, .offset = 96})
                              .Data(96 + 128);
  ASSERT_TRUE(GgufFile::Parse(whole.bytes(), "whole").has_value());
  for (size_t cut = 0; cut < whole.bytes().size(); ++cut) {
    // A copy of its own, so that a sanitizer sees the first byte read past the end.
    const std::vector<std::byte> bytes(whole.bytes().begin(), whole.bytes().begin() + cut);
    SCOPED_TRACE(cut);
    Refusal(bytes);
  }
}

}  // namespace
}  // namespace baton
