// str() and repr() of every kind of value, and the writer of JSON behind tojson.
#include "text/template_print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/template_failure.h"
#include "text/template_objects.h"
#include "text/template_unicode.h"
#include "text/unicode.h"

namespace baton::templates {
namespace {

std::string Hex(char32_t c, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i) {
    text[static_cast<std::size_t>(i)] = "0123456789abcdef"[c & 15U];
    c >>= 4;
  }
  return text;
}

std::string StringRepr(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size(); i += CharacterBytes(text, i)) {
    const char32_t c = DecodeCharacter(text, i);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      AppendUtf8(c, out);
    } else if (c < 0x100) {
      out += "\\x" + Hex(c, 2);
    } else if (c < 0x10000) {
      out += "\\u" + Hex(c, 4);
    } else {
      out += "\\U" + Hex(c, 8);
    }
  }
  out += quote;
  return out;
}

std::string JoinedReprs(const std::vector<Value>& items) {
  std::string out;
  for (const Value& item : items) {
    if (!out.empty()) out += ", ";
    out += Repr(item);
  }
  return out;
}

std::string SequenceRepr(const Sequence& sequence) {
  switch (sequence.flavor) {
    case Flavor::kList:
      return "[" + JoinedReprs(sequence.items) + "]";
    case Flavor::kTuple:
      return "(" + JoinedReprs(sequence.items) + (sequence.items.size() == 1 ? ",)" : ")");
    case Flavor::kRange:
      return sequence.label;
    case Flavor::kKeys:
      return "dict_keys([" + JoinedReprs(sequence.items) + "])";
    case Flavor::kValues:
      return "dict_values([" + JoinedReprs(sequence.items) + "])";
    case Flavor::kItems:
      return "dict_items([" + JoinedReprs(sequence.items) + "])";
    case Flavor::kIterator:
      return "<generator object>";
  }
  return {};
}

std::string DictRepr(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, value] : dict.entries()) {
    if (out.size() > 1) out += ", ";
    out += Repr(key) + ": " + Repr(value);
  }
  return out + "}";
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void Write(const Value& value) {
    if (out.size() > style_.max_bytes)
      throw TemplateFailure{FailureKind::kExhausted, "the JSON text is too large", {}, false};
    switch (value.kind()) {
      case Kind::kNone:
        out += "null";
        return;
      case Kind::kBool:
        out += value.boolean() ? "true" : "false";
        return;
      case Kind::kInt:
        out += IntegerText(value.integer());
        return;
      case Kind::kFloat:
        out += FloatJson(value.floating());
        return;
      case Kind::kString:
        WriteString(value.string());
        return;
      case Kind::kDict:
        WriteDict(value.dict());
        return;
      case Kind::kSequence:
        if (value.is_list_or_tuple()) {
          WriteList(value.sequence().items);
          return;
        }
        break;
      default:
        break;
    }
    Raise("Object of type " + std::string(TypeName(value)) + " is not JSON serializable");
  }

  std::string out;

 private:
  static std::string FloatJson(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatText(value);
  }

  void NewLine() {
    if (!style_.indent.has_value()) return;
    out += '\n';
    for (int i = 0; i < level_; ++i) out += *style_.indent;
  }

  void WriteString(const std::string& text) {
    out += '"';
    for (std::size_t i = 0; i < text.size(); i += CharacterBytes(text, i)) {
      const char32_t c = DecodeCharacter(text, i);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
      } else if (c == '\n') {
        out += "\\n";
      } else if (c == '\r') {
        out += "\\r";
      } else if (c == '\t') {
        out += "\\t";
      } else if (c == '\b') {
        out += "\\b";
      } else if (c == '\f') {
        out += "\\f";
      } else if (c < 0x20 || (style_.ascii_only && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
        out += "\\u" + Hex(c, 4);
      } else if (style_.ascii_only && c >= 0x10000) {
        const char32_t v = c - 0x10000;
        out += "\\u" + Hex(0xD800 + (v >> 10), 4) + "\\u" + Hex(0xDC00 + (v & 0x3FF), 4);
      } else {
        AppendUtf8(c, out);
      }
    }
    out += '"';
  }

  void WriteList(const std::vector<Value>& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      NewLine();
      Write(items[i]);
    }
    --level_;
    NewLine();
    out += ']';
  }

  static std::string KeyText(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.string();
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return key.boolean() ? "true" : "false";
      case Kind::kInt:
        return IntegerText(key.integer());
      case Kind::kFloat:
        return FloatJson(key.floating());
      default:
        Raise("keys must be str, int, float, bool or None, not " + std::string(TypeName(key)));
    }
  }

  void WriteDict(const Dict& dict) {
    if (dict.size() == 0) {
      out += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(
          entries.begin(), entries.end(),
          [](const Dict::Entry* a, const Dict::Entry* b) { return Less(a->first, b->first); });
    out += '{';
    ++level_;
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!first) out += style_.item_separator;
      first = false;
      NewLine();
      WriteString(KeyText(entry->first));
      out += style_.key_separator;
      Write(entry->second);
    }
    --level_;
    NewLine();
    out += '}';
  }

  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string IntegerText(Integer value) {
  unsigned __int128 rest =
      value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  if (value < 0) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::scientific);
  std::string text(buffer.data(), end);
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  std::string sign;
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c == '-') sign = "-";
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string Str(const Value& value) {
  if (value.is_string()) return value.string();
  if (value.is_undefined()) return {};
  return Repr(value);
}

std::string Repr(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean() ? "True" : "False";
    case Kind::kInt:
      return IntegerText(value.integer());
    case Kind::kFloat:
      return FloatText(value.floating());
    case Kind::kString:
      return value.is_markup() ? "Markup(" + StringRepr(value.string()) + ")"
                               : StringRepr(value.string());
    case Kind::kSequence:
      return SequenceRepr(value.sequence());
    case Kind::kDict:
      return DictRepr(value.dict());
    case Kind::kNamespace:
      return "<Namespace>";
    case Kind::kMacro:
      return "<Macro " + StringRepr(value.macro()->definition->name) + ">";
    case Kind::kFunction:
      return "<function>";
    case Kind::kMethod:
      return "<method " + value.method().name + ">";
    case Kind::kLoop:
      return LoopRepr(*value.loop());
  }
  return {};
}

std::string JsonText(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.Write(value);
  return std::move(writer.out);
}

}  // namespace baton::templates
