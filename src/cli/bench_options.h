// What the benchmark commands have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/option_set.h"
#include "kernels/isa.h"

namespace baton {

// --threads with a help text of the command's own.
void DeclareBenchThreads(OptionSet& options, const std::string& help,
                         std::optional<int64_t>* threads);

// --quick: everything once with tiny sizes, to see that it runs.
void DeclareQuick(OptionSet& options, bool* is_quick);
// Passes on how a benchmark ended; after one that went well by --quick says that its figures mean
// nothing.
[[nodiscard]] Result<> EndOfQuick(bool is_quick, Result<> done, Console& console);

// --isa, one of this machine's.
void DeclareIsa(OptionSet& options, std::optional<Isa>* isa);

// Whole numbers in the range with commas between them, each once, at most 64.
void DeclareIntegers(OptionSet& options, OptionText text, IntegerRange range,
                     std::vector<int64_t>* numbers);

// The same for numbers with a fraction.
void DeclareReals(OptionSet& options, OptionText text, RealRange range,
                  std::vector<double>* numbers);

// Appends what a word of a list means. Errors: invalid (it is in the list already).
template <typename T>
Result<> AddOnce(const T& value, const std::string& word, std::vector<T>& list) {
  if (std::find(list.begin(), list.end(), value) != list.end()) {
    return Fail(ErrorCode::kInvalid, "takes each thing once, not '" + word + "' twice");
  }
  list.push_back(value);
  return {};
}

// The threads given, or as many as this process should compute with.
int BenchThreads(std::optional<int64_t> given);

// What a benchmark may take for what it works on: half of what is free. Units: bytes.
uint64_t MemoryForBench();

// Shows what is being measured, on a terminal.
void ShowStatus(Console& console, const std::string& what);

// The words between commas, empty ones too; at most 64, the last with all that is left.
std::vector<std::string> SplitList(const std::string& text);

}  // namespace baton
