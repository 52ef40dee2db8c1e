#include "sample/stop_matcher.h"

#include <fmt/format.h>

#include "base/check.h"

namespace baton {
namespace {

// Bytes of the UTF-8 character at the front of the text; 0 if it is not one.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long a form, surrogates, beyond the last code point.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  return size;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

Result<> CheckStops(std::span<const std::string> stops) {
  if (std::ssize(stops) > StopMatcher::kMaxStops) {
    return Fail(ErrorCode::kInvalid, fmt::format("at most {} stop strings are allowed, got {}",
                                                 StopMatcher::kMaxStops, stops.size()));
  }
  int64_t total_bytes = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("a stop string must not be empty: number {} is", i + 1));
    }
    total_bytes += std::ssize(stops[i]);
    if (total_bytes > StopMatcher::kMaxTotalBytes) {
      return Fail(ErrorCode::kInvalid, fmt::format("stop strings may have {} bytes in all",
                                                   StopMatcher::kMaxTotalBytes));
    }
    if (!IsUtf8(stops[i])) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("a stop string must be UTF-8: number {} is not", i + 1));
    }
  }
  return {};
}

}  // namespace

Result<StopMatcher> StopMatcher::Make(std::span<const std::string> stops) {
  if (auto r = CheckStops(stops); !r) return Forward(r);
  StopMatcher matcher;
  for (size_t i = 0; i < stops.size(); ++i) matcher.Insert(stops[i], static_cast<int32_t>(i));
  matcher.LinkFallbacks();
  return matcher;
}

void StopMatcher::Insert(std::string_view stop, int32_t index) {
  int32_t node = 0;
  for (const char byte : stop) {
    int32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<int32_t>(nodes_.size());
      Node added;
      added.next_sibling = nodes_[node].first_child;
      added.length = nodes_[node].length + 1;
      added.byte = byte;
      nodes_.push_back(added);
      nodes_[node].first_child = child;
    }
    node = child;
  }
  // Of two equal strings the first is reported.
  if (nodes_[node].stop_index < 0) nodes_[node].stop_index = index;
}

// Breadth first: a node's fallback is shorter, so it is done before.
void StopMatcher::LinkFallbacks() {
  std::vector<int32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t node = queue[i];
    for (int32_t child = nodes_[node].first_child; child != 0; child = nodes_[child].next_sibling) {
      Node& linked = nodes_[child];
      linked.fallback = node == 0 ? 0 : Next(nodes_[node].fallback, linked.byte);
      linked.stop_node = linked.stop_index >= 0 ? child : nodes_[linked.fallback].stop_node;
      queue.push_back(child);
    }
  }
}

int32_t StopMatcher::Child(int32_t node, char byte) const {
  int32_t child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

// The longest suffix of (node's prefix, byte) that is a node.
int32_t StopMatcher::Next(int32_t node, char byte) const {
  for (;;) {
    const int32_t child = Child(node, byte);
    if (child != 0 || node == 0) return child;
    node = nodes_[node].fallback;
  }
}

std::string_view StopMatcher::Feed(std::string_view text) {
  held_.erase(0, released_);
  released_ = 0;
  if (matched()) return {};
  for (const char byte : text) {
    state_ = Next(state_, byte);
    held_.push_back(byte);
    const int32_t stop_node = nodes_[state_].stop_node;
    if (stop_node == 0) continue;
    match_ = nodes_[stop_node].stop_index;
    held_.resize(held_.size() - static_cast<size_t>(nodes_[stop_node].length));
    released_ = held_.size();
    return held_;
  }
  released_ = held_.size() - static_cast<size_t>(nodes_[state_].length);
  return std::string_view(held_).substr(0, released_);
}

std::string_view StopMatcher::Finish() {
  held_.erase(0, released_);
  released_ = held_.size();
  state_ = 0;
  return held_;
}

void StopMatcher::Reset() {
  held_.clear();
  released_ = 0;
  state_ = 0;
  match_.reset();
}

}  // namespace baton
