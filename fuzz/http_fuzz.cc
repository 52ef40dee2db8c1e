// Arbitrary bytes as a connection's: no crash, no undefined behaviour, and the same requests
// however the bytes are cut into pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_parser.h"

namespace {

using baton::HttpParser;
using Progress = HttpParser::Progress;

// What was read: the requests that came to an end, and what became of the rest.
struct Outcome {
  std::vector<std::string> requests;
  int refusal = 0;

  // One may wait, at the end of the bytes, for what the other one has refused already.
  bool Agrees(const Outcome& other) const {
    return requests == other.requests &&
           (refusal == other.refusal || refusal == 0 || other.refusal == 0);
  }
};

baton::HttpLimits SmallLimits() {
  baton::HttpLimits limits;
  limits.max_head_bytes = 1024;
  limits.max_fields = 8;
  limits.max_body_bytes = 256;
  return limits;
}

std::string Text(HttpParser& parser) {
  const baton::HttpRequest& request = parser.request();
  std::string text = request.method + ' ' + request.target + '\n';
  for (const baton::HttpField& field : request.fields) {
    text += field.name + ": " + field.value + '\n';
  }
  text += request.body;
  text += parser.keep_alive() ? " +" : " -";
  text += parser.expects_continue() ? " continue" : "";
  return text;
}

// One connection after which, as in the server, the first refusal ends all.
Outcome Read(std::string_view bytes, size_t piece) {
  const baton::HttpLimits limits = SmallLimits();
  Outcome outcome;
  HttpParser parser(limits);
  std::string waiting;
  size_t next = 0;
  bool has_head = false;
  while (true) {
    const HttpParser::Step step = parser.Feed(waiting);
    if (step.consumed > waiting.size()) std::abort();
    waiting.erase(0, step.consumed);
    switch (step.progress) {
      case Progress::kRefused:
        outcome.refusal = parser.refusal_status();
        if (outcome.refusal < 400 || outcome.refusal > 599 || parser.refusal().empty()) {
          std::abort();
        }
        return outcome;
      case Progress::kHead:
        if (has_head) std::abort();
        has_head = true;
        continue;
      case Progress::kDone:
        if (!has_head || std::ssize(parser.request().body) > limits.max_body_bytes) std::abort();
        outcome.requests.push_back(Text(parser));
        parser = HttpParser(limits);
        has_head = false;
        continue;
      case Progress::kNeedMore:
        break;
    }
    // What is not taken is bounded, too.
    if (std::ssize(waiting) > limits.max_head_bytes + std::ssize(bytes)) std::abort();
    if (next == bytes.size()) return outcome;
    waiting += bytes.substr(next, piece);
    next = std::min(next + piece, bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Read(bytes, size + 1);
  for (const size_t piece : {1, 3, 64}) {
    if (!Read(bytes, piece).Agrees(whole)) std::abort();
  }
  return 0;
}
