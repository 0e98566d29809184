#include "datasets/file_list.hpp"

#include "base/checksum.hpp"
#include "base/error.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

std::int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) fail_input("{}: can't open: {}", path.string(), error.message());
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

Json describe_file(const fs::path& path) {
  return {{"bytes", size_of(path)}, {"xxh3", to_hex(file_checksum(path))}};
}

void check_file_size(const fs::path& path, const Json& entry, const fs::path& list) {
  const auto expected = json_field<std::int64_t>(entry, "bytes", list);
  const std::int64_t found = size_of(path);
  if (found != expected) {
    fail_input("{}: changed since {} was written: {} bytes found, {} expected", path.string(),
               list.filename().string(), found, expected);
  }
}

void check_file(const fs::path& path, const Json& entry, const fs::path& list) {
  check_file_size(path, entry, list);
  const auto expected = json_field<std::string>(entry, "xxh3", list);
  const std::string found = to_hex(file_checksum(path));
  if (found != expected) {
    fail_input("{}: changed since {} was written: checksum {} found, {} expected", path.string(),
               list.filename().string(), found, expected);
  }
}

std::string list_checksum(const Json& files) {
  std::string lines;
  for (const auto& [name, entry] : files.items()) {
    lines += fmt::format("{} {}\n", name, entry.at("xxh3").get<std::string>());
  }
  return to_hex(checksum(lines));
}

}  // namespace atl
