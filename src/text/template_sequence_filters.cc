// Filters on sequences and mappings that order, join, cut and count.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_filters.h"
#include "text/template_operators.h"
#include "text/template_table.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

Value Length(Evaluation&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "length", {}, 0);
  return Value::Int(static_cast<Integer>(LengthOf(input)));
}

Value List(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "list", {}, 0);
  return Value::List(evaluation.Items(input));
}

Value First(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "first", {}, 0);
  if (input.is(Kind::kSequence) && input.sequence().flavor == Flavor::kIterator) {
    const Sequence& sequence = input.sequence();
    if (sequence.taken < sequence.items.size()) return sequence.items[sequence.taken++];
    return Value::Undefined("No first item, sequence was empty.");
  }
  std::vector<Value> items = evaluation.Items(input);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.")
                       : std::move(items.front());
}

Value Last(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "last", {}, 0);
  if (input.is(Kind::kSequence) && input.sequence().flavor == Flavor::kIterator)
    Raise("'generator' object is not reversible");
  std::vector<Value> items = evaluation.Items(input);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.")
                       : std::move(items.back());
}

Value Reverse(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "reverse", {}, 0);
  std::vector<Value> items = evaluation.Items(input);
  std::reverse(items.begin(), items.end());
  if (!input.is_string()) return Value::Iterator(std::move(items));
  std::string text;
  for (const Value& item : items) text += item.string();
  return Value::StringLike(input, std::move(text));
}

Value Join(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "join", {"d", "attribute"}, 0);
  const std::string separator = bound.Has(0) ? evaluation.Text(bound[0]) : "";
  std::optional<AttributePath> path;
  if (bound.Has(1) && !bound[1].is_none()) path.emplace(bound[1]);
  std::string out;
  bool first = true;
  for (const Value& item : evaluation.Items(input)) {
    const std::string text =
        evaluation.Text(path.has_value() ? path->Of(evaluation, item, nullptr) : item);
    evaluation.budget().ChargeAppend(out.size(), separator.size() + text.size());
    if (!first) out += separator;
    first = false;
    out += text;
  }
  evaluation.budget().ChargeBytes(out.size());
  return Value::String(std::move(out));
}

Value Items(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "items", {}, 0);
  if (input.is_undefined()) return Value::Iterator({});
  if (!input.is(Kind::kDict)) Raise("Can only get item pairs from a mapping.");
  evaluation.budget().ChargeItems(input.dict().size());
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict().entries())
    items.push_back(Value::Tuple({key, value}));
  return Value::Iterator(std::move(items));
}

// Sorts items by their keys, keeping the order of equal ones; reversed sorting keeps it, too.
std::vector<Value> SortedBy(Evaluation& evaluation, const std::vector<Value>& items,
                            const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    evaluation.budget().ChargeSteps(1 + std::min(keys[a].weight(), keys[b].weight()) / 64);
    return reverse ? Less(keys[b], keys[a]) : Less(keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

Value DictSort(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "dictsort", {"case_sensitive", "by", "reverse"}, 0);
  const std::string by = bound.TextOr(1, "key");
  if (by != "key" && by != "value") Raise("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) Raise(input.undefined_message());
  if (!input.is(Kind::kDict)) Raise("dictsort needs a mapping");
  evaluation.budget().ChargeItems(input.dict().size());
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : input.dict().entries()) {
    items.push_back(Value::Tuple({key, value}));
    const Value& sort_key = by == "key" ? key : value;
    keys.push_back(bound.Flag(0, false) ? sort_key : IgnoreCase(sort_key));
  }
  return Value::List(SortedBy(evaluation, items, keys, bound.Flag(2, false)));
}

// The sort key of an item for attribute "a,b": a list of the parts.
Value SortKey(Evaluation& evaluation, const std::vector<AttributePath>& paths, const Value& item,
              bool case_sensitive) {
  std::vector<Value> parts;
  for (const AttributePath& path : paths) {
    const Value part = path.Of(evaluation, item, nullptr);
    parts.push_back(case_sensitive ? part : IgnoreCase(part));
  }
  return parts.size() == 1 ? parts[0] : Value::List(std::move(parts));
}

Value Sort(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "sort", {"reverse", "case_sensitive", "attribute"}, 0);
  const std::vector<Value> items = evaluation.Items(input);
  std::vector<AttributePath> paths;
  if (bound.Has(2) && bound[2].is_string()) {
    std::string names = bound[2].string() + ",";
    for (std::size_t at = 0, end = 0; (end = names.find(',', at)) != std::string::npos;
         at = end + 1)
      paths.emplace_back(Value::String(names.substr(at, end - at)));
  } else {
    paths.emplace_back(bound.Has(2) ? bound[2] : Value::None());
  }
  std::vector<Value> keys;
  for (const Value& item : items)
    keys.push_back(SortKey(evaluation, paths, item, bound.Flag(1, false)));
  return Value::List(SortedBy(evaluation, items, keys, bound.Flag(0, false)));
}

Value Unique(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "unique", {"case_sensitive", "attribute"}, 0);
  const AttributePath path(bound.Has(1) ? bound[1] : Value::None());
  std::vector<Value> kept;
  Dict seen;
  for (const Value& item : evaluation.Items(input)) {
    Value key = path.Of(evaluation, item, nullptr);
    if (!bound.Flag(0, false)) key = IgnoreCase(key);
    if (seen.Find(key) != nullptr) continue;
    seen.Set(key, Value::None());
    kept.push_back(item);
  }
  return Value::Iterator(std::move(kept));
}

