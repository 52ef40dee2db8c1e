// The values that template expressions compute: Python's data model, as far as templates see it.
//
// Strings, sequences and dicts are immutable once a Value holds them and are shared by reference
// count; so request data cannot be changed by a template. The objects that do change (namespaces,
// loops, macros with their scopes) belong to one render and are named by plain pointers that die
// with it. Invariant: every string is valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace baton::templates {

// Wide enough for every integer that JSON requests carry (unsigned 64 bit included).
using Integer = __int128;

// Containers nested deeper than this are refused, which bounds every recursion over values.
inline constexpr int kMaxValueDepth = 200;
// Containers of more than this weight are refused. A container that is shared counts each time it
// is reached, so the weight bounds the time of every walk over a value.
inline constexpr std::size_t kMaxValueWeight = std::size_t{1} << 28;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
};

// What Python calls the sequence: decides its printed form, and which operations it has.
enum class Flavor : std::uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };

struct Sequence;
class Dict;
struct UndefinedInfo;
struct BoundMethod;
struct Namespace;
struct Macro;
struct LoopState;

class Value {
 public:
  // Makes an undefined value without a name.
  Value() = default;

  static Value None();
  static Value Bool(bool value);
  static Value Int(Integer value);
  static Value Float(double value);
  static Value String(std::string text);
  // A string marked safe: joined with `+` to another, it escapes that one (Python's Markup).
  static Value Markup(std::string text);
  // A string that is marked safe if `like` is.
  static Value StringLike(const Value& like, std::string text);
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  // What a generator would give.
  static Value Iterator(std::vector<Value> items);
  static Value Of(Sequence sequence);
  static Value Of(Dict dict);
  // An undefined value that says `message` when it is used for more than printing.
  static Value Undefined(std::string message);
  static Value Method(Value self, std::string name);
  static Value Function(int function_id);
  static Value Of(Namespace* object);
  static Value Of(const Macro* macro);
  static Value Of(LoopState* loop);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return markup_; }
  // Whether it is an integer in Python's sense: a bool is one.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_list_or_tuple() const;

  // Require: the kind that each names.
  bool boolean() const { return integer_ != 0; }
  Integer integer() const { return integer_; }  // of kInt and kBool
  double floating() const { return floating_; }
  double number() const;  // of any number
  const std::string& string() const { return *static_cast<const std::string*>(heap_.get()); }
  const Sequence& sequence() const { return *static_cast<const Sequence*>(heap_.get()); }
  const Dict& dict() const { return *static_cast<const Dict*>(heap_.get()); }
  const BoundMethod& method() const { return *static_cast<const BoundMethod*>(heap_.get()); }
  int function_id() const { return static_cast<int>(integer_); }
  Namespace* name_space() const { return static_cast<Namespace*>(raw_); }
  const Macro* macro() const { return static_cast<const Macro*>(raw_); }
  LoopState* loop() const { return static_cast<LoopState*>(raw_); }
  // Identity of the object behind the value, for `is sameas`.
  const void* identity() const { return raw_ != nullptr ? raw_ : heap_.get(); }

  // What to say when an undefined value is used. Requires: is_undefined().
  std::string undefined_message() const;
  // How many containers lie inside each other here: 0 for anything but sequences and dicts.
  int depth() const;
  // About the bytes of its printed form, counting what is shared each time.
  std::size_t weight() const;

 private:
  Kind kind_ = Kind::kUndefined;
  bool markup_ = false;
  Integer integer_ = 0;
  double floating_ = 0;
  void* raw_ = nullptr;
  std::shared_ptr<const void> heap_;
};

struct Sequence {
  Flavor flavor = Flavor::kList;
  std::vector<Value> items;
  int depth = 1;  // set by Value::Of, as is the weight
  std::size_t weight = 0;
  std::string label = {};  // kRange: the printed form; kTuple: "group" for those of groupby
  // kIterator: how many items were taken. The only thing that changes in a shared value; request
  // data holds no iterators, so it is never touched by two threads.
  mutable std::size_t taken = 0;
};

struct BoundMethod {
  Value self;
  std::string name;
};

// A dict in insertion order. Filled while it is being made, constant once a Value holds it.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // The value under a key equal to `key`, or null.
  // Errors: raises where the key is of a type that Python cannot hash.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // Adds the entry, or replaces the value of an equal key in its place.
  void Set(Value key, Value value);
  void Set(std::string_view key, Value value) {
    Set(Value::String(std::string(key)), std::move(value));
  }
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }
  std::size_t weight() const { return weight_; }

 private:
  std::ptrdiff_t IndexOf(const Value& key, std::size_t hash) const;

  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;
  int depth_ = 1;
  std::size_t weight_ = 16;
};

// The name of the value's type as Python prints it: "NoneType", "str", "dict", ...
std::string_view TypeName(const Value& value);
// Python's truth of a value: empty and zero are false.
bool Truth(const Value& value);
// Python's ==. Numbers of different types compare by value.
bool Equal(const Value& a, const Value& b);
// Python's <. Errors: raises for types that have no order among them.
bool Less(const Value& a, const Value& b);
// Errors: raises for lists and dicts, as Python does.
std::size_t HashOf(const Value& value);
// len(): characters, items, entries. Errors: raises for types without a length.
std::size_t LengthOf(const Value& value);
// What iteration over the value yields; an iterator is used up by it.
// Errors: raises for types that Python cannot iterate over.
std::vector<Value> ItemsOf(const Value& value);

}  // namespace baton::templates
