// Whether two names lead to one file.
#pragma once

#include <string>

namespace baton {

// Follows links; the files need not exist. Names that cannot be resolved are compared as they are.
bool IsSameFile(const std::string& a, const std::string& b);

}  // namespace baton
