// The architectures that Baton runs: a name in general.architecture, and how to read its metadata.
#pragma once

#include "base/result.h"
#include "format/gguf.h"
#include "model/model_spec.h"

namespace baton {

// Reads the metadata of a file of one architecture.
// Errors: corrupt (a value that cannot be, naming the key), not-found (a missing key that has no
// default), unavailable (something that Baton does not compute, by name).
Result<ModelSpec> ReadLlamaSpec(const GgufFile& file);
Result<ModelSpec> ReadGemma3Spec(const GgufFile& file);

// Reads the metadata of a file of any architecture in the table.
// Errors: as above; unavailable if the table lacks the file's architecture, with the list.
Result<ModelSpec> ReadModelSpec(const GgufFile& file);

}  // namespace baton
