// NumPy arrays by name, from .npy files of a folder or members of a .npz archive. One array may go
// by several names: those of dataset folders and those of PyTorch Geometric. Internal to datasets/.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"

namespace atl {

class NamedArrays {
 public:
  using Opener = std::function<ArrayReader()>;

  // A folder, or a file that is a .npz archive (`scratch`: as NpzArchive's). Throws Error{kInput}
  // if it can't be read.
  explicit NamedArrays(std::filesystem::path source, const std::filesystem::path& scratch = {});

  const std::filesystem::path& source() const { return source_; }
  bool in_folder() const { return archive_ == nullptr; }
  // Opens, as often as it is called, the array that has one of these names (without .npy); empty if
  // none is there. Throws Error{kInput} if several are.
  Opener find(const std::vector<std::string>& names);
  // "DIR/x.npy" or "F.npz[x]": the array's place in errors.
  std::string place(const std::string& name) const;
  // Warns of arrays that nobody has asked for, naming those that were.
  void warn_of_others() const;

 private:
  bool has(const std::string& name) const;
  std::vector<std::string> all() const;

  std::filesystem::path source_;
  std::shared_ptr<const NpzArchive> archive_;
  std::set<std::string> known_;
};

}  // namespace atl
