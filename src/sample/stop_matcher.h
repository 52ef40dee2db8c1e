// Finds stop strings in a stream of text, however it is cut into pieces.
//
// The match is the stop string that is completed first; of several completed by the same byte, the
// longest. So it depends on the text alone, not on the pieces, and generation ends as soon as a
// stop string stands there. Text is held back while it could be the beginning of a stop string, and
// no longer. One pass over the text, whatever the number of stop strings. Source: A. V. Aho, M. J.
// Corasick, "Efficient string matching", 1975.
//
// Life: feeding → matched (the rest of the text is ignored) or finished (what was held is given
// out). Reset begins anew.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace baton {

// Threads: one at a time.
class StopMatcher {
 public:
  static constexpr int64_t kMaxStops = 1024;
  static constexpr int64_t kMaxTotalBytes = 1 << 20;

  // A matcher of these strings, none of them included. No strings: everything passes.
  // Errors: invalid: an empty string, one that is not UTF-8 (both named by their place), too many
  // strings or bytes.
  static Result<StopMatcher> Make(std::span<const std::string> stops);

  // Takes the next piece of text, any bytes, and returns what is certain not to belong to a stop
  // string; the pieces returned join to the text before the match. The view is valid until the next
  // call.
  std::string_view Feed(std::string_view text);

  // Ends the text: returns what was held back; nothing after a match. Valid until the next call.
  std::string_view Finish();

  // The stop string that was found, as its place among those given to Make.
  std::optional<int64_t> match() const { return match_; }
  bool matched() const { return match_.has_value(); }

  // Forgets the text.
  void Reset();

 private:
  // A prefix of a stop string. Node 0 is the empty one.
  struct Node {
    int32_t first_child = 0;  // 0: none
    int32_t next_sibling = 0;
    int32_t fallback = 0;     // the longest proper suffix that is a node, too
    int32_t length = 0;       // of the prefix, in bytes
    int32_t stop_node = 0;    // the longest suffix, itself included, that is a stop string; 0: none
    int32_t stop_index = -1;  // the stop string that this prefix is
    char byte = 0;            // its last byte
  };

  StopMatcher() : nodes_(1) {}
  void Insert(std::string_view stop, int32_t index);
  void LinkFallbacks();
  int32_t Child(int32_t node, char byte) const;
  int32_t Next(int32_t node, char byte) const;

  std::vector<Node> nodes_;
  int32_t state_ = 0;
  std::string held_;     // fed, not yet returned, but for the first `released_` bytes
  size_t released_ = 0;  // bytes of held_ that the last call returned
  std::optional<int64_t> match_;
};

}  // namespace baton
