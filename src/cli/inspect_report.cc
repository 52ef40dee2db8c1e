#include "cli/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/model_parts.h"
#include "engine/tune_file.h"
#include "forward/step_forward.h"
#include "kernels/sparse_policy_text.h"
#include "model/weight_plan.h"
#include "tensor/kv_record.h"
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

void AddMemory(const MemoryNeeds& needs, int64_t context_tokens, InspectReport& report) {
  report.kv_bytes_per_token = (needs.kv_block_bytes + kBlockTokens - 1) / kBlockTokens;
  report.memory = MemoryFacts{.context_tokens = context_tokens,
                              .weight_bytes = needs.weight_bytes,
                              .kv_bytes = needs.kv_bytes,
                              .workspace_bytes = needs.workspace_bytes};
}

std::optional<PackedFacts> ReadPackedFacts(const GgufFile& file, const ModelParts& parts) {
  PackedFacts facts{.path = PackedPathOf(file)};
  if (parts.packed) {
    facts.file_bytes = parts.packed->file_bytes();
    facts.is_usable = true;
    return facts;
  }
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(facts.path, error))) {
    return std::nullopt;
  }
  if (std::filesystem::is_regular_file(facts.path, error)) {
    facts.file_bytes = std::filesystem::file_size(facts.path, error);
  }
  return facts;
}

// Of a file that is named; else of that beside the model, which may be missing.
std::optional<TuneFacts> ReadTuneFacts(const GgufFile& file, const ModelParts& parts,
                                       const std::optional<std::string>& named) {
  const std::string usual = TunePathOf(file);
  TuneFacts facts{.path = named.value_or(usual)};
  Result<Tuning> tuning = parts.tuning;
  if (named && parts.spec) {
    tuning = ReadTuneFile(*named, {.usual_path = usual,
                                   .fingerprint = parts.fingerprint,
                                   .model = PolicyModelOf(*parts.spec)});
  }
  if (tuning) {
    facts.policy = PolicyText(tuning->policy);
    facts.break_even_tokens = tuning->break_even_tokens;
    return facts;
  }
  const Error& error = tuning.error();
  if (error.code == ErrorCode::kNotFound && !named) return std::nullopt;
  const std::string place = facts.path + ": ";
  facts.fault = error.message.substr(error.message.starts_with(place) ? place.size() : 0);
  return facts;
}

// The parts as loading would take them, and what it would lack.
void AddParts(const GgufFile& file, const InspectOptions& options, InspectReport& report) {
  const ModelParts parts =
      ReadModelParts(file, {.path = file.name(),
                            .kv_type = options.kv_type,
                            .num_threads = ReadCpuTopology().num_compute_threads(),
                            .context_tokens = options.context_tokens});
  if (parts.spec) {
    AddSpec(*parts.spec, report);
    for (const std::string_view name : UnusedTensors(file, PlanWeights(*parts.spec))) {
      report.unused_tensors.emplace_back(name);
    }
  }
  if (parts.needs) AddMemory(*parts.needs, parts.context_tokens, report);
  report.packed = ReadPackedFacts(file, parts);
  report.tuned = ReadTuneFacts(file, parts, options.tune_file);
  // The report has the file's name already.
  const std::string place = file.name() + ": ";
  for (const Error& error : parts.lacks) {
    const std::string& message = error.message;
    report.lacks.push_back(message.substr(message.starts_with(place) ? place.size() : 0));
  }
}

}  // namespace

InspectReport MakeInspectReport(const GgufFile& file, const InspectOptions& options) {
  InspectReport report;
  report.path = file.name();
  report.kv_type = options.kv_type;
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
  if (file.Has(kTemplateKey)) report.chat_template = StringOrEmpty(file, kTemplateKey);
  AddParts(file, options, report);
  return report;
}

}  // namespace baton
