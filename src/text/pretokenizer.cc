#include "text/pretokenizer.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace baton {
namespace {

// Every pattern backtracks over a run at most once per alternative, so a text of n bytes needs less
// than 8 n steps; this allows texts of the greatest size that a tokenizer takes.
constexpr uint32_t kMatchLimit = 1u << 30;

// Unicode's White_Space. PCRE2's own \s also takes U+180E, which Unicode dropped from the set.
constexpr std::string_view kSpaces =
    R"(\x{09}-\x{0D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Writes \s and \S of a pattern as classes of kSpaces. Inside brackets only \s occurs.
std::string WithUnicodeSpaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out += kSpaces;
      } else if (escaped == 's' || escaped == 'S') {
        out += fmt::format("[{}{}]", escaped == 'S' ? "^" : "", kSpaces);
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
    } else if (c == ']') {
      in_class = false;
    }
    out += c;
  }
  return out;
}

std::string Pcre2Message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// What matching needs besides the pattern; one per call of Split.
struct Scratch {
  std::unique_ptr<pcre2_match_data, FreeMatchData> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context{
      pcre2_match_context_create(nullptr)};
};

}  // namespace

struct PreTokenizer::Pattern {
  explicit Pattern(pcre2_code* compiled) : code(compiled) {}
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { pcre2_code_free(code); }

  // Appends the matches in `piece`, and what lies between them, to `out`.
  Result<void> SplitPiece(std::string_view piece, const Scratch& scratch,
                          std::vector<std::string_view>& out) const;

  pcre2_code* code;
};

Result<void> PreTokenizer::Pattern::SplitPiece(std::string_view piece, const Scratch& scratch,
                                               std::vector<std::string_view>& out) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.data.get());
  size_t position = 0;
  while (position < piece.size()) {
    const int code_or_count = pcre2_match(code, subject, piece.size(), position, PCRE2_NO_UTF_CHECK,
                                          scratch.data.get(), scratch.context.get());
    if (code_or_count == PCRE2_ERROR_NOMATCH) break;
    if (code_or_count < 0) {
      return Fail(ErrorCode::kExhausted,
                  "cutting the text into words failed: " + Pcre2Message(code_or_count) +
                      "; shorten the text or break its longest run");
    }
    const size_t begin = offsets[0];
    const size_t end = offsets[1];
    if (end <= position) return Fail(ErrorCode::kInternal, "a pre-tokenizer matched nothing");
    if (begin > position) out.push_back(piece.substr(position, begin - position));
    out.push_back(piece.substr(begin, end - begin));
    position = end;
  }
  if (position < piece.size()) out.push_back(piece.substr(position));
  return {};
}

PreTokenizer::PreTokenizer(const PreTokenizerFamily& family) : family_(&family) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Make(std::string_view name) {
  const PreTokenizerFamily* family = FindPreTokenizerFamily(name);
  if (family == nullptr) {
    return Fail(ErrorCode::kUnavailable, fmt::format("unknown pre-tokenizer \"{}\"; known: {}",
                                                     name.substr(0, 64), PreTokenizerNames()));
  }
  PreTokenizer result(*family);
  for (const std::string_view pattern : family->patterns) {
    if (pattern.empty()) continue;
    const std::string expanded = WithUnicodeSpaces(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code == nullptr) {
      return Fail(ErrorCode::kInternal, fmt::format("pre-tokenizer \"{}\" does not compile: {}",
                                                    name, Pcre2Message(error)));
    }
    result.patterns_.push_back(std::make_unique<const Pattern>(code));
    // Without just-in-time compilation (another CPU) matching is slower and gives the same words.
    static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  }
  return result;
}

Result<std::vector<std::string_view>> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> words;
  if (text.empty()) return words;
  const Scratch scratch;
  if (!scratch.data || !scratch.context) {
    return Fail(ErrorCode::kExhausted, "no memory to cut the text into words");
  }
  pcre2_set_match_limit(scratch.context.get(), kMatchLimit);
  words.push_back(text);
  std::vector<std::string_view> finer;
  for (const auto& pattern : patterns_) {
    finer.clear();
    for (const std::string_view piece : words) {
      if (auto ok = pattern->SplitPiece(piece, scratch, finer); !ok) return Forward(ok);
    }
    words.swap(finer);
  }
  return words;
}

}  // namespace baton
