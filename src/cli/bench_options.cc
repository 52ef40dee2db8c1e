#include "cli/bench_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/whole_number.h"
#include "cli/note.h"
#include "engine/available_memory.h"
#include "threads/cpu_topology.h"
#include "threads/pool.h"

namespace baton {

void DeclareBenchThreads(OptionSet& options, const std::string& help,
                         std::optional<int64_t>* threads) {
  options.Integer({.names = "-t,--threads", .value = "N", .help = help},
                  {.min = 1, .max = ThreadPool::kMaxThreads}, threads);
}

void DeclareQuick(OptionSet& options, bool* is_quick) {
  options.Flag({.names = "--quick",
                .value = "",
                .help = "Everything once with tiny sizes, to see that it runs; the figures mean "
                        "nothing"},
               is_quick);
}

Result<> EndOfQuick(bool is_quick, Result<> done, Console& console) {
  if (is_quick && done) {
    Note("--quick does everything once with tiny sizes: these figures mean nothing", console);
  }
  return done;
}

void DeclareIsa(OptionSet& options, std::optional<Isa>* isa) {
  options.Parsed({.names = "--isa",
                  .value = "NAME",
                  .help = "Instruction set: auto, portable, avx2, avx-vnni or avx512 (default: "
                          "auto, the best of this machine)"},
                 [isa](const std::string& given) -> Result<> {
                   const Result<Isa> parsed = ParseIsa(given);
                   if (!parsed) return Fail(parsed.error().code, ": " + parsed.error().message);
                   *isa = *parsed;
                   return {};
                 });
}

void DeclareIntegers(OptionSet& options, OptionText text, IntegerRange range,
                     std::vector<int64_t>* numbers) {
  options.Parsed(std::move(text), [range, numbers](const std::string& given) -> Result<> {
    for (const std::string& word : SplitList(given)) {
      const std::optional<int64_t> number = WholeIn(word, range);
      if (!number.has_value()) {
        return Fail(ErrorCode::kInvalid,
                    fmt::format("takes whole numbers from {} to {} with commas between them, at "
                                "most 64, not '{}'",
                                range.min, range.max, given));
      }
      if (Result<> added = AddOnce(*number, word, *numbers); !added) return added;
    }
    return {};
  });
}

void DeclareReals(OptionSet& options, OptionText text, RealRange range,
                  std::vector<double>* numbers) {
  options.Parsed(std::move(text), [range, numbers](const std::string& given) -> Result<> {
    for (const std::string& word : SplitList(given)) {
      const std::optional<double> number = ParseReal(word, range);
      if (!number.has_value()) {
        return Fail(ErrorCode::kInvalid,
                    fmt::format("takes numbers from {} to {} with commas between them, at "
                                "most 64, not '{}'",
                                range.min, range.max, given));
      }
      if (Result<> added = AddOnce(*number, word, *numbers); !added) return added;
    }
    return {};
  });
}

int BenchThreads(std::optional<int64_t> given) {
  return given.has_value() ? static_cast<int>(*given) : ReadCpuTopology().num_compute_threads();
}

uint64_t MemoryForBench() {
  constexpr uint64_t kIfUnknown = uint64_t{1} << 30;
  return AvailableMemory({}).value_or(2 * kIfUnknown) / 2;
}

void ShowStatus(Console& console, const std::string& what) {
  const size_t most = static_cast<size_t>(std::max(console.columns - 1, 0));
  console.status.Draw(("Measuring: " + what).substr(0, most));
}

std::vector<std::string> SplitList(const std::string& text) {
  constexpr size_t kMostWords = 64;
  std::vector<std::string> words;
  size_t begin = 0;
  while (begin <= text.size()) {
    const bool is_last = words.size() + 1 == kMostWords;
    const size_t end = is_last ? text.size() : std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace baton
