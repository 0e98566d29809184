#include "base/json_lines.hpp"

#include "base/files.hpp"

namespace atl {

namespace {

Json parse_object(std::string_view line, const std::string& place) {
  Json object = parse_json(line, place);
  if (!object.is_object()) fail_input("{}: found {}; expected an object", place, shown(object));
  return object;
}

}  // namespace

JsonLines read_json_lines(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  JsonLines result;
  std::size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const std::string place = fmt::format("{}:{}", path.string(), ++number);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    try {
      result.lines.push_back({parse_object(line, place), place});
    } catch (const Error&) {
      if (end != std::string_view::npos) throw;
      result.cut_off = place;
    }
  }
  return result;
}

}  // namespace atl
