#include "cli/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "engine/available_memory.h"
#include "engine/memory_needs.h"
#include "engine/tokenizer_from_gguf.h"
#include "kernels/rope.h"
#include "model/arch/architecture.h"
#include "model/packed_model.h"
#include "model/weight_plan.h"
#include "tensor/kv_record.h"
#include "text/chat_template.h"
#include "threads/cpu_topology.h"

namespace baton {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::string StringOrEmpty(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  const std::optional<std::string_view> text = value == nullptr ? std::nullopt : value->AsString();
  return std::string(text.value_or(""));
}

std::optional<bool> BoolIfStated(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr ? std::nullopt : value->AsBool();
}

std::optional<int64_t> IntegerIfStated(const GgufFile& file, const std::string& key) {
  const GgufValue* value = file.Find(key);
  return value == nullptr ? std::nullopt : value->AsInt64();
}

int64_t ArraySize(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  const GgufArray* array = value == nullptr ? nullptr : value->AsArray();
  return array == nullptr ? 0 : static_cast<int64_t>(array->size);
}

SizeFacts ReadSizes(const GgufFile& file, const std::string& architecture) {
  const auto integer = [&](std::string_view suffix) {
    return IntegerIfStated(file, fmt::format("{}.{}", architecture, suffix));
  };
  return {.layers = integer("block_count"),
          .hidden_size = integer("embedding_length"),
          .feed_forward_size = integer("feed_forward_length"),
          .heads = integer("attention.head_count"),
          .kv_heads = integer("attention.head_count_kv"),
          .head_dim = integer("attention.key_length"),
          .trained_context = integer("context_length")};
}

std::vector<TensorTypeUse> CountTypes(const GgufFile& file) {
  std::map<std::string, TensorTypeUse> by_name;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name(DTypeName(tensor.type));
    TensorTypeUse& use = by_name[name];
    use.type = name;
    ++use.num_tensors;
    use.bytes += tensor.byte_size;
  }
  std::vector<TensorTypeUse> types;
  for (auto& [name, use] : by_name) types.push_back(std::move(use));
  std::stable_sort(types.begin(), types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return types;
}

TokenizerFacts ReadTokenizer(const GgufFile& file) {
  TokenizerFacts facts = {
      .model = StringOrEmpty(file, "tokenizer.ggml.model"),
      .pre = StringOrEmpty(file, "tokenizer.ggml.pre"),
      .num_tokens = ArraySize(file, "tokenizer.ggml.tokens"),
      .num_merges = ArraySize(file, "tokenizer.ggml.merges"),
      .special = {},
      .add_bos = BoolIfStated(file, "tokenizer.ggml.add_bos_token"),
      .add_eos = BoolIfStated(file, "tokenizer.ggml.add_eos_token"),
      .add_space_prefix = BoolIfStated(file, "tokenizer.ggml.add_space_prefix"),
  };
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRoles = {{
      {"bos", "tokenizer.ggml.bos_token_id"},
      {"eos", "tokenizer.ggml.eos_token_id"},
      {"eot", "tokenizer.ggml.eot_token_id"},
      {"eom", "tokenizer.ggml.eom_token_id"},
      {"unk", "tokenizer.ggml.unknown_token_id"},
      {"pad", "tokenizer.ggml.padding_token_id"},
  }};
  const Result<std::span<const std::string_view>> tokens =
      file.GetStringArray("tokenizer.ggml.tokens");
  for (const auto& [role, key] : kRoles) {
    const std::optional<int64_t> id = IntegerIfStated(file, std::string(key));
    if (!id.has_value()) continue;
    const bool known = tokens && *id >= 0 && *id < static_cast<int64_t>(tokens->size());
    facts.special.push_back(
        {.role = std::string(role),
         .id = *id,
         .piece = known ? std::string((*tokens)[static_cast<size_t>(*id)]) : std::string()});
  }
  return facts;
}

std::string_view ScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "unknown";
}

void AddSpec(const ModelSpec& spec, InspectReport& report) {
  report.has_spec = true;
  report.has_tied_output = spec.has_tied_output;
  report.sizes = {.layers = spec.num_layers(),
                  .hidden_size = spec.hidden_size,
                  .feed_forward_size = spec.feed_forward_size,
                  .heads = spec.num_heads,
                  .kv_heads = spec.num_kv_heads,
                  .head_dim = spec.head_dim,
                  .trained_context = spec.trained_context};
  for (const RopeSpec& rope : spec.ropes) {
    const bool halves = rope.params.layout == RopeLayout::kHalves;
    report.ropes.push_back({.base = rope.params.base,
                            .layout = halves ? "halves" : "interleaved",
                            .scaling = rope.frequency_factors.empty()
                                           ? std::string(ScalingName(rope.params.scaling))
                                           : std::string("factors in rope_freqs.weight"),
                            .factor = rope.params.factor,
                            .num_layers = 0});
  }
  for (const LayerSpec& layer : spec.layers) {
    ++report.ropes[static_cast<size_t>(layer.rope_index)].num_layers;
    if (layer.sliding_window == 0) continue;
    report.sliding_window = layer.sliding_window;
    ++report.num_window_layers;
  }
}

