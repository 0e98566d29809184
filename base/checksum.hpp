// 64-bit checksums (XXH3) of files and buffers, printed as 16 hex digits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>

namespace atl {

std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);
// The checksum of the pieces as if they stood one behind the other.
std::uint64_t checksum(std::initializer_list<std::span<const std::byte>> pieces);
// Streams the file; throws Error{kInput} if it can't be read.
std::uint64_t file_checksum(const std::filesystem::path& path);
std::string to_hex(std::uint64_t value);

}  // namespace atl
