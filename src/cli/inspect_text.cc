#include "cli/inspect_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "cli/printable.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPieceBytes = 60;
constexpr size_t kMaxNames = 8;

constexpr size_t kValueColumn = 17;

// What a row of types takes.
constexpr size_t kRowColumns = 33;

// Collects "label  value" lines; what is too long for one goes on in the next. On a screen that has
// no room for a row of types beside the label, what is too long stands below it.
class Lines {
 public:
  explicit Lines(size_t columns)
      : is_narrow_(columns > 0 && columns < kValueColumn + kRowColumns),
        shape_{.columns = columns, .indent = kValueColumn} {}

  void Add(std::string_view label, std::string_view value) {
    if (is_narrow_ && kValueColumn + ScreenColumns(value) > shape_.columns) {
      AddBelow(label, value);
    } else {
      text_ += LabelledLine(label, value, shape_);
    }
  }
  // A type of the tensors, how many there are, and their bytes; the columns stand below each other
  // where the screen is wide enough.
  void AddRow(std::string_view label, const TensorTypeUse& use) {
    const std::string_view noun = use.num_tensors == 1 ? "tensor" : "tensors";
    const std::string count = CountText(use.num_tensors);
    const std::string bytes = BytesText(use.bytes);
    const std::string row = fmt::format("{:<8}{:>5} {:<7}  {:>10}", use.type, count, noun, bytes);
    if (!is_narrow_) {
      Add(label, row);
    } else if (kNarrowIndent + kRowColumns <= shape_.columns) {
      AddBelow(label, row);
    } else {
      AddBelow(label, fmt::format("{} {} {} {}", use.type, count, noun, bytes));
    }
  }
  // On one line, however long.
  void AddWhole(std::string_view label, std::string_view value) {
    text_ += fmt::format("{:<{}}{}\n", label, kValueColumn, value);
  }
  void AddIf(std::string_view label, const std::optional<int64_t>& value) {
    if (value.has_value()) Add(label, CountText(*value));
  }
  std::string Take() { return std::move(text_); }

 private:
  static constexpr size_t kNarrowIndent = 2;

  void AddBelow(std::string_view label, std::string_view value) {
    if (!label.empty()) text_ += fmt::format("{}\n", label);
    const WrapShape below = {.columns = shape_.columns, .indent = kNarrowIndent};
    text_ += std::string(kNarrowIndent, ' ') + WrapWords(value, below) + "\n";
  }

  const bool is_narrow_;
  const WrapShape shape_;
  std::string text_;
};

std::string ParametersText(uint64_t count) {
  const auto parameters = static_cast<double>(count);
  if (parameters >= 1e9) return fmt::format("{:.2f} billion", parameters / 1e9);
  if (parameters >= 1e6) return fmt::format("{:.1f} million", parameters / 1e6);
  return CountText(static_cast<int64_t>(count));
}

std::string HeadsText(const SizeFacts& sizes) {
  std::string text;
  if (sizes.heads.has_value()) text = fmt::format("{}", *sizes.heads);
  if (sizes.kv_heads.has_value()) text += fmt::format(", {} of keys and values", *sizes.kv_heads);
  if (sizes.head_dim.has_value()) text += fmt::format(", {} wide", *sizes.head_dim);
  return text;
}

// Bases are whole numbers, but nothing says that they must be.
std::string BaseText(double base) {
  const bool is_whole = base == std::floor(base) && std::abs(base) < 1e15;
  return is_whole ? CountText(static_cast<int64_t>(base)) : fmt::format("{}", base);
}

void AddModelLines(const InspectReport& report, Lines& lines) {
  const SizeFacts& sizes = report.sizes;
  lines.AddIf("layers", sizes.layers);
  lines.AddIf("width", sizes.hidden_size);
  lines.AddIf("feed-forward", sizes.feed_forward_size);
  const std::string heads = HeadsText(sizes);
  if (!heads.empty()) lines.Add("heads", heads);
  if (sizes.trained_context) {
    lines.Add("trained context", CountOf(*sizes.trained_context, "token"));
  }
  if (report.has_spec) {
    lines.Add("output head", report.has_tied_output ? "tied to the embedding" : "its own");
  }
  for (const RopeFacts& rope : report.ropes) {
    std::string text = fmt::format("base {}, {}, {}", BaseText(rope.base), rope.layout,
                                   CountOf(rope.num_layers, "layer"));
    if (rope.scaling != "none") text += fmt::format(", scaling {}", rope.scaling);
    if (rope.factor != 1) text += fmt::format(" by {}", rope.factor);
    lines.Add("rope", text);
  }
  if (report.sliding_window > 0) {
    lines.Add("sliding window",
              fmt::format("{} in {} of {}", CountOf(report.sliding_window, "token"),
                          report.num_window_layers, CountOf(sizes.layers.value_or(0), "layer")));
  }
}