void AddMemory(const GgufFile& file, const ModelSpec& spec, std::optional<int64_t> context_tokens,
               InspectReport& report) {
  const int64_t context = context_tokens.value_or(spec.trained_context);
  LoadOptions options;
  options.num_threads = ReadCpuTopology().num_compute_threads();
  const Result<MemoryNeeds> needs = EstimateMemory(file, spec, QuestionOf(options, context));
  if (!needs) {
    report.lacks.push_back(needs.error().message);
    return;
  }
  report.kv_bytes_per_token = (needs->kv_block_bytes + kBlockTokens - 1) / kBlockTokens;
  report.memory = MemoryFacts{.context_tokens = context,
                              .weight_bytes = needs->weight_bytes,
                              .kv_bytes = needs->kv_bytes,
                              .workspace_bytes = needs->workspace_bytes};
  const std::optional<uint64_t> available = AvailableMemory({});
  if (!available.has_value()) return;
  const Result<> fits = CheckMemory(*needs, *available, context);
  if (!fits) report.lacks.push_back(fits.error().message);
}

// A packed file that does not belong to the model keeps it from being loaded.
void AddPackedFile(const GgufFile& file, InspectReport& report) {
  const Result<PackedFile> packed = PackedFile::Open(PackedPathOf(file), PackedFileOf(file));
  if (packed) {
    report.packed = PackedFacts{.path = packed->path(), .file_bytes = packed->file_bytes()};
  } else if (packed.error().code != ErrorCode::kNotFound) {
    report.lacks.push_back(packed.error().message);
  }
}

// What stands in the way of the model, and of its text.
void AddModel(const GgufFile& file, std::optional<int64_t> context_tokens, InspectReport& report) {
  if (file.tensors().empty()) {
    report.lacks.push_back("the file holds a vocabulary only, no weights");
    return;
  }
  const Result<ModelSpec> spec = ReadModelSpec(file);
  if (!spec) {
    report.lacks.push_back(spec.error().message);
    const Result<void> types = file.CheckSupportedTypes();
    if (!types) report.lacks.push_back(types.error().message);
    return;
  }
  AddSpec(*spec, report);
  const std::vector<WeightUse> plan = PlanWeights(*spec);
  for (Obstacle& obstacle : FindObstacles(file, plan)) {
    report.lacks.push_back(std::move(obstacle.sentence));
  }
  for (const std::string_view name : UnusedTensors(file, plan)) {
    report.unused_tensors.emplace_back(name);
  }
  for (const RopeSpec& rope : spec->ropes) {
    RopeParams params = rope.params;
    params.frequency_factors = rope.frequency_factors;
    const Result<RopeTable> table = RopeTable::Make(params);
    if (!table) report.lacks.push_back("RoPE: " + table.error().message);
  }
  AddMemory(file, *spec, context_tokens, report);
  AddPackedFile(file, report);
}

// Loading parses the template, too.
void AddTemplate(const GgufFile& file, InspectReport& report) {
  if (!file.Has(kTemplateKey)) return;
  report.chat_template = StringOrEmpty(file, kTemplateKey);
  const Result<std::string_view> source = file.GetString(kTemplateKey);
  if (!source) {
    report.lacks.push_back(source.error().message);
    return;
  }
  const Result<ChatTemplate> parsed = ChatTemplate::FromSource(*source);
  if (parsed) return;
  report.lacks.push_back(fmt::format("{}: {}; name another with --chat-template", kTemplateKey,
                                     parsed.error().message));
}

}  // namespace

InspectReport MakeInspectReport(const GgufFile& file, std::optional<int64_t> context_tokens) {
  InspectReport report;
  report.path = file.name();
  report.parts.assign(file.part_paths().begin(), file.part_paths().end());
  report.file_bytes = file.total_file_bytes();
  report.version = file.version();
  report.architecture = StringOrEmpty(file, "general.architecture");
  report.name = StringOrEmpty(file, "general.name");
  report.license = StringOrEmpty(file, "general.license");
  for (const GgufTensor& tensor : file.tensors()) report.num_parameters += tensor.num_elements();
  report.num_tensors = static_cast<int64_t>(file.tensors().size());
  report.sizes = ReadSizes(file, report.architecture);
  report.tensor_types = CountTypes(file);
  report.tokenizer = ReadTokenizer(file);
  AddModel(file, context_tokens, report);
  AddTemplate(file, report);
  const auto tokenizer = TokenizerFromGguf(file);
  if (!tokenizer) report.lacks.push_back("tokenizer: " + tokenizer.error().message);
  return report;
}

}  // namespace baton
