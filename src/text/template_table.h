// Tables of what a template can name: filters, tests, methods.
#pragma once

#include <string_view>

namespace baton::templates {

// The entry of that name, or null. Requires: the entries have a member `name`.
template <typename Table>
const typename Table::value_type* FindByName(const Table& table, std::string_view name) {
  for (const typename Table::value_type& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace baton::templates
