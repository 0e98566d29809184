// A file that tells what happens, line by line, and never ends what it tells of.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/descriptor.hpp"

namespace atl {

// A full disk is said once; what was not written then waits for the next write().
class EventFile {
 public:
  // `opened`: the file, for appending; none: it is opened for each write, and made by the first.
  explicit EventFile(std::filesystem::path path, Descriptor opened = {})
      : path_(std::move(path)), opened_(std::move(opened)) {}

  void add(const std::string& lines) { waiting_ += lines; }
  bool is_waiting() const { return !waiting_.empty(); }
  void write();

 private:
  // False, and errno says why, if it can't.
  bool write_to(int fd);

  std::filesystem::path path_;
  Descriptor opened_;
  std::string waiting_;
  bool has_failed_ = false;
};

}  // namespace atl
