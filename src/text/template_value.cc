// How values are made, measured, compared, ordered and hashed; dicts that keep their order.
#include "text/template_value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/template_failure.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

// Dicts up to this size are searched in order; larger ones have an index.
constexpr std::size_t kIndexedFrom = 9;

int CheckedDepth(int depth) {
  if (depth > kMaxValueDepth)
    throw TemplateFailure{FailureKind::kExhausted,
                          "values nest too deeply: at most " + std::to_string(kMaxValueDepth) +
                              " containers inside each other",
                          {},
                          false};
  return depth;
}

std::size_t CheckedWeight(std::size_t weight) {
  if (weight > kMaxValueWeight)
    throw TemplateFailure{FailureKind::kExhausted, "a value is too large", {}, false};
  return weight;
}

std::size_t Mix(std::size_t seed, std::size_t value) {
  return (seed ^ value) * 0x9E3779B97F4A7C15ULL + (seed >> 7);
}

bool SameSequenceType(const Sequence& a, const Sequence& b) {
  return a.flavor == b.flavor;
}

}  // namespace

Value Value::None() {
  Value value;
  value.kind_ = Kind::kNone;
  return value;
}

Value Value::Bool(bool flag) {
  Value value;
  value.kind_ = Kind::kBool;
  value.integer_ = flag ? 1 : 0;
  return value;
}

Value Value::Int(Integer number) {
  Value value;
  value.kind_ = Kind::kInt;
  value.integer_ = number;
  return value;
}

Value Value::Float(double number) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.floating_ = number;
  return value;
}

Value Value::String(std::string text) {
  Value value;
  value.kind_ = Kind::kString;
  value.heap_ = std::make_shared<const std::string>(std::move(text));
  return value;
}

Value Value::Markup(std::string text) {
  Value value = String(std::move(text));
  value.markup_ = true;
  return value;
}

Value Value::StringLike(const Value& like, std::string text) {
  Value value = String(std::move(text));
  value.markup_ = like.markup_;
  return value;
}

Value Value::List(std::vector<Value> items) {
  return Of(Sequence{.flavor = Flavor::kList, .items = std::move(items)});
}

Value Value::Tuple(std::vector<Value> items) {
  return Of(Sequence{.flavor = Flavor::kTuple, .items = std::move(items)});
}

Value Value::Iterator(std::vector<Value> items) {
  return Of(Sequence{.flavor = Flavor::kIterator, .items = std::move(items)});
}

Value Value::Of(Sequence sequence) {
  int depth = 0;
  std::size_t weight = 16;
  for (const Value& item : sequence.items) {
    depth = std::max(depth, item.depth());
    weight = CheckedWeight(weight + item.weight());
  }
  sequence.depth = CheckedDepth(depth + 1);
  sequence.weight = weight;
  Value value;
  value.kind_ = Kind::kSequence;
  value.heap_ = std::make_shared<const Sequence>(std::move(sequence));
  return value;
}

Value Value::Of(Dict dict) {
  Value value;
  value.kind_ = Kind::kDict;
  value.heap_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

Value Value::Undefined(std::string message) {
  Value value;
  value.heap_ = std::make_shared<const std::string>(std::move(message));
  return value;
}

Value Value::Method(Value self, std::string name) {
  Value value;
  value.kind_ = Kind::kMethod;
  value.heap_ = std::make_shared<const BoundMethod>(BoundMethod{std::move(self), std::move(name)});
  return value;
}

Value Value::Function(int function_id) {
  Value value;
  value.kind_ = Kind::kFunction;
  value.integer_ = function_id;
  return value;
}

Value Value::Of(Namespace* object) {
  Value value;
  value.kind_ = Kind::kNamespace;
  value.raw_ = object;
  return value;
}

Value Value::Of(const Macro* macro) {
  Value value;
  value.kind_ = Kind::kMacro;
  value.raw_ = const_cast<Macro*>(macro);
  return value;
}

Value Value::Of(LoopState* loop) {
  Value value;
  value.kind_ = Kind::kLoop;
  value.raw_ = loop;
  return value;
}

bool Value::is_list_or_tuple() const {
  return kind_ == Kind::kSequence &&
         (sequence().flavor == Flavor::kList || sequence().flavor == Flavor::kTuple);
}

double Value::number() const {
  return kind_ == Kind::kFloat ? floating_ : static_cast<double>(integer_);
}

std::string Value::undefined_message() const {
  return heap_ == nullptr ? "an undefined value was used" : string();
}

int Value::depth() const {
  if (kind_ == Kind::kSequence) return sequence().depth;
  if (kind_ == Kind::kDict) return dict().depth();
  if (kind_ == Kind::kMethod) return method().self.depth() + 1;
  return 0;
}

std::size_t Value::weight() const {
  constexpr std::size_t kScalar = 16;
  if (kind_ == Kind::kString) return kScalar + string().size();
  if (kind_ == Kind::kSequence) return sequence().weight;
  if (kind_ == Kind::kDict) return dict().weight();
  if (kind_ == Kind::kMethod) return kScalar + method().self.weight();
  return kScalar;
}

std::ptrdiff_t Dict::IndexOf(const Value& key, std::size_t hash) const {
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (Equal(entries_[i].first, key)) return static_cast<std::ptrdiff_t>(i);
    return -1;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (Equal(entries_[it->second].first, key)) return static_cast<std::ptrdiff_t>(it->second);
  return -1;
}

const Value* Dict::Find(const Value& key) const {
  const std::ptrdiff_t index = IndexOf(key, HashOf(key));
  return index < 0 ? nullptr : &entries_[static_cast<std::size_t>(index)].second;
}

const Value* Dict::Find(std::string_view key) const {
  if (index_.empty()) {
    for (const Entry& entry : entries_)
      if (entry.first.is_string() && entry.first.string() == key) return &entry.second;
    return nullptr;
  }
  return Find(Value::String(std::string(key)));
}

void Dict::Set(Value key, Value value) {
  depth_ = CheckedDepth(std::max({depth_, key.depth() + 1, value.depth() + 1}));
  weight_ = CheckedWeight(weight_ + key.weight() + value.weight());
  const std::size_t hash = HashOf(key);
  const std::ptrdiff_t index = IndexOf(key, hash);
  if (index >= 0) {
    entries_[static_cast<std::size_t>(index)].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() == kIndexedFrom) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(HashOf(entries_[i].first), i);
  } else if (entries_.size() > kIndexedFrom) {
    index_.emplace(hash, entries_.size() - 1);
  }
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kSequence:
      switch (value.sequence().flavor) {
        case Flavor::kList:
          return "list";
        case Flavor::kTuple:
          return "tuple";
        case Flavor::kRange:
          return "range";
        case Flavor::kKeys:
          return "dict_keys";
        case Flavor::kValues:
          return "dict_values";
        case Flavor::kItems:
          return "dict_items";
        case Flavor::kIterator:
          return "generator";
      }
      return "list";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.floating() != 0;
    case Kind::kString:
      return !value.string().empty();
    case Kind::kSequence:
      return value.sequence().flavor == Flavor::kIterator || !value.sequence().items.empty();
    case Kind::kDict:
      return value.dict().size() != 0;
    default:
      return true;
  }
}

