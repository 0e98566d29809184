// JSON files with errors that name file, field, value found and values allowed. Text from files and
// other ranks is parsed here only, so that nothing else has to know the library's exceptions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace atl {

using Json = nlohmann::ordered_json;

// `place` ("file", "file:line") begins the message of Error{kInput}, thrown with the byte at which
// parsing failed, or where the text nests more than 100 deep.
Json parse_json(std::string_view text, const std::string& place);

// Parsed JSON takes a dozen times the memory of its text. Plans and shapes of thousands of ranks
// stay below the first limit; traces have their own.
inline constexpr std::size_t kMostJsonBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMostTraceBytes = std::size_t{16} << 30;

// Throws Error{kInput} as parse_json does, and of files above `most_bytes`.
Json read_json(const std::filesystem::path& path, std::size_t most_bytes = kMostJsonBytes);
void write_json(const std::filesystem::path& path, const Json& value);

// A document for standard output: indented and plain ASCII, so that no name in it controls a
// terminal. Bytes that are not UTF-8 are replaced.
std::string json_text(const Json& value);

// A value as messages quote it: on one line, cut where it is long.
std::string shown(const Json& value);

// object[field] of a JSON object; empty if absent or null. Throws Error{kInput} that begins with
// `place` ("file:line") if it is no number.
std::optional<double> optional_number(const Json& object, const char* field,
                                      const std::string& place);

template <typename T>
inline constexpr bool kIsWhole = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// Whether all numbers that `T` takes as integers are some, and in its range: the library would cut
// fractions and high bits off silently.
template <typename T>
bool integers_fit(const Json& value) {
  if constexpr (kIsWhole<T>) {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<std::uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  } else if constexpr (kIsVector<T>) {
    return !value.is_array() || std::all_of(value.begin(), value.end(), [](const Json& item) {
      return integers_fit<typename T::value_type>(item);
    });
  } else {
    return true;
  }
}

// object[field] as T; throws Error{kInput} naming `file` and `field` if absent, of another type or
// out of T's range.
template <typename T>
T json_field(const Json& object, const char* field, const std::filesystem::path& file) {
  if (!object.is_object() || !object.contains(field)) {
    fail_input("{}: field '{}' is missing", file.string(), field);
  }
  const Json& value = object.at(field);
  if (!integers_fit<T>(value)) {
    if constexpr (kIsWhole<T>) {
      if (value.is_number_integer()) {
        fail_input("{}: field '{}' is {}; allowed are {} to {}", file.string(), field, shown(value),
                   std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
      }
    }
    fail_input("{}: field '{}' has the wrong type: found {}", file.string(), field, shown(value));
  }
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception& error) {
    fail_input("{}: field '{}' has the wrong type: found {}", file.string(), field, shown(value));
  }
}

// The same, but `otherwise` where the field is absent.
template <typename T>
T json_field_or(const Json& object, const char* field, const std::filesystem::path& file,
                T otherwise) {
  const bool absent = object.is_object() && !object.contains(field);
  return absent ? std::move(otherwise) : json_field<T>(object, field, file);
}

}  // namespace atl
