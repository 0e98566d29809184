// NumPy arrays by name, from .npy files of a folder or members of a .npz archive. One array may go
// by several names: those of dataset folders and those of PyTorch Geometric. In a folder, values of
// nodes may also be text. Internal to datasets/.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/text_table.hpp"

namespace atl {

// Endings of files of text, beside which .gz may stand.
inline constexpr std::array kTextEndings = {".csv",    ".tsv",    ".txt",
                                            ".csv.gz", ".tsv.gz", ".txt.gz"};

class NamedArrays {
 public:
  using Opener = std::function<ArrayReader()>;

  // A folder, or a file that is a .npz archive (`scratch`: as NpzArchive's). `columns`: of text.
  // Throws Error{kInput} if it can't be read.
  explicit NamedArrays(std::filesystem::path source, const std::filesystem::path& scratch = {},
                       TableColumns columns = {});

  const std::filesystem::path& source() const { return source_; }
  bool in_folder() const { return archive_ == nullptr; }
  // Opens, as often as it is called, the array that has one of these names (without .npy, .csv,
  // ...); empty if none is there. Throws Error{kInput} if several are.
  Opener find(const std::vector<std::string>& names);
  // Whether there is an array of this name; nobody has asked for it by this.
  bool has(const std::string& name) const;
  // The text that find() opens, if it is one.
  const TextTable* find_table(const std::vector<std::string>& names);
  // All text of nodes that is there.
  std::vector<const TextTable*> tables();
  // How many nodes there are, and which they are if ids are anything else than 0 to nodes - 1. Text
  // is opened with these numbers from now on.
  void set_nodes(std::int64_t nodes, std::shared_ptr<const NodeIds> ids = {});
  bool renumbered() const { return numbering_->ids != nullptr; }
  // A file that somebody else has read.
  void note_read(const std::filesystem::path& path) { read_.insert(path.filename().string()); }
  // "DIR/x.npy" or "F.npz[x]": the array's place in errors.
  std::string place(const std::string& name) const;
  // Warns of arrays and, in a folder, of all files that nobody has asked for, naming those that
  // were.
  void warn_of_others() const;
  // Throws Error{kOption} if the columns of text that options name are of no text that was read.
  void require_columns_read() const;

 private:
  struct Numbering {
    std::int64_t nodes = -1;
    std::shared_ptr<const NodeIds> ids = {};
  };
  struct Found {
    std::string name;
    std::filesystem::path text;  // empty: an array
  };

  std::optional<Found> locate(const std::vector<std::string>& names);
  const std::shared_ptr<const TextTable>& table_of(const Found& found);
  std::vector<std::string> all() const;

  std::filesystem::path source_;
  TableColumns columns_;
  std::shared_ptr<const NpzArchive> archive_;
  std::map<std::string, std::shared_ptr<const TextTable>> tables_;
  std::shared_ptr<Numbering> numbering_ = std::make_shared<Numbering>();
  std::set<std::string> known_;  // names
  std::set<std::string> read_;   // names of files
};

}  // namespace atl
