#include "net/http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>
#include <utility>

namespace baton {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using BoostError = beast::error_code;

constexpr size_t kMaxContentLengthDigits = 15;
constexpr size_t kMaxChunkSizeDigits = 12;
// A chunk's size line that does not end within so many bytes has no honest use.
constexpr size_t kMaxChunkLine = 4096;

std::string_view View(beast::string_view text) {
  return {text.data(), text.size()};
}

// Takes over what Beast finds: in heads, and in bodies of a stated length. Chunked bodies are read
// here: where Beast takes a line to end depends on how the bytes arrive.
class Events final : public http::basic_parser<true> {
 public:
  HttpRequest request;
  int version = 0;

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int message_version, BoostError&) override {
    request.method = std::string(View(method));
    request.target = std::string(View(target));
    version = message_version;
  }
  void on_response_impl(int, beast::string_view, int, BoostError&) override {}
  void on_field_impl(http::field, beast::string_view name, beast::string_view value,
                     BoostError&) override {
    request.fields.push_back({.name = std::string(View(name)), .value = std::string(View(value))});
  }
  void on_header_impl(BoostError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BoostError&) override {}
  std::size_t on_body_impl(beast::string_view body, BoostError&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, BoostError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, BoostError&) override {
    return 0;
  }
  void on_finish_impl(BoostError&) override {}
};

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The size at the start of a chunk's line; nothing if the line is none. Of what follows a semicolon
// only the quotes are looked at: one that stays open would hold the line's end for some readers.
std::optional<int64_t> ChunkSize(std::string_view line) {
  const std::string_view hexadecimal = "0123456789abcdef";
  int64_t size = 0;
  size_t digits = 0;
  for (; digits < line.size(); ++digits) {
    const char byte = line[digits];
    const size_t value = hexadecimal.find(byte >= 'A' && byte <= 'F' ? byte - 'A' + 'a' : byte);
    if (value == std::string_view::npos) break;
    if (digits == kMaxChunkSizeDigits) return std::nullopt;
    size = size * 16 + static_cast<int64_t>(value);
  }
  line.remove_prefix(digits);
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  if (digits == 0 || (!line.empty() && line.front() != ';')) return std::nullopt;
  if (std::count(line.begin(), line.end(), '"') % 2 != 0) return std::nullopt;
  return size;
}

// Whether a comma-separated list has the word.
bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (EqualFold(item, word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool IsKnownMethod(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "QUERY"}) {
    if (method == known) return true;
  }
  return false;
}

}  // namespace

class HttpParser::State {
 public:
  explicit State(const HttpLimits& limits) : limits_(limits) {
    events_.eager(false);
    events_.header_limit(static_cast<std::uint32_t>(limits.max_head_bytes));
    events_.body_limit(static_cast<std::uint64_t>(limits.max_body_bytes));
  }

  Step Feed(std::string_view data) {
    if (refusal_status_ != 0) return {.progress = Progress::kRefused};
    return head_done_ ? FeedBody(data) : FeedHead(data);
  }

  HttpRequest& request() { return events_.request; }
  bool keep_alive() const { return keep_alive_; }
  bool has_body() const { return has_body_; }
  bool expects_continue() const { return expects_continue_; }
  int refusal_status() const { return refusal_status_; }
  const std::string& refusal() const { return refusal_; }

 private:
  enum class ChunkState : std::uint8_t { kSize, kData, kTrailer };

  Step Refuse(int status, std::string why) {
    refusal_status_ = status;
    refusal_ = std::move(why);
    return {.progress = Progress::kRefused};
  }

  // Collects the head byte by byte, so that nothing questionable reaches the parser.
  Step FeedHead(std::string_view data) {
    size_t used = 0;
    while (used < data.size()) {
      const char byte = data[used++];
      if (head_.empty() && (byte == '\r' || byte == '\n')) {
        // One empty line before a request is left over from the last one.
        if (byte == '\n' && last_ != '\r') return Refuse(400, "a line ends without CR");
        if (++blank_bytes_ > 2) return Refuse(400, "more than one empty line before the request");
        last_ = byte;
        continue;
      }
      if (const char* why = Questionable(byte)) return Refuse(400, why);
      head_ += byte;
      last_ = byte;
      if (std::ssize(head_) > limits_.max_head_bytes) {
        return Refuse(
            431, fmt::format("the request's head is longer than {} bytes", limits_.max_head_bytes));
      }
      if (head_.ends_with("\r\n\r\n")) return ParseHead(used);
    }
    return {.progress = Progress::kNeedMore, .consumed = used};
  }

