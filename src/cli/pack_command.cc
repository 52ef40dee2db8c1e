#include "cli/pack_command.h"

#include <fmt/format.h>

#include <functional>
#include <string>

#include "base/number_text.h"
#include "base/shell_text.h"
#include "cli/model_argument.h"
#include "cli/progress.h"
#include "format/gguf.h"
#include "format/packed_file.h"
#include "model/packed_model.h"
#include "threads/cpu_topology.h"
#include "threads/pool.h"

namespace baton {
namespace {

class PackCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "pack",
            .summary = "save a model's weights ready to compute with",
            .usages = {"MODEL", "MODEL --check"},
            .description =
                {"Repacks the weights of a model file for the kernels, as every command does when "
                 "it loads a model, and saves them beside it as MODEL.packed. Commands that load "
                 "the model then map that file instead: they start at once and need no second "
                 "copy in memory. The model file stays in use for everything else. The answers "
                 "are the same to the last bit.",
                 "The packed file takes about as much space as the model file, serves all "
                 "instruction sets, and can be deleted at any time. One that does not belong to "
                 "the model file, or is damaged, is refused, not ignored."},
            .examples = {"baton pack model.gguf", "baton run model.gguf -p Hello"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Packing");
    options.Flag({.names = "--check",
                  .value = "",
                  .help = "Write nothing; repack and compare every byte of the packed file, "
                          "which takes as long as packing"},
                 &check_);
    options.Integer({.names = "-t,--threads",
                     .value = "N",
                     .help = "Threads to work with (default: the physical cores this process may "
                             "use)"},
                    {.min = 1, .max = ThreadPool::kMaxThreads}, &threads_);
    for (const char* const name : {"-o", "--output"}) {
      options.Elsewhere(
          name, "pack writes MODEL.packed beside the model, where other commands look for it");
    }
  }

  Result<> Check() override { return model_.Check(); }

  Result<> Run(Console& console) override {
    const Result<GgufFile> file = GgufFile::Open(model_.path());
    if (!file) return Forward(file);
    const std::string path = PackedPathOf(*file);
    if (!check_) {
      if (Result<> packed = Pack(*file, path, console); !packed) return packed;
    }
    const Result<PackedFile> packed = PackedFile::Open(path, PackedFileOf(*file));
    if (!packed && packed.error().code == ErrorCode::kNotFound) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("{}: there is no packed file; make it with: baton pack {}", path,
                              ShellPath(model_.path())));
    }
    if (!packed) return Forward(packed);
    if (check_) {
      if (Result<> same = Compare(*file, *packed, console); !same) return same;
    }
    return console.out.Write(fmt::format("{}: {} {}, {}{}\n", path, packed->num_entries(),
                                         packed->num_entries() == 1 ? "matrix" : "matrices",
                                         BytesText(packed->file_bytes()),
                                         check_ ? ", up to date and whole" : ""));
  }

 private:
  Result<> Pack(const GgufFile& file, const std::string& path, Console& console) const {
    return Repack(file, path, {.what = "Packing", .console = console},
                  [](const PackModelArgs& args) { return PackModel(args); });
  }

  Result<> Compare(const GgufFile& file, const PackedFile& packed, Console& console) const {
    return Repack(file, packed.path(), {.what = "Comparing", .console = console},
                  [&packed](const PackModelArgs& args) { return CheckPackedModel(args, packed); });
  }

  // Does `work` with threads and a line of progress.
  struct Shown {
    std::string what;
    Console& console;
  };
  Result<> Repack(const GgufFile& file, const std::string& path, const Shown& shown,
                  const std::function<Result<>(const PackModelArgs&)>& work) const {
    const int num_threads = threads_.has_value() ? static_cast<int>(*threads_)
                                                 : ReadCpuTopology().num_compute_threads();
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(num_threads);
    if (!pool) return Forward(pool);
    Console& console = shown.console;
    Progress progress(
        console.status, console.clock,
        {.what = shown.what, .unit = ProgressUnit::kBytes, .columns = console.columns});
    return work({.file = file,
                 .path = path,
                 .pool = **pool,
                 .progress = [&progress](uint64_t done_bytes, uint64_t total_bytes) {
                   progress.Update(static_cast<int64_t>(done_bytes),
                                   static_cast<int64_t>(total_bytes));
                 }});
  }

  ModelArgument model_;
  bool check_ = false;
  std::optional<int64_t> threads_;
};

}  // namespace

std::unique_ptr<Command> MakePackCommand() {
  return std::make_unique<PackCommand>();
}

}  // namespace baton
