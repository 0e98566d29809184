#include "base/json.hpp"

#include "base/files.hpp"

namespace atl {

namespace {

// Deep nesting would overflow the stack when the value is printed.
constexpr int kDeepest = 100;

void check_depth(const std::string& text, const std::filesystem::path& path) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kDeepest) {
        fail_input("{}: byte {}: nested more than {} deep", path.string(), i, kDeepest);
      }
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

}  // namespace

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  check_depth(text, path);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail_input("{}: not valid JSON at byte {}: {}", path.string(), error.byte, error.what());
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    fail_input("{}: not valid JSON: {}", path.string(), error.what());
  }
}

void write_json(const std::filesystem::path& path, const Json& value) {
  // Names and paths may hold bytes that are not UTF-8; they are replaced, not refused.
  write_atomically(path, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<double> optional_number(const Json& object, const char* field,
                                      const std::string& place) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number()) {
    fail_input("{}: '{}' is {}; it must be a number or null", place, field, found->dump());
  }
  return found->get<double>();
}

}  // namespace atl
