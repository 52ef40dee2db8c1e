#include "text/pretokenizer_table.h"

namespace baton {
namespace {

// GPT-2's pattern, the last step of many families.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Llama 3: English contractions in any case, digits in threes, newlines kept with punctuation.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen 2: Llama 3 with single digits.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen 3.5: Qwen 2 with combining marks as letters.
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// GPT-4o: words also end where upper case follows lower case.
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Tekken (Mistral): GPT-4o with single digits and without contractions.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek LLM lists the letters of scripts with upper and lower case by number.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA})"
    R"(\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B})"
    R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B})"
    R"(\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// Blanks at the end of a piece. The look-behind changes no match (the leftmost match starts at the
// first blank of the run anyway); without it a long run that is not at the end takes squared time.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++\z)";
constexpr std::string_view kDeepSeekCjk = R"([\x{0800}-\x{9FA5}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepSeek3Cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Unicode punctuation and the ASCII signs that Unicode counts as symbols.
constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^~|`]+)";

constexpr PreTokenizerFamily kFamilies[] = {
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"},
     .patterns = {kLlama3},
     .ignore_merges = true,
     .adds_bos = true},
    {.names = {"dbrx", "smaug-bpe"}, .patterns = {kLlama3}},
    {.names = {"gpt-2", "gpt2", "phi-2", "jais", "exaone4", "mellum"}, .patterns = {kGpt2}},
    {.names = {"mpt", "olmo"}, .patterns = {kGpt2}, .nfc = true},
    {.names = {"qwen2"}, .patterns = {kQwen2}, .nfc = true},
    {.names = {"deepseek-r1-qwen", "stablelm2", "megrez"}, .patterns = {kQwen2}},
    {.names = {"qwen35"}, .patterns = {kQwen35}},
    {.names = {"starcoder", "refact", "smollm", "codeshell"}, .patterns = {R"(\p{N})", kGpt2}},
    {.names = {"command-r"}, .patterns = {R"(\p{N})", kGpt2}, .nfc = true},
    {.names = {"falcon"}, .patterns = {kPunctuation, kGpt2, "[0-9][0-9][0-9]"}},
    {.names = {"deepseek-llm"},
     .patterns = {R"([\r\n])", kDeepSeekLetters, kDeepSeekPunctuation, kTrailingSpace, kDeepSeekCjk,
                  R"(\p{N})"}},
    {.names = {"deepseek-coder"},
     .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, R"(\p{N})"}},
    {.names = {"deepseek-v3", "deepseek-r1"},
     .patterns = {R"(\p{N}{1,3})", kDeepSeek3Cjk, kDeepSeek3}},
    {.names = {"gpt-4o", "llama4"}, .patterns = {kGpt4o}},
    {.names = {"tekken"}, .patterns = {kTekken}, .ignore_merges = true, .adds_bos = true},
    // What writers of files mean when they say so; never used for a file that says nothing.
    {.names = {"default"}, .patterns = {kPunctuation, kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
};

}  // namespace

const PreTokenizerFamily* FindPreTokenizerFamily(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const PreTokenizerFamily& family : kFamilies) {
    for (const std::string_view candidate : family.names) {
      if (candidate == name) return &family;
    }
  }
  return nullptr;
}

std::string PreTokenizerNames() {
  std::string names;
  for (const PreTokenizerFamily& family : kFamilies) {
    for (const std::string_view name : family.names) {
      if (name.empty()) continue;
      if (!names.empty()) names += ", ";
      names += name;
    }
  }
  return names;
}

std::span<const PreTokenizerFamily> PreTokenizerFamilies() {
  return kFamilies;
}

}  // namespace baton
