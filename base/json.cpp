#include "base/json.hpp"

#include "base/files.hpp"

namespace atl {

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail_input("{}: not valid JSON at byte {}: {}", path.string(), error.byte, error.what());
  }
}

void write_json(const std::filesystem::path& path, const Json& value) {
  write_atomically(path, value.dump(2) + "\n");
}

}  // namespace atl
