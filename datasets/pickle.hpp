// Reads the data of a Python pickle without running anything: numbers, strings, tuples, lists,
// dicts, NumPy arrays and the states of objects; every other callable is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.hpp"

namespace atl {

// One value, small because a pickle may say one per byte. What doesn't fit lies in the Pickle,
// which is asked for it; two values may share it, and a pickle may contain itself.
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

  Kind kind = Kind::kNone;
  std::uint32_t length = 0;  // kBytes
  union {
    std::int64_t integer = 0;  // kBool, kInteger; of the kinds after kBytes: where the rest lies
    double real;               // kReal
    const char* text;          // kBytes: in the file
  };

  std::string_view bytes() const { return {text, length}; }  // kBytes
};

// A NumPy array, an element type, a class or an object of a class.
struct PickleObject {
  std::string name;  // kGlobal, kObject: "module.class"; kType, kArray: "<f4", ">f4", ...
  std::vector<std::int64_t> shape;  // kArray
  std::string_view bytes;           // kArray: its elements, in the file
  bool by_columns = false;          // kArray: in Fortran order
  PickleValue state;                // kObject: a dict, or kNone
};

class Pickle {
 public:
  // Protocols 0 to 5 as far as Planetoid-like files use them. Throws Error{kInput} with the byte at
  // which something is malformed, unsupported, or not plain data, or takes far more memory than
  // data of this size does.
  explicit Pickle(const std::filesystem::path& path);

  const PickleValue& root() const { return root_; }
  // kTuple, kList; kDict: key, value, key, value, ...
  std::span<const PickleValue> items(const PickleValue& value) const {
    return lists_[static_cast<std::size_t>(value.integer)];
  }
  const PickleObject& object(const PickleValue& value) const {  // kGlobal, kType, kArray, kObject
    return objects_[static_cast<std::size_t>(value.integer)];
  }
  const std::string& file() const { return file_; }
  std::size_t bytes() const { return map_.bytes().size(); }

 private:
  friend class Unpickler;

  MappedFile map_;
  std::string file_;
  // Deques, because growing must not copy: a copy would be needed at the moment of most memory.
  std::deque<std::vector<PickleValue>> lists_;
  std::deque<PickleObject> objects_;
  PickleValue root_;
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
