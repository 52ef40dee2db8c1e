// Reads and checks the header of one GGUF file; format/gguf.h joins the parts of a split model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"

namespace baton {

// What one file holds; everything points into its image.
struct GgufPart {
  std::span<const std::byte> header;  // all before the data: metadata, names, shapes
  uint32_t version = 0;
  uint32_t alignment = 0;
  std::vector<GgufKeyValue> metadata;
  std::vector<uint32_t> metadata_by_key;  // indices into metadata, sorted by key
  std::vector<GgufTensor> tensors;

  // The value of a key, or nullptr.
  const GgufValue* Find(std::string_view key) const;
};

// Reads the header in `image` and checks it against the image's size; GgufFile says what it
// guarantees. Names of tensors are not yet compared with each other.
// Errors: kInvalid if it is no GGUF file or of another version or byte order; kCorrupt if it
// contradicts itself or the size. Memory: a small multiple of the image's size at most.
Result<GgufPart> ParseGgufPart(std::span<const std::byte> image, const std::string& name);

}  // namespace baton