void AddTokenizerLines(const InspectReport& report, Lines& lines) {
  const TokenizerFacts& tokenizer = report.tokenizer;
  if (tokenizer.model.empty()) {
    lines.Add("tokenizer", "none in the file");
  } else {
    std::string text = Printable(tokenizer.model, kMaxPieceBytes);
    if (!tokenizer.pre.empty()) text += " / " + Printable(tokenizer.pre, kMaxPieceBytes);
    text += fmt::format(", {}", CountOf(tokenizer.num_tokens, "token"));
    if (tokenizer.num_merges > 0)
      text += fmt::format(", {}", CountOf(tokenizer.num_merges, "merge"));
    lines.Add("tokenizer", text);
  }
  std::string special;
  for (const SpecialToken& token : tokenizer.special) {
    special += fmt::format("{}{} {} {}", special.empty() ? "" : ", ", token.role, token.id,
                           Printable(token.piece, kMaxPieceBytes));
  }
  if (!special.empty()) lines.Add("special tokens", special);
  if (tokenizer.add_bos.has_value()) {
    lines.Add("bos", *tokenizer.add_bos ? "added in front of the text" : "not added");
  }
  if (report.chat_template.has_value()) {
    const std::string& text = *report.chat_template;
    lines.Add("chat template", fmt::format("{}, starts: {}", BytesText(text.size()),
                                           Printable(text.substr(0, text.find('\n')), 44)));
  } else {
    lines.Add("chat template", "none in the file; name one with --chat-template");
  }
}

void AddCostLines(const InspectReport& report, Lines& lines) {
  if (report.kv_bytes_per_token.has_value()) {
    const bool is_usual = report.kv_type == KvType::kF16;
    lines.Add("kv per token",
              BytesText(*report.kv_bytes_per_token) +
                  (is_usual ? "" : fmt::format(", {}", KvTypeName(report.kv_type))));
  }
  if (!report.memory.has_value()) return;
  const MemoryFacts& memory = *report.memory;
  lines.Add("memory",
            fmt::format("{} for a context of {}: weights {}, kv cache {}, workspace {}",
                        BytesText(memory.total_bytes()), CountOf(memory.context_tokens, "token"),
                        BytesText(memory.weight_bytes), BytesText(memory.kv_bytes),
                        BytesText(memory.workspace_bytes)));
}

Json OrNull(const std::optional<int64_t>& value) {
  return value.has_value() ? Json(*value) : Json();
}
Json OrNull(const std::optional<bool>& value) {
  return value.has_value() ? Json(*value) : Json();
}
Json OrNull(const std::string& value) {
  return value.empty() ? Json() : Json(value);
}

Json TokenizerJson(const TokenizerFacts& facts) {
  if (facts.model.empty()) return Json();
  Json special = Json::object();
  for (const SpecialToken& token : facts.special) {
    special[token.role] = {{"id", token.id}, {"piece", token.piece}};
  }
  return {{"model", facts.model},
          {"pre", OrNull(facts.pre)},
          {"tokens", facts.num_tokens},
          {"merges", facts.num_merges},
          {"special", std::move(special)},
          {"add_bos", OrNull(facts.add_bos)},
          {"add_eos", OrNull(facts.add_eos)},
          {"add_space_prefix", OrNull(facts.add_space_prefix)}};
}

Json SizesJson(const SizeFacts& sizes) {
  return {{"layers", OrNull(sizes.layers)},
          {"hidden_size", OrNull(sizes.hidden_size)},
          {"feed_forward_size", OrNull(sizes.feed_forward_size)},
          {"num_heads", OrNull(sizes.heads)},
          {"num_kv_heads", OrNull(sizes.kv_heads)},
          {"head_dim", OrNull(sizes.head_dim)},
          {"trained_context", OrNull(sizes.trained_context)}};
}

Json MemoryJson(const InspectReport& report) {
  if (!report.memory.has_value()) return Json();
  const MemoryFacts& memory = *report.memory;
  return {{"context_tokens", memory.context_tokens},
          {"weight_bytes", memory.weight_bytes},
          {"kv_bytes", memory.kv_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"total_bytes", memory.total_bytes()}};
}

std::string TuneText(const TuneFacts& tuned) {
  if (!tuned.fault.empty()) return "of no use: " + Printable(tuned.fault, 4096);
  const std::string from =
      tuned.break_even_tokens
          ? fmt::format("faster beyond {}", CountOf(*tuned.break_even_tokens, "token"))
          : std::string("faster at no length that was measured");
  return fmt::format("{}; {}", from, tuned.policy);
}

Json TuneJson(const InspectReport& report) {
  if (!report.tuned.has_value()) return Json();
  return {{"path", report.tuned->path},
          {"usable", report.tuned->fault.empty()},
          {"policy", OrNull(report.tuned->policy)},
          {"break_even_tokens", OrNull(report.tuned->break_even_tokens)},
          {"fault", OrNull(report.tuned->fault)}};
}

}  // namespace

