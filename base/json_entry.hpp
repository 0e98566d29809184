// Reading JSON files that people write by hand: every message says where, which field, what was
// found and what is allowed.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace atl {

// An object of a file and where it stands. All members throw Error{kInput}.
struct JsonEntry {
  const Json& json;
  std::string place;  // "cluster.json: ranks[2]"

  JsonEntry(const Json& object, std::string where, const std::vector<std::string>& known)
      : json(object), place(std::move(where)) {
    if (!json.is_object()) {
      fail_input("{}: found {}; allowed is an object with the fields {}", place, shown(json),
                 fmt::join(known, ", "));
    }
    for (const auto& [name, value] : json.items()) {
      if (std::ranges::find(known, name) != known.end()) continue;
      fail_input("{}: unknown field '{}'; allowed are {}", place, name, fmt::join(known, ", "));
    }
  }

  bool has(const char* field) const { return json.contains(field); }

  const Json& required(const char* field, const std::string& allowed) const {
    if (!has(field)) {
      fail_input("{}: field '{}' is missing; allowed are {}", place, field, allowed);
    }
    return json.at(field);
  }

  [[noreturn]] void refuse(const std::string& field, const Json& found,
                           const std::string& allowed) const {
    fail_input("{}: '{}' is {}; allowed are {}", place, field, shown(found), allowed);
  }

  std::int64_t whole(const char* field, std::int64_t least, std::int64_t most) const {
    const std::string allowed = fmt::format("whole numbers from {} to {}", least, most);
    const Json& found = required(field, allowed);
    if (!found.is_number_integer() || found < least || found > most) refuse(field, found, allowed);
    return found.get<std::int64_t>();
  }

  // The same, but `otherwise` where the field is absent.
  std::int64_t whole_or(const char* field, std::int64_t least, std::int64_t most,
                        std::int64_t otherwise) const {
    return has(field) ? whole(field, least, most) : otherwise;
  }

  // The field 'format', which must be this one.
  void require_format(int format) const {
    const Json& found = required("format", std::to_string(format));
    if (found != format) refuse("format", found, std::to_string(format));
  }

  std::string text(const char* field, const char* allowed) const {
    const Json& found = required(field, allowed);
    if (!found.is_string() || found.get<std::string>().empty()) refuse(field, found, allowed);
    return found.get<std::string>();
  }

  // The array in `field`, with at least one entry.
  const Json& list(const char* field, const char* allowed) const {
    const Json& found = required(field, allowed);
    if (!found.is_array() || found.empty()) refuse(field, found, allowed);
    return found;
  }
};

}  // namespace atl
