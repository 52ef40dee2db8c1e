// The web page at "/": plain files, to whoever asks. What they show they ask for as any client.
#pragma once

#include <string_view>

#include "net/http_message.h"
#include "serve/page_files.h"

namespace baton {

// The file of a path, exactly as written; null if there is none.
const PageFile* FindPageFile(std::string_view path);

// The file, or 304 if the browser has it. The browser is told to take nothing from elsewhere, and
// to ask each time whether the file is still the same.
HttpResponse PageResponse(const PageFile& file, const HttpRequest& request);

}  // namespace baton
