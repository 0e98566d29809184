// Reads the data of a Python pickle without running anything: numbers, strings, tuples, lists,
// dicts, NumPy arrays and the states of objects; every other callable is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.hpp"

namespace atl {

// One value; refers to others by their index in Pickle::values. Indices instead of pointers,
// because a pickle may contain itself.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kReal,
    kBytes,
    kTuple,
    kList,
    kDict,
    kGlobal,
    kType,
    kArray,
    kObject,
  };
  using Index = std::uint32_t;

  Kind kind = Kind::kNone;
  std::int64_t integer = 0;         // kBool, kInteger
  double real = 0;                  // kReal
  std::string_view bytes;           // kBytes, elements of a kArray; a view into the file
  std::string name;                 // kGlobal, kObject: "module.class"; kType, kArray: "<f4", ...
  std::vector<std::int64_t> shape;  // kArray
  std::vector<Index> items;  // kTuple, kList; kDict: key, value, key, value, ...; kObject: state
};

class Pickle {
 public:
  // Protocols 0 to 5 as far as Planetoid-like files use them. Throws Error{kInput} with the byte at
  // which something is malformed, unsupported, or not plain data.
  explicit Pickle(const std::filesystem::path& path);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& at(PickleValue::Index index) const { return values_[index]; }
  const std::string& file() const { return file_; }
  std::size_t bytes() const { return map_.bytes().size(); }

 private:
  friend class Unpickler;

  MappedFile map_;
  std::string file_;
  std::vector<PickleValue> values_;
  PickleValue::Index root_ = 0;
};

// A sparse matrix saved by SciPy (CSR), or a dense array converted to it.
struct PickledMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;
};

// The root as a matrix; throws Error{kInput} naming the file if it is none, or inconsistent.
PickledMatrix read_matrix(const Pickle& pickle);
// The root as {node: [neighbours]}: pairs of a node and the indices of its neighbours.
std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> read_adjacency(
    const Pickle& pickle);

}  // namespace atl
