// Where the bytes of an array come from: a file, or a member of an archive. Internal to datasets/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/descriptor.hpp"

namespace atl {

// An open file that is read at any position.
class RandomFile {
 public:
  // `place` names it in errors. Throws Error{kInput} where the file can't be opened.
  RandomFile(const std::filesystem::path& path, std::string place);
  // An empty file without a name in `folder`; it goes with this object.
  static std::shared_ptr<RandomFile> temporary(const std::filesystem::path& folder,
                                               std::string place);

  // Exactly bytes.size() bytes from `offset` on; throws Error{kInput} where the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void append(std::span<const std::byte> bytes);

 private:
  RandomFile(Descriptor file, std::string place);

  Descriptor file_;
  std::string place_;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `bytes.size()` bytes; 0 at the end. Throws Error{kInput}.
  virtual std::size_t read(std::span<std::byte> bytes) = 0;
  // Passes over `count` bytes; returns how many there were.
  virtual std::uint64_t skip(std::uint64_t count);
  // All bytes, from the first on, whatever has been read; asked for in matrices that are stored
  // column by column only. Throws Error{kInput}.
  virtual std::shared_ptr<const RandomFile> random_access();
};

}  // namespace atl
