// The memory that this process uses and that the machine still has, in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace atl {

std::int64_t resident_bytes();       // of this process now (VmRSS)
std::int64_t peak_resident_bytes();  // of this process since its start (VmHWM)
// Memory the kernel estimates to be available without swapping, capped by what is left of the
// limits of this process's control groups (version 1 and 2), of all groups around them, and of its
// address space. root: of the file system.
std::int64_t available_memory_bytes(const std::filesystem::path& root = "/");
// Takes the pages of a part of a mapped file out of this process; they come back when they are
// read.
void drop_mapped_pages(std::span<const std::byte> mapped);
// Begins to read them, if the system has memory to spare.
void fetch_mapped_pages(std::span<const std::byte> mapped);
// Gives whole pages of other memory back to the system. What was there is lost.
void drop_pages(std::span<std::byte> memory);
std::string format_bytes(std::int64_t bytes);  // "1.50 GiB"
// "8GiB", "1.5 GB", "500MB", "4096B" as bytes; empty for other text, and for less than one byte.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace atl
