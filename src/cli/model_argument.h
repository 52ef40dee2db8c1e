// The argument that every command takes: which model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/option_set.h"

namespace baton {

// MODEL, or -m MODEL.
class ModelArgument {
 public:
  void Declare(OptionSet& options);
  // The same where a second argument "-" is allowed, for standard input. `instead` tells who puts
  // something else there where it goes: "a question goes with -p".
  void DeclareWithDash(OptionSet& options, std::string instead);
  // Errors: invalid unless exactly one model is named.
  Result<> Check();
  // Whether "-" was among the arguments. Requires: Check succeeded.
  bool has_dash() const { return has_dash_; }
  // Whether any is named.
  bool given() const { return !positional_.empty() || !named_.empty(); }
  // Requires: Check succeeded.
  const std::string& path() const { return positional_.empty() ? named_.front() : positional_[0]; }

 private:
  void DeclareNames(OptionSet& options, bool also_dash);

  std::vector<std::string> positional_;
  std::vector<std::string> named_;
  std::string instead_of_second_ = {};  // empty: only one argument is allowed
  bool has_dash_ = false;
};

}  // namespace baton