  const char* Questionable(char byte) const {
    if (byte == '\n') return last_ == '\r' ? nullptr : "a line ends without CR";
    if (last_ == '\r') return "a CR stands inside a line";
    if (last_ == '\n' && (byte == ' ' || byte == '\t')) return "a header field is folded";
    const auto value = static_cast<unsigned char>(byte);
    if ((value < 0x20 && byte != '\r' && byte != '\t') || value == 0x7f) {
      return "a control character stands in the head";
    }
    return nullptr;
  }

  Step ParseHead(size_t used) {
    BoostError error;
    size_t parsed = 0;
    while (parsed < head_.size() && !events_.is_header_done() && !error) {
      parsed += events_.put(boost::asio::const_buffer(head_.data() + parsed, head_.size() - parsed),
                            error);
      if (error == http::error::need_more) break;
    }
    if (error) return RefuseFor(error);
    if (!events_.is_header_done()) return Refuse(400, "the head is no HTTP request");
    if (Step step = CheckHead(); step.progress == Progress::kRefused) return step;
    head_done_ = true;
    head_ = {};
    last_ = 0;
    events_.eager(true);
    return {.progress = Progress::kHead, .consumed = used};
  }

  Step CheckHead() {
    HttpRequest& request = events_.request;
    request.is_http_1_0 = events_.version == 10;
    if (events_.version != 10 && events_.version != 11) {
      return Refuse(505, "HTTP/1.1 is spoken here");
    }
    if (std::ssize(request.fields) > limits_.max_fields) {
      return Refuse(431, fmt::format("the request has more than {} fields", limits_.max_fields));
    }
    if (Step step = CheckLength(); step.progress == Progress::kRefused) return step;
    if (request.CountFields("Host") > 1 ||
        (!request.is_http_1_0 && request.CountFields("Host") != 1)) {
      return Refuse(400, "one Host field is wanted");
    }
    if (!IsKnownMethod(request.method)) return Refuse(501, "this method is not known here");
    if (Step step = CheckTarget(); step.progress == Progress::kRefused) return step;
    if (const auto expect = request.Field("Expect"); expect && !request.is_http_1_0) {
      if (!EqualFold(*expect, "100-continue")) return Refuse(417, "only 100-continue is expected");
      expects_continue_ = has_body_;
    }
    keep_alive_ = !request.is_http_1_0;
    for (const HttpField& field : request.fields) {
      if (!EqualFold(field.name, "Connection")) continue;
      if (HasWord(field.value, "close")) keep_alive_ = false;
    }
    return {};
  }

