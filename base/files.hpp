// Files that are read by mapping and written so that a reader sees the old state or the new one,
// never a half.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace atl {

// A read-only memory map of a whole file; throws Error{kInput} naming the file and the reason.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  // Memory of `size` bytes that begins with those of the file, of which there are no more, and goes
  // on with zeros. Pages are the file's, without a copy, until they are written to through
  // writable(); the file itself never changes. An empty path: zeros alone.
  static MappedFile grown(std::size_t size, const std::filesystem::path& path = {});
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The same bytes, if grown() made them.
  std::span<std::byte> writable() { return {const_cast<std::byte*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Whether something has this name, be it a link that leads nowhere; false also where that can't be
// told.
bool is_there(const std::filesystem::path& path);

// Reads a whole (small) text file; throws Error{kInput}.
std::string read_text(const std::filesystem::path& path);

// Checks, before any work is done, that a file of this name can come to be: throws Error{kOption}
// naming `option` if the name is empty or a folder, a device or a pipe, its folder is not there, or
// it would lie inside a dataset folder.
void check_output_file(const std::filesystem::path& path, std::string_view option);

// The dataset folder that holds `path` (at any depth) or is it; empty if there is none. What lies
// in there is the dataset's alone.
std::filesystem::path dataset_folder_around(const std::filesystem::path& path);

// Throws Error{kOption} naming `option` if a file or folder of this name lies inside a dataset
// folder, whose commands would take it for a part of the dataset.
void check_outside_datasets(const std::filesystem::path& path, std::string_view option);

// A file under construction: write into path(), then commit() flushes it to disk and renames it to
// its final name. Destroyed without commit, it removes what was written; so does a signal, and what
// a killed process left behind is removed by the next one that writes there. The temporary name is
// made exclusively and locked, so neither another host nor another container takes it for its own.
class AtomicFile {
 public:
  // Throws Error{kInput} naming the final path, as commit() does.
  explicit AtomicFile(std::filesystem::path final_path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::filesystem::path& path() const { return temporary_; }
  void write(std::string_view bytes);
  // before_rename: the last moment to refuse, by throwing.
  void commit(const std::function<void()>& before_rename = {});

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  Descriptor fd_;  // holds the lock
  bool committed_ = false;
};

// The same of a whole text.
void write_atomically(const std::filesystem::path& path, std::string_view bytes,
                      const std::function<void()>& before_rename = {});

// A folder under construction, as AtomicFile. Refuses (Error{kOption}) to replace an existing
// folder unless `replace`: then both change places and the old one is removed.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path final_path, bool replace = false);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  void move_into_place();
  void forget_lock() noexcept;

  std::filesystem::path final_;
  std::filesystem::path temporary_;
  std::filesystem::path lock_file_;  // beside the folder, which is renamed
  Descriptor lock_;
  bool replace_;
  bool committed_ = false;
};

// Removes temporary files and folders beside `final_path` that a killed process has left of it, and
// returns how many. Those that a living process holds stay.
int remove_stale_temporaries(const std::filesystem::path& final_path);
// The same of all that was to become something in `folder`.
int remove_all_stale_temporaries(const std::filesystem::path& folder);

}  // namespace atl
