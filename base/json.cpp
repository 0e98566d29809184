#include "base/json.hpp"

#include "base/byte_order_mark.hpp"
#include "base/files.hpp"

namespace atl {

namespace {

// Deep nesting would overflow the stack when the value is copied, compared or printed.
constexpr int kDeepest = 100;

void check_depth(std::string_view text, const std::string& place) {
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
        fail_input("{}: byte {}: nested more than {} deep", place, i, kDeepest);
      }
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

// The library's message without the class of its exception.
std::string reason(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& place) {
  check_depth(text, place);
  byte_order_mark(text, place);  // the parser skips that of UTF-8 itself
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail_input("{}: not valid JSON at byte {}: {}", place, error.byte, reason(error));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    fail_input("{}: not valid JSON: {}", place, reason(error));
  }
}

Json read_json(const std::filesystem::path& path, std::size_t most_bytes) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > most_bytes) {
    fail_input("{}: {} bytes of JSON; allowed are up to {}", path.string(), bytes.size(),
               most_bytes);
  }
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

void write_json(const std::filesystem::path& path, const Json& value) {
  // Names and paths may hold bytes that are not UTF-8; they are replaced, not refused.
  write_atomically(path, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string json_text(const Json& value) {
  // The library leaves DEL as it is.
  std::string text;
  for (const char c : value.dump(2, ' ', true, Json::error_handler_t::replace) + "\n") {
    c == '\x7f' ? text += "\\u007f" : text += c;
  }
  return text;
}

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::optional<double> optional_number(const Json& object, const char* field,
                                      const std::string& place) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number()) {
    fail_input("{}: '{}' is {}; it must be a number or null", place, field, shown(*found));
  }
  return found->get<double>();
}

}  // namespace atl
