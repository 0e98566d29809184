// Files with their sizes and checksums, as dataset.json, shard.json and partition.json list them:
// {"labels.npy": {"bytes": 677500, "xxh3": "16 hex digits"}, ...}.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/json.hpp"

namespace atl {

// The entry of one file. Reads all of it; throws Error{kInput} if that fails.
Json describe_file(const std::filesystem::path& path);

// Throw Error{kInput} that names the file and `list`, the JSON file that `entry` stands in, if the
// file has another size than `entry` says, or (check_file, which reads all of it) another checksum.
void check_file_size(const std::filesystem::path& path, const Json& entry,
                     const std::filesystem::path& list);
void check_file(const std::filesystem::path& path, const Json& entry,
                const std::filesystem::path& list);

// One checksum for all files of a list, in its order: XXH3 of the lines "name xxh3\n".
std::string list_checksum(const Json& files);

// The result of `work`; an Error that it throws says at its end what helps against it.
template <typename Work>
auto with_remedy(const std::string& remedy, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; {}", error.what(), remedy));
  }
}

}  // namespace atl
