// Files that are read by mapping and written so that a reader sees the old state or the new one,
// never a half.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace atl {

// A read-only memory map of a whole file; throws Error{kInput} naming the file and the reason.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Whether something has this name; false also where that can't be told.
bool is_there(const std::filesystem::path& path);

// Reads a whole (small) text file; throws Error{kInput}.
std::string read_text(const std::filesystem::path& path);

// Checks, before any work is done, that a file of this name can come to be: throws Error{kOption}
// naming `option` if the name is empty or a folder, or its folder is not there.
void check_output_file(const std::filesystem::path& path, std::string_view option);

// Writes to a temporary name beside `path`, flushes to disk and renames; throws Error{kInput}.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

// A folder under construction: write into path(), then commit() renames it to its final name.
// Destroyed without commit, it removes what was written; what a killed process left behind is
// removed by the next one. Refuses (Error{kOption}) to replace an existing folder unless `replace`.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path final_path, bool replace = false);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool replace_;
  bool committed_ = false;
};

}  // namespace atl
