#include "cli/inspect_command.h"

#include "cli/inspect_report.h"
#include "cli/inspect_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "format/gguf.h"
#include "model/model_spec.h"

namespace baton {
namespace {

class InspectCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "inspect",
            .summary = "what is in a model file and what it costs to run",
            .usages = {"MODEL [--json] [--ctx N] [--kv-type NAME] [--tune-file FILE]"},
            .description = {"Reads the header of a model file and prints architecture, sizes, "
                            "tensor types, tokenizer, chat template, the memory of the KV cache "
                            "and of a whole context, and what Baton lacks to run the file, if "
                            "anything. Any part of a split model stands for the whole. Files that "
                            "Baton cannot run, or that hold a vocabulary only, are described as "
                            "well; the exit status is 0 for every file that can be read."},
            .examples = {"baton inspect model.gguf --ctx 32768"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Report");
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
    options.Integer({.names = "-c,--ctx",
                     .value = "N",
                     .help = "Context to count the memory for (default: what the model was "
                             "trained for)"},
                    {.min = 1, .max = ModelLimits::kMaxContext}, &context_);
    DeclareKvType(options, &kv_type_);
    DeclareTuneFile(options, &tune_file_);
  }

  Result<> Check() override { return model_.Check(); }

  Result<> Run(Console& console) override {
    const Result<GgufFile> file = GgufFile::Open(model_.path());
    if (!file) return Forward(file);
    const InspectReport report = MakeInspectReport(
        *file,
        {.context_tokens = context_, .kv_type = KvTypeOf(kv_type_), .tune_file = tune_file_});
    return console.out.Write(json_ ? InspectJson(report)
                                   : InspectText(report, console.answer_columns));
  }

 private:
  ModelArgument model_;
  bool json_ = false;
  std::optional<int64_t> context_;
  std::optional<std::string> kv_type_;
  std::optional<std::string> tune_file_;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() {
  return std::make_unique<InspectCommand>();
}

}  // namespace baton
