// Mapped files whose pages can't be read any more: another process has cut the file off, or its
// disk has failed. The kernel answers with SIGBUS; here it becomes an error that names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace atl {

// From now on a lost page of a registered mapping prints an error and ends the process with exit
// code 2. Every other SIGBUS ends it as before.
void report_lost_pages();

// At most some thousand mappings are known at a time; more stay without a name.
void register_mapping(std::span<const std::byte> mapped, const std::filesystem::path& path);
void unregister_mapping(std::span<const std::byte> mapped);

}  // namespace atl
