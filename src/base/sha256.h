// SHA-256, for tests that compare with the digest of a text that is not ours to commit.
//
// Source: FIPS 180-4. Plain and slow (about 200 MB/s); not for authentication.
#pragma once

#include <string>
#include <string_view>

namespace baton {

// The digest of the bytes as 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace baton