std::string InspectText(const InspectReport& report, size_t columns) {
  Lines lines(columns);
  lines.AddWhole("file", fmt::format("{}, {}, GGUF v{}", Printable(report.path, 4096),
                                     BytesText(report.file_bytes), report.version));
  if (report.parts.size() > 1) lines.Add("parts", fmt::format("{}", report.parts.size()));
  if (!report.name.empty()) lines.Add("name", Printable(report.name, kMaxPieceBytes));
  if (!report.license.empty()) lines.Add("license", Printable(report.license, kMaxPieceBytes));
  lines.Add("architecture", report.architecture.empty()
                                ? "not stated"
                                : Printable(report.architecture, kMaxPieceBytes));
  if (report.num_tensors > 0) {
    lines.Add("parameters", fmt::format("{} in {}", ParametersText(report.num_parameters),
                                        CountOf(report.num_tensors, "tensor")));
  }
  AddModelLines(report, lines);
  for (const TensorTypeUse& use : report.tensor_types) {
    lines.AddRow(&use == &report.tensor_types.front() ? "tensor types" : "", use);
  }
  AddTokenizerLines(report, lines);
  AddCostLines(report, lines);
  if (report.packed.has_value()) {
    lines.Add("packed file", fmt::format("{}, {}", BytesText(report.packed->file_bytes),
                                         report.packed->is_usable ? "up to date" : "of no use"));
  } else if (report.has_spec) {
    lines.Add("packed file", "none; 'baton pack' makes one, and loading instant");
  }
  if (report.tuned.has_value()) {
    lines.Add("tune file", TuneText(*report.tuned));
  } else if (report.has_spec) {
    lines.Add("tune file", "none; 'baton tune' makes one, for --prefill auto");
  }
  if (!report.unused_tensors.empty()) {
    std::string names;
    for (size_t i = 0; i < report.unused_tensors.size() && i < kMaxNames; ++i) {
      names += (i == 0 ? "" : ", ") + Printable(report.unused_tensors[i], kMaxPieceBytes);
    }
    if (report.unused_tensors.size() > kMaxNames) names += ", ...";
    lines.Add("unused tensors",
              fmt::format("{}: {}", CountText(std::ssize(report.unused_tensors)), names));
  }
  if (report.lacks.empty()) lines.Add("runs", "yes");
  for (const std::string& lack : report.lacks) {
    lines.Add(&lack == &report.lacks.front() ? "does not run" : "", Printable(lack, 4096));
  }
  return lines.Take();
}

std::string InspectJson(const InspectReport& report) {
  Json types = Json::array();
  for (const TensorTypeUse& use : report.tensor_types) {
    types.push_back({{"type", use.type}, {"tensors", use.num_tensors}, {"bytes", use.bytes}});
  }
  Json ropes = Json::array();
  for (const RopeFacts& rope : report.ropes) {
    ropes.push_back({{"base", rope.base},
                     {"layout", rope.layout},
                     {"scaling", rope.scaling},
                     {"factor", rope.factor},
                     {"layers", rope.num_layers}});
  }
  const bool has_window = report.has_spec && report.sliding_window > 0;
  const bool has_spec = report.has_spec;
  const bool has_kv = report.kv_bytes_per_token.has_value();
  const Json json = {
      {"file", report.path},
      {"parts", report.parts},
      {"file_bytes", report.file_bytes},
      {"gguf_version", report.version},
      {"architecture", OrNull(report.architecture)},
      {"name", OrNull(report.name)},
      {"license", OrNull(report.license)},
      {"parameters", report.num_parameters},
      {"tensors", report.num_tensors},
      {"sizes", SizesJson(report.sizes)},
      {"tensor_types", std::move(types)},
      {"tied_output", has_spec ? Json(report.has_tied_output) : Json()},
      {"ropes", std::move(ropes)},
      {"sliding_window",
       has_window ? Json{{"tokens", report.sliding_window}, {"layers", report.num_window_layers}}
                  : Json()},
      {"tokenizer", TokenizerJson(report.tokenizer)},
      {"chat_template", report.chat_template.has_value() ? Json(*report.chat_template) : Json()},
      {"kv_type", KvTypeName(report.kv_type)},
      {"kv_bytes_per_token", has_kv ? Json(*report.kv_bytes_per_token) : Json()},
      {"memory", MemoryJson(report)},
      {"packed_file", report.packed.has_value() ? Json{{"path", report.packed->path},
                                                       {"bytes", report.packed->file_bytes},
                                                       {"usable", report.packed->is_usable}}
                                                : Json()},
      {"tune_file", TuneJson(report)},
      {"unused_tensors", report.unused_tensors},
      {"runs", report.lacks.empty()},
      {"lacks", report.lacks},
  };
  return JsonText(json);
}

}  // namespace baton
