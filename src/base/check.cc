#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace baton::internal {

void CheckFailed(const char* file, int line, const char* text, const std::string& values) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%s\n", file, line, text,
               values.empty() ? "" : ": ", values.c_str());
  std::abort();
}

}  // namespace baton::internal
