#include "model/arch/architecture.h"

#include <array>
#include <string>
#include <string_view>

namespace baton {
namespace {

struct Architecture {
  std::string_view name;
  Result<ModelSpec> (*read)(const GgufFile&);
};

constexpr std::array kArchitectures = {
    Architecture{.name = "gemma3", .read = &ReadGemma3Spec},
    Architecture{.name = "llama", .read = &ReadLlamaSpec},
};

}  // namespace

Result<ModelSpec> ReadModelSpec(const GgufFile& file) {
  Result<std::string_view> name = file.GetString("general.architecture");
  if (!name) return Forward(name);
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == *name) return architecture.read(file);
  }
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return Fail(ErrorCode::kUnavailable, file.name() + ": Baton does not run the architecture \"" +
                                           std::string(name->substr(0, 64)) +
                                           "\" yet; it runs: " + known);
}

}  // namespace baton
