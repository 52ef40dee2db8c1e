# cmake -DFOLDER=... -DOUTPUT=... -P embed_files.cmake
# Writes the web page's files as C++: the table that src/serve/page_files.h declares. The names of
# files say their types, and index.html is "/".

set(types
  html "text/html\; charset=utf-8"
  css "text/css\; charset=utf-8"
  js "text/javascript\; charset=utf-8"
  svg "image/svg+xml")

file(GLOB files LIST_DIRECTORIES false ${FOLDER}/*)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "^.*\\." "" extension ${name})
  list(FIND types ${extension} at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${file}: no type is known for .${extension}")
  endif()
  math(EXPR at "${at} + 1")
  list(GET types ${at} type)
  set(path "/page/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  file(SHA256 ${file} digest)
  string(SUBSTRING ${digest} 0 32 digest)
  file(READ ${file} bytes HEX)
  # Literals of 16 bytes, a line each.
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REPEAT "." 64 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
  file(SIZE ${file} size)
  string(APPEND rows
    "    {.path = \"${path}\",\n     .type = \"${type}\",\n     .etag = \"\\\"${digest}\\\"\",\n"
    "     .bytes = {\n\"${bytes}\",\n${size}}},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made of src/serve/page by cmake/embed_files.cmake.
#include \"serve/page_files.h\"

namespace baton {
namespace {

constexpr PageFile kFiles[] = {
${rows}};

}  // namespace

std::span<const PageFile> PageFiles() {
  return kFiles;
}

}  // namespace baton
")
