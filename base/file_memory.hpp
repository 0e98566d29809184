// Memory of which the bytes have a place in a file: it may be larger than what the machine has,
// since parts that are not needed for a while can be written there and give their memory back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/descriptor.hpp"

namespace atl {

// The file has no name and is gone with the process, whatever ends it. A part of memory that was
// given back is read again when it is touched, so the bytes are right whatever is called when; the
// calls are about time and memory alone. Parts are in bytes, and multiples of kPage. All may be
// called by several threads at once, for different parts.
class FileMemory {
 public:
  static constexpr std::int64_t kPage = 4096;

  FileMemory() = default;
  // Takes room for all of it on the disk, so that it can't be full later. `bytes` of zero. Throws
  // Error{kInput} naming the folder, what is needed and what there is.
  FileMemory(const std::filesystem::path& folder, std::int64_t bytes);
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  ~FileMemory();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  // Begins to read a part that was given back.
  void fetch(std::int64_t begin, std::int64_t end) const;
  // Gives a part back to the system, which keeps it as long as it has memory to spare, and begins
  // to write what has changed of it.
  void release(std::int64_t begin, std::int64_t end) const;
  // The same without beginning to write: the system does so in its own time.
  void release_pages(std::int64_t begin, std::int64_t end) const;
  // The same of bytes that nobody needs any more: they are zero afterwards.
  void drop(std::int64_t begin, std::int64_t end) const;
  // Throws Error{kInput} naming the folder if something could not be written since the last call:
  // until then, nothing that was read may be trusted.
  void check() const;

 private:
  [[noreturn]] void refuse(const char* what) const;
  std::span<std::byte> part(std::int64_t begin, std::int64_t end) const;

  std::filesystem::path folder_;
  Descriptor file_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Bytes per second at which a disk writes and reads files in `folder`, by a short trial past the
// system's memory of files. Throws as FileMemory does.
struct DiskRates {
  double write = 0;
  double read = 0;
};
DiskRates measure_disk(const std::filesystem::path& folder);

}  // namespace atl
