#include "cli/bench_model_command.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "bench/model_suite.h"
#include "cli/bench_options.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/profile_option.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "model/model_spec.h"
#include "threads/pool.h"

namespace baton {
namespace {

constexpr int64_t kMostBatch = 1024;
constexpr int64_t kMostRounds = 1000;
constexpr double kMaxRowSeconds = 30;

class BenchModelCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "bench model",
            .summary = "prefill and decode of a model beside this machine's limits",
            .usages = {"MODEL [OPTION]..."},
            .description =
                {"Times steps of the forward pass, from token ids to the logits of the last row; "
                 "loading and sampling do not count. Prompts are random tokens. For decode at a "
                 "depth the cache is filled with random numbers instead of computed ones.",
                 "The limit of a row is what its multiply-adds take at the machine's peaks or "
                 "what its bytes (weights, keys, values) take at the speed of reading the same "
                 "memory, whichever is longer, measured in turn with the row. Rows go in "
                 "rounds; a row that has taken 30 seconds gets no more."},
            .examples = {"baton bench model model.gguf",
                         "baton bench model model.gguf --prompt 512 --depth 0,8000 --threads 1,2 "
                         "--plot model.svg"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("What to measure (lists have commas between the numbers)");
    const IntegerRange tokens = {.min = 1, .max = ModelLimits::kMaxContext - 1};
    DeclareIntegers(options,
                    {.names = "--prompt",
                     .value = "LIST",
                     .help = "Prefill of so many tokens (default: 128,512,2048,8000)"},
                    tokens, &prompts_);
    DeclareIntegers(options,
                    {.names = "--depth",
                     .value = "LIST",
                     .help = "Decode with so many tokens in the cache (default: 0,2048,8000)"},
                    {.min = 0, .max = tokens.max}, &depths_);
    DeclareIntegers(options,
                    {.names = "--batch",
                     .value = "LIST",
                     .help = "Decode of so many sequences at once, at the first of the depths "
                             "(default: 1,2,4,8,16)"},
                    {.min = 1, .max = kMostBatch}, &batches_);
    DeclareIntegers(options,
                    {.names = "-t,--threads",
                     .value = "LIST",
                     .help = "Numbers of threads (default: the physical cores this process may "
                             "use)"},
                    {.min = 1, .max = ThreadPool::kMaxThreads}, &threads_);
    options.Group("Computing");
    DeclareIsa(options, &isa_);
    options.Choice({.names = "--precision",
                    .value = "NAME",
                    .help = "Inputs of quantized layers: fast or exact (default: fast)"},
                   {"fast", "exact"}, &precision_);
    DeclareKvType(options, &kv_type_);
    options.Integer({.names = "--chunk",
                     .value = "N",
                     .help = "Prompt tokens that are read in one step (default: 512)"},
                    {.min = 1, .max = 1 << 20}, &chunk_);
    DeclareNoPacked(options, &no_packed_);
    options.Group("Measuring");
    options.Integer(
        {.names = "--repeat",
         .value = "N",
         .help = "Rounds of each row, after one to warm up, as long as they fit into 30 "
                 "seconds (default: 5)"},
        {.min = 1, .max = kMostRounds}, &repeat_);
    DeclareQuick(options, &is_quick_);
    profile_.Declare(options);
    options.Group("Report");
    options.Flag({.names = "--csv", .value = "", .help = "Print comma-separated values"}, &csv_);
    output_.Declare(options,
                    "Write a plot as SVG besides: speed and limit by prompt, depth and "
                    "batch");
  }

  Result<> Check() override {
    if (output_.is_json() && csv_)
      return Fail(ErrorCode::kInvalid, "--json and --csv exclude each other");
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    const Result<OpRecorder*> recorder = profile_.Recorder(console.clock);
    if (!recorder) return Forward(recorder);
    const Result<ModelReport> report = Measure(*recorder, console);
    console.status.Clear();
    if (!report) return Forward(report);
    if (Result<> written = Write(*report, console); !written) return written;
    return EndOfQuick(is_quick_, profile_.Report(console), console);
  }

 private:
  Result<> Write(const ModelReport& report, Console& console) {
    // The other forms have them.
    for (const std::string& note : csv_ ? report.notes : std::vector<std::string>()) {
      (void)console.err.Write("baton: note: " + note + "\n");
    }
    return output_.Write({.text =
                              [&](size_t columns) {
                                return csv_ ? ModelAsCsv(report) : ModelAsText(report, columns);
                              },
                          .json = [&] { return ModelAsJson(report); },
                          .svg = [&] { return ModelAsSvg(report); }},
                         console);
  }

  ModelSuiteOptions Options(OpRecorder* recorder) const {
    const bool q = is_quick_;
    return {.path = model_.path(),
            .isa = isa_.value_or(BestIsa()),
            .precision = precision_ == "exact" ? Precision::kExact : Precision::kFast,
            .kv_type = KvTypeOf(kv_type_),
            .prompts = Or(prompts_, q ? Numbers{20} : Numbers{128, 512, 2048, 8000}),
            .depths = Or(depths_, q ? Numbers{0, 70} : Numbers{0, 2048, 8000}),
            .batches = Or(batches_, q ? Numbers{1, 2} : Numbers{1, 2, 4, 8, 16}),
            .threads = Or(threads_, {BenchThreads(std::nullopt)}),
            .chunk_tokens = chunk_.value_or(q ? 16 : 512),
            .use_packed_file = !no_packed_,
            .num_rounds = static_cast<int>(repeat_.value_or(q ? 1 : 5)),
            .max_row_seconds = kMaxRowSeconds,
            .recorder = recorder};
  }

  Result<ModelReport> Measure(OpRecorder* recorder, Console& console) const {
    Progress loading(console.status, console.clock,
                     {.what = "Loading", .unit = ProgressUnit::kBytes, .columns = console.columns});
    return BenchModel(
        Options(recorder), [&console](const std::string& what) { ShowStatus(console, what); },
        [&loading](uint64_t done, uint64_t total) {
          loading.Update(static_cast<int64_t>(done), static_cast<int64_t>(total));
        });
  }

  using Numbers = std::vector<int64_t>;
  static Numbers Or(const Numbers& given, const Numbers& usual) {
    return given.empty() ? usual : given;
  }

  ModelArgument model_;
  Numbers prompts_;
  Numbers depths_;
  Numbers batches_;
  Numbers threads_;
  std::optional<Isa> isa_;
  std::optional<std::string> precision_;
  std::optional<std::string> kv_type_;
  std::optional<int64_t> chunk_;
  std::optional<int64_t> repeat_;
  bool no_packed_ = false;
  bool is_quick_ = false;
  ProfileOption profile_;
  ReportOutput output_;
  bool csv_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBenchModelCommand() {
  return std::make_unique<BenchModelCommand>();
}

}  // namespace baton
