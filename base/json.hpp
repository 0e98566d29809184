// JSON files with errors that name file, field, value found and values allowed.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>

#include "base/error.hpp"

namespace atl {

using Json = nlohmann::ordered_json;

// Throws Error{kInput} with the byte at which parsing failed.
Json read_json(const std::filesystem::path& path);
void write_json(const std::filesystem::path& path, const Json& value);

// object[field] of a JSON object; empty if absent or null. Throws Error{kInput} that begins with
// `place` ("file:line") if it is no number.
std::optional<double> optional_number(const Json& object, const char* field,
                                      const std::string& place);

// object[field] as T; throws Error{kInput} naming `file` and `field` if absent or of another type.
template <typename T>
T json_field(const Json& object, const char* field, const std::filesystem::path& file) {
  if (!object.is_object() || !object.contains(field)) {
    fail_input("{}: field '{}' is missing", file.string(), field);
  }
  try {
    // The library would cut a fraction off silently.
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!object.at(field).is_number_integer()) {
        fail_input("{}: field '{}' has the wrong type: found {}", file.string(), field,
                   object.at(field).dump());
      }
    }
    return object.at(field).get<T>();
  } catch (const nlohmann::json::exception& error) {
    fail_input("{}: field '{}' has the wrong type: found {}", file.string(), field,
               object.at(field).dump());
  }
}

}  // namespace atl