Value Extreme(Evaluation& evaluation, const Value& input, const BoundArguments& bound,
              bool greatest) {
  const AttributePath path(bound.Has(1) ? bound[1] : Value::None());
  std::optional<Value> best;
  Value best_key;
  for (const Value& item : evaluation.Items(input)) {
    Value key = path.Of(evaluation, item, nullptr);
    if (!bound.Flag(0, false)) key = IgnoreCase(key);
    if (best.has_value() && !(greatest ? Less(best_key, key) : Less(key, best_key))) continue;
    best = item;
    best_key = std::move(key);
  }
  return best.has_value() ? *best : Value::Undefined("No aggregated item, sequence was empty.");
}

Value Min(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  return Extreme(evaluation, input,
                 BoundArguments(arguments, "min", {"case_sensitive", "attribute"}, 0), false);
}
Value Max(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  return Extreme(evaluation, input,
                 BoundArguments(arguments, "max", {"case_sensitive", "attribute"}, 0), true);
}

Value Sum(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "sum", {"attribute", "start"}, 0);
  const AttributePath path(bound.Has(0) ? bound[0] : Value::None());
  Value total = bound.Has(1) ? bound[1] : Value::Int(0);
  if (total.is_string()) Raise("sum() can't sum strings");
  for (const Value& item : evaluation.Items(input))
    total = Binary(evaluation, '+', total, path.Of(evaluation, item, nullptr));
  return total;
}

Value GroupBy(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(bound[0]);
  const Value* fallback = bound.Has(1) && !bound[1].is_none() ? &bound[1] : nullptr;
  const bool case_sensitive = bound.Flag(2, false);
  const auto key_of = [&](const Value& item) {
    const Value key = path.Of(evaluation, item, fallback);
    return case_sensitive ? key : IgnoreCase(key);
  };
  std::vector<Value> items = evaluation.Items(input);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  items = SortedBy(evaluation, items, keys, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size();) {
    const Value key = key_of(items[begin]);
    std::size_t end = begin + 1;
    while (end < items.size() && Equal(key_of(items[end]), key)) ++end;
    std::vector<Value> members(items.begin() + static_cast<std::ptrdiff_t>(begin),
                               items.begin() + static_cast<std::ptrdiff_t>(end));
    Value grouper = path.Of(evaluation, members[0], fallback);
    groups.push_back(Value::Of(Sequence{.flavor = Flavor::kTuple,
                                        .items = {grouper, Value::List(std::move(members))},
                                        .label = "group"}));
    begin = end;
  }
  return Value::List(std::move(groups));
}

Value Batch(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "batch", {"linecount", "fill_with"}, 1);
  const std::int64_t size = bound.Integer64(0, 1);
  const bool fill = bound.Has(1) && !bound[1].is_none();
  std::vector<Value> batches;
  std::vector<Value> row;
  for (const Value& item : evaluation.Items(input)) {
    if (static_cast<std::int64_t>(row.size()) == size) {
      batches.push_back(Value::List(std::move(row)));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (fill && static_cast<std::int64_t>(row.size()) < size) {
      evaluation.budget().ChargeItems(static_cast<std::size_t>(size));
      row.resize(static_cast<std::size_t>(size), bound[1]);
    }
    batches.push_back(Value::List(std::move(row)));
  }
  return Value::Iterator(std::move(batches));
}

Value SliceFilter(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "slice", {"slices", "fill_with"}, 1);
  const std::vector<Value> items = evaluation.Items(input);
  const std::int64_t slices = bound.Integer64(0, 1);
  if (slices == 0) Raise("integer division or modulo by zero");
  if (slices < 0) return Value::Iterator({});
  evaluation.budget().ChargeItems(static_cast<std::size_t>(slices));
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t each = items.size() / count;
  const std::size_t longer = items.size() % count;
  std::vector<Value> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(begin),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.Has(1) && !bound[1].is_none() && i >= longer) part.push_back(bound[1]);
    out.push_back(Value::List(std::move(part)));
    begin = end;
  }
  return Value::Iterator(std::move(out));
}

constexpr std::array<FilterEntry, 17> kFilters = {{
    {"length", Length},
    {"count", Length},
    {"list", List},
    {"first", First},
    {"last", Last},
    {"reverse", Reverse},
    {"join", Join},
    {"items", Items},
    {"dictsort", DictSort},
    {"sort", Sort},
    {"unique", Unique},
    {"min", Min},
    {"max", Max},
    {"sum", Sum},
    {"groupby", GroupBy},
    {"batch", Batch},
    {"slice", SliceFilter},
}};

}  // namespace

Value IgnoreCase(const Value& value) {
  return value.is_string() ? Value::String(ToLower(value.string())) : value;
}

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is_none()) return;
  if (attribute.is_integral()) {
    parts_.push_back(attribute);
    return;
  }
  if (!attribute.is_string()) Raise("an attribute is named by a string or an integer");
  const std::string& text = attribute.string();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, end - at);
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
    parts_.push_back(is_index ? Value::Int(std::stol(part)) : Value::String(part));
    at = end + 1;
  }
}

Value AttributePath::Of(Evaluation& evaluation, const Value& item, const Value* fallback) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = evaluation.Item(value, part);
    if (fallback != nullptr && value.is_undefined()) value = *fallback;
  }
  return value;
}

const FilterEntry* FindSequenceFilter(std::string_view name) {
  return FindByName(kFilters, name);
}

}  // namespace baton::templates