bool Equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    const long double x = a.is_integral() ? static_cast<long double>(a.integer()) : a.floating();
    const long double y = b.is_integral() ? static_cast<long double>(b.integer()) : b.floating();
    return x == y;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.string() == b.string();
    case Kind::kFunction:
      return a.function_id() == b.function_id();
    case Kind::kSequence: {
      const Sequence& x = a.sequence();
      const Sequence& y = b.sequence();
      if (&x == &y) return true;
      if (!SameSequenceType(x, y) || x.flavor == Flavor::kIterator || x.flavor == Flavor::kValues)
        return false;
      return std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), Equal);
    }
    case Kind::kDict: {
      if (a.dict().size() != b.dict().size()) return false;
      for (const auto& [key, value] : a.dict().entries()) {
        const Value* other = b.dict().Find(key);
        if (other == nullptr || !Equal(value, *other)) return false;
      }
      return true;
    }
    case Kind::kMethod:
      return a.method().name == b.method().name && Equal(a.method().self, b.method().self);
    default:
      return a.identity() == b.identity();
  }
}

bool Less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
    const long double x = a.is_integral() ? static_cast<long double>(a.integer()) : a.floating();
    const long double y = b.is_integral() ? static_cast<long double>(b.integer()) : b.floating();
    return x < y;
  }
  if (a.is_undefined()) Raise(a.undefined_message());
  if (b.is_undefined()) Raise(b.undefined_message());
  if (a.is_string() && b.is_string()) return a.string() < b.string();
  if (a.is_list_or_tuple() && b.is_list_or_tuple() &&
      SameSequenceType(a.sequence(), b.sequence())) {
    const std::vector<Value>& x = a.sequence().items;
    const std::vector<Value>& y = b.sequence().items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!Equal(x[i], y[i])) return Less(x[i], y[i]);
    return x.size() < y.size();
  }
  Raise("'<' not supported between instances of '" + std::string(TypeName(a)) + "' and '" +
        std::string(TypeName(b)) + "'");
}

std::size_t HashOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return std::hash<double>()(value.number());
    case Kind::kString:
      return std::hash<std::string>()(value.string());
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<std::size_t>(value.kind()) + 77;
    case Kind::kSequence: {
      const Flavor flavor = value.sequence().flavor;
      if (flavor == Flavor::kTuple || flavor == Flavor::kRange) {
        std::size_t hash = 1;
        for (const Value& item : value.sequence().items) hash = Mix(hash, HashOf(item));
        return hash;
      }
      if (flavor == Flavor::kIterator) return std::hash<const void*>()(value.identity());
      break;
    }
    case Kind::kDict:
      break;
    case Kind::kFunction:
      return static_cast<std::size_t>(value.function_id());
    case Kind::kMethod:
      return std::hash<std::string>()(value.method().name);
    default:
      return std::hash<const void*>()(value.identity());
  }
  Raise("unhashable type: '" + std::string(TypeName(value)) + "'");
}

std::size_t LengthOf(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) return CountCharacters(value.string());
  if (value.is(Kind::kDict)) return value.dict().size();
  if (value.is(Kind::kSequence) && value.sequence().flavor != Flavor::kIterator)
    return value.sequence().items.size();
  Raise("object of type '" + std::string(TypeName(value)) + "' has no len()");
}

std::vector<Value> ItemsOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kString: {
      std::vector<Value> items;
      for (const std::string_view character : Characters(value.string()))
        items.push_back(Value::String(std::string(character)));
      return items;
    }
    case Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      if (sequence.flavor != Flavor::kIterator) return sequence.items;
      const auto from = sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.taken);
      sequence.taken = sequence.items.size();
      return std::vector<Value>(from, sequence.items.end());
    }
    case Kind::kDict: {
      std::vector<Value> items;
      for (const Dict::Entry& entry : value.dict().entries()) items.push_back(entry.first);
      return items;
    }
    default:
      Raise("'" + std::string(TypeName(value)) + "' object is not iterable");
  }
}

}  // namespace baton::templates
