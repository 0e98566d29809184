#include "base/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/files.hpp"

namespace atl {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::uint64_t file_checksum(const std::filesystem::path& path) {
  const MappedFile file(path);
  return checksum(file.bytes());
}

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace atl