  // How long the body is, in the one way in which it may be said.
  Step CheckLength() {
    const HttpRequest& request = events_.request;
    const size_t lengths = request.CountFields("Content-Length");
    const size_t codings = request.CountFields("Transfer-Encoding");
    if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) {
      return Refuse(400, "the body's length is given twice");
    }
    if (codings == 1) {
      if (request.is_http_1_0) return Refuse(400, "HTTP/1.0 has no Transfer-Encoding");
      if (!EqualFold(*request.Field("Transfer-Encoding"), "chunked")) {
        return Refuse(501, "the only Transfer-Encoding is chunked");
      }
      has_body_ = true;
      is_chunked_ = true;
    }
    if (lengths == 1) {
      const std::string_view length = *request.Field("Content-Length");
      if (!IsDigits(length) || length.size() > kMaxContentLengthDigits) {
        return Refuse(IsDigits(length) ? 413 : 400, "Content-Length is not a sensible number");
      }
      has_body_ = length.find_first_not_of('0') != std::string_view::npos;
    }
    const bool wants_body =
        request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
    if (wants_body && lengths + codings == 0) {
      return Refuse(411, "say the body's length, in Content-Length or by chunks");
    }
    return {};
  }

  Step CheckTarget() {
    std::string& target = events_.request.target;
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!EqualFold(std::string_view(target).substr(0, scheme.size()), scheme)) continue;
      const size_t path = target.find_first_of("/?", scheme.size());
      target = path == std::string::npos ? "/" : target.substr(path);
      if (target.front() == '?') target.insert(0, "/");
    }
    if (target.starts_with('/') || (target == "*" && events_.request.method == "OPTIONS")) {
      return {};
    }
    return Refuse(400, "the target is no path");
  }

  // A chunked body, byte by byte but for the chunks' own bytes.
  Step FeedChunks(std::string_view data) {
    size_t used = 0;
    while (used < data.size()) {
      if (chunk_state_ == ChunkState::kData && chunk_rest_ > 0) {
        const size_t taken = std::min(data.size() - used, static_cast<size_t>(chunk_rest_));
        events_.request.body.append(data.substr(used, taken));
        chunk_rest_ -= static_cast<int64_t>(taken);
        used += taken;
        continue;
      }
      const char byte = data[used++];
      if (const char* why = Questionable(byte)) return Refuse(400, why);
      if (chunk_state_ == ChunkState::kData && byte != '\r' && byte != '\n') {
        return Refuse(400, "a chunk is longer than it says");
      }
      last_ = byte;
      line_ += byte;
      if (line_.size() > kMaxChunkLine) return Refuse(400, "a line of a chunked body is too long");
      if (!line_.ends_with("\r\n")) continue;
      line_.resize(line_.size() - 2);
      const Step step = EndChunkLine();
      line_.clear();
      if (step.progress == Progress::kRefused) return step;
      if (step.progress == Progress::kDone) {
        return {.progress = Progress::kDone, .consumed = used};
      }
    }
    return {.progress = Progress::kNeedMore, .consumed = used};
  }

  // A line has ended: a chunk's size, the nothing behind its bytes, or a field behind the last one.
  Step EndChunkLine() {
    if (chunk_state_ == ChunkState::kData) {
      chunk_state_ = ChunkState::kSize;
      return {};
    }
    if (chunk_state_ == ChunkState::kTrailer) {
      if (line_.empty()) return {.progress = Progress::kDone};
      trailer_bytes_ += std::ssize(line_);
      if (trailer_bytes_ > limits_.max_head_bytes) {
        return Refuse(431, "the fields behind the body are too long");
      }
      const size_t colon = line_.find(':');
      const bool is_field =
          colon != std::string::npos && colon > 0 && line_.find_first_of(" \t") > colon;
      return is_field ? Step{} : Refuse(400, "behind the body stands what is no field");
    }
    const std::optional<int64_t> size = ChunkSize(line_);
    if (!size) return Refuse(400, "a chunk's size is no number");
    if (*size > limits_.max_body_bytes - std::ssize(events_.request.body)) {
      return Refuse(413, fmt::format("the body is longer than {} bytes", limits_.max_body_bytes));
    }
    chunk_state_ = *size == 0 ? ChunkState::kTrailer : ChunkState::kData;
    chunk_rest_ = *size;
    last_ = 0;
    return {};
  }

  Step FeedBody(std::string_view data) {
    if (is_chunked_) return FeedChunks(data);
    size_t used = 0;
    BoostError error;
    while (!events_.is_done() && used < data.size()) {
      const size_t taken =
          events_.put(boost::asio::const_buffer(data.data() + used, data.size() - used), error);
      used += taken;
      if (error || taken == 0) break;
    }
    if (error && error != http::error::need_more) return RefuseFor(error);
    return {.progress = events_.is_done() ? Progress::kDone : Progress::kNeedMore,
            .consumed = used};
  }

  Step RefuseFor(const BoostError& error) {
    if (error == http::error::body_limit) {
      return Refuse(413, fmt::format("the body is longer than {} bytes", limits_.max_body_bytes));
    }
    if (error == http::error::header_limit) return Refuse(431, "the head is too long");
    if (error == http::error::bad_version) return Refuse(505, "HTTP/1.1 is spoken here");
    return Refuse(400, "the request is malformed: " + error.message());
  }

  const HttpLimits limits_;
  Events events_;
  std::string head_;
  char last_ = 0;
  int blank_bytes_ = 0;
  bool head_done_ = false;
  bool keep_alive_ = false;
  bool has_body_ = false;
  bool is_chunked_ = false;
  ChunkState chunk_state_ = ChunkState::kSize;
  int64_t chunk_rest_ = 0;     // bytes of the chunk at work
  int64_t trailer_bytes_ = 0;  // of the fields behind the last one
  std::string line_;           // of a chunked body
  bool expects_continue_ = false;
  int refusal_status_ = 0;
  std::string refusal_;
};

HttpParser::HttpParser(const HttpLimits& limits) : state_(std::make_unique<State>(limits)) {}
HttpParser::HttpParser(HttpParser&&) noexcept = default;
HttpParser& HttpParser::operator=(HttpParser&&) noexcept = default;
HttpParser::~HttpParser() = default;

HttpParser::Step HttpParser::Feed(std::string_view data) {
  return state_->Feed(data);
}
HttpRequest& HttpParser::request() {
  return state_->request();
}
bool HttpParser::keep_alive() const {
  return state_->keep_alive();
}
bool HttpParser::has_body() const {
  return state_->has_body();
}
bool HttpParser::expects_continue() const {
  return state_->expects_continue();
}
int HttpParser::refusal_status() const {
  return state_->refusal_status();
}
const std::string& HttpParser::refusal() const {
  return state_->refusal();
}

}  // namespace baton
