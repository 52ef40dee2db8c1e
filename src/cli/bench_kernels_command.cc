#include "cli/bench_kernels_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/near_match.h"
#include "base/number_text.h"
#include "base/whole_number.h"
#include "bench/kernel_suite.h"
#include "cli/bench_options.h"

namespace baton {
namespace {

constexpr double kSecondsPerRow = 0.3;
constexpr int64_t kMostKeys = 1 << 17;
constexpr int64_t kMostExtent = 1 << 20;
// Numbers that a layer of --shape may have in all.
constexpr double kMostElements = 1e9;

class BenchKernelsCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "bench kernels",
            .summary = "each kernel, verified and timed beside this machine's limits",
            .usages = {"[OPTION]..."},
            .description =
                {"Runs linear layers of every weight type, attention of both phases and the "
                 "operations on rows, whole: from f32 rows to f32 rows. Each is first compared "
                 "bit by bit with the portable kernel, then timed in turn with what the machine "
                 "can do at most: multiply-adds of 8-bit integers (int8) and of f32 (fma) in "
                 "registers, and reading the same memory (read). A share is the median of the "
                 "rounds' own shares, so that what disturbs the machine for a while disturbs "
                 "both.",
                 "Matrices for 1 to 16 rows are larger than twice the last-level cache, if memory "
                 "allows. All types take some minutes. The exit status is 1 if a kernel gives "
                 "wrong bits."},
            .examples = {"baton bench kernels --only linear --type Q4_0,Q4_K",
                         "baton bench kernels --only sparse --keys 65536,131072",
                         "baton bench kernels --shape 256x8192x2048 --precision fast --csv"}};
  }

  void Declare(OptionSet& options) override {
    options.Group("What to measure");
    options.Choice(
        {.names = "--only",
         .value = "WHAT",
         .help = "Only these: linear, attention, or of that prefill, decode or sparse alone, "
                 "or rows (default: all)"},
        {"linear", "attention", "prefill", "decode", "sparse", "rows"}, &only_);
    options.Parsed({.names = "--type",
                    .value = "LIST",
                    .help = "Weight types with commas between them (default: all)"},
                   [this](const std::string& given) { return TakeTypes(given); });
    options.ParsedEach({.names = "--shape",
                        .value = "RxOxI",
                        .help = "Linear layers of R rows, O outputs and I inputs instead of the "
                                "usual ones; may be repeated"},
                       [this](const std::string& given) { return TakeShape(given); });
    options.Choice({.names = "--precision",
                    .value = "NAME",
                    .help = "Inputs of quantized layers: fast or exact (default: both)"},
                   {"fast", "exact"}, &precision_);
    options.Choice({.names = "--kv-type",
                    .value = "NAME",
                    .help = "Caches that dense attention reads: f16 or q8 (default: both)"},
                   {"f16", "q8"}, &kv_type_);
    DeclareIntegers(options,
                    {.names = "--keys",
                     .value = "LIST",
                     .help = "Prompt lengths of sparse prefill attention, with commas between "
                             "them: 4096, 8192, 16384, 32768, 65536, 131072 (default: all)"},
                    {.min = 1, .max = kMostKeys}, &lengths_);
    options.Parsed({.names = "--isa",
                    .value = "LIST",
                    .help = "Instruction sets with commas between them, or all (default: the best "
                            "of this machine)"},
                   [this](const std::string& given) { return TakeIsas(given); });
    options.Group("Measuring");
    DeclareBenchThreads(options,
                        "Threads (default: 1, which is timed by its own CPU time; some rows then "
                        "compare two threads with one)",
                        &threads_);
    options.Real({.names = "--seconds",
                  .value = "S",
                  .help = "Time each row for so long at least (default: 0.3)"},
                 {.min = 0, .max = 1000}, &seconds_);
    DeclareQuick(options, &is_quick_);
    options.Group("Report");
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
    options.Flag({.names = "--csv", .value = "", .help = "Print comma-separated values"}, &csv_);
  }

  Result<> Check() override {
    if (json_ && csv_) return Fail(ErrorCode::kInvalid, "--json and --csv exclude each other");
    if (is_quick_ && seconds_.has_value()) {
      return Fail(ErrorCode::kInvalid, "--quick does everything once, so --seconds has no meaning");
    }
    const char* of_linear = !shapes_.empty()         ? "--shape"
                            : !types_.empty()        ? "--type"
                            : precision_.has_value() ? "--precision"
                                                     : nullptr;
    if (of_linear != nullptr && only_.value_or("linear") != "linear") {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("{} is about linear layers, which --only {} leaves out", of_linear, *only_));
    }
    return CheckLengths();
  }

  Result<> Run(Console& console) override {
    KernelSuiteOptions options = {.isas = isas_.empty() ? std::vector<Isa>{BestIsa()} : isas_,
                                  .has_linear = Has("linear"),
                                  .has_prefill_attention = Has("attention") || Has("prefill"),
                                  .has_decode_attention = Has("attention") || Has("decode"),
                                  .has_sparse_attention = Has("attention") || Has("sparse"),
                                  .has_row_operations = Has("rows"),
                                  .types = types_.empty() ? KernelTypes() : types_,
                                  .precisions = {Precision::kFast, Precision::kExact},
                                  .shapes = shapes_,
                                  .sparse_lengths = lengths_,
                                  .num_threads = static_cast<int>(threads_.value_or(1)),
                                  .max_bytes = MemoryForBench(),
                                  .seconds_per_row = seconds_.value_or(kSecondsPerRow),
                                  .is_quick = is_quick_};
    if (precision_ == "fast") options.precisions = {Precision::kFast};
    if (kv_type_ == "f16") options.kv_types = {KvType::kF16};
    if (kv_type_ == "q8") options.kv_types = {KvType::kQ8};
    if (precision_ == "exact") options.precisions = {Precision::kExact};
    const Result<KernelReport> report =
        BenchKernels(options, [&console](const std::string& what) { ShowStatus(console, what); });
    console.status.Clear();
    if (!report) return Forward(report);
    const Result<> written =
        console.out.Write(json_  ? KernelsAsJson(*report)
                          : csv_ ? KernelsAsCsv(*report)
                                 : KernelsAsText(*report, console.answer_columns));
    if (!written) return written;
    return EndOfQuick(is_quick_, CheckBits(*report), console);
  }

 private:
  // Whether what --only names is wanted.
  bool Has(std::string_view part) const { return !only_ || *only_ == part; }

  Result<> TakeTypes(const std::string& given) {
    std::vector<std::string> known;
    for (const DType type : KernelTypes()) known.emplace_back(DTypeName(type));
    for (const std::string& name : SplitList(given)) {
      const auto found = std::find(known.begin(), known.end(), name);
      if (found == known.end()) {
        return Fail(ErrorCode::kInvalid, fmt::format("takes {}, not '{}'{}", fmt::join(known, ", "),
                                                     name, DidYouMean(name, known)));
      }
      const DType type = KernelTypes()[static_cast<size_t>(found - known.begin())];
      if (Result<> added = AddOnce(type, name, types_); !added) return added;
    }
    return {};
  }

  Result<> CheckLengths() const {
    const std::vector<int64_t> known = SparseLengths();
    for (const int64_t length : lengths_) {
      if (std::find(known.begin(), known.end(), length) == known.end()) {
        return Fail(ErrorCode::kInvalid,
                    fmt::format("--keys takes {}, not {}", fmt::join(known, ", "), length));
      }
    }
    const std::string only = only_.value_or("sparse");
    if (!lengths_.empty() && only != "sparse" && only != "attention") {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("--keys is about sparse attention, which --only {} leaves out", only));
    }
    if (!lengths_.empty() && is_quick_) {
      return Fail(ErrorCode::kInvalid,
                  "--quick has tiny sizes of its own, so --keys has no meaning");
    }
    return {};
  }

  Result<> TakeShape(const std::string& given) {
    LinearExtents extents;
    size_t begin = 0;
    bool is_shape = std::count(given.begin(), given.end(), 'x') == 2;
    for (int64_t* extent : {&extents.num_rows, &extents.num_outputs, &extents.num_inputs}) {
      const size_t end = std::min(given.find('x', begin), given.size());
      const std::optional<int64_t> number =
          WholeIn(given.substr(std::min(begin, end), end - std::min(begin, end)),
                  {.min = 1, .max = kMostExtent});
      is_shape = is_shape && number.has_value();
      *extent = number.value_or(0);
      begin = end + 1;
    }
    const double outputs = static_cast<double>(extents.num_outputs);
    const double inputs = static_cast<double>(extents.num_inputs);
    const double rows = static_cast<double>(extents.num_rows);
    if (!is_shape || extents.num_inputs % 32 != 0 || outputs * inputs > kMostElements ||
        rows * (outputs + inputs) > kMostElements) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("takes rows x outputs x inputs like 512x1536x576, inputs a multiple "
                              "of 32, at most 10^9 numbers a matrix, not '{}'",
                              given));
    }
    return AddOnce(extents, given, shapes_);
  }

  Result<> TakeIsas(const std::string& given) {
    if (given == "all") {
      isas_.assign(RunnableIsas().begin(), RunnableIsas().end());
      return {};
    }
    for (const std::string& name : SplitList(given)) {
      if (name == "all") return Fail(ErrorCode::kInvalid, "takes all alone, or a list without it");
      const Result<Isa> isa = ParseIsa(name);
      if (!isa) return Fail(isa.error().code, ": " + isa.error().message);
      if (Result<> added = AddOnce(*isa, name, isas_); !added) return added;
    }
    return {};
  }

  static Result<> CheckBits(const KernelReport& report) {
    const auto wrong = std::count_if(report.rows.begin(), report.rows.end(),
                                     [](const KernelRow& row) { return !row.is_right; });
    if (wrong == 0) return {};
    return Fail(ErrorCode::kInternal, fmt::format("{} with other bits than the portable kernel's",
                                                  CountOf(wrong, "row")));
  }

  std::optional<std::string> only_;
  std::optional<std::string> precision_;
  std::optional<int64_t> threads_;
  std::optional<double> seconds_;
  bool is_quick_ = false;
  bool json_ = false;
  bool csv_ = false;
  std::vector<DType> types_;
  std::optional<std::string> kv_type_;
  std::vector<LinearExtents> shapes_;
  std::vector<Isa> isas_;
  std::vector<int64_t> lengths_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchKernelsCommand() {
  return std::make_unique<BenchKernelsCommand>();
}

}  // namespace baton
