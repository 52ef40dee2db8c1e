// The web page's files, which lie in the binary (src/serve/page, cmake/embed_files.cmake).
#pragma once

#include <span>
#include <string_view>

namespace baton {

// All texts live as long as the program.
struct PageFile {
  std::string_view path;  // "/" or "/page/NAME"
  std::string_view type;  // its Content-Type
  std::string_view etag;  // with quotes; of the bytes
  std::string_view bytes;
};

std::span<const PageFile> PageFiles();

}  // namespace baton
