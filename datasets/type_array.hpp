// Types of edges or nodes of a dataset folder: numbers from 0, one per edge or node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/json.hpp"
#include "base/npy.hpp"

namespace atl {

// Types are stored as uint16: a model has weights per type, and reads a type with every edge. More
// than this many are a mistake, or call for embeddings instead.
inline constexpr std::int64_t kMaxTypes = 1 << 16;

class ArrayReader;

// All types of an array of integers of 8 to 64 bits. Throws Error{kInput} unless there are
// `length`, each from 0 to kMaxTypes - 1.
std::vector<std::uint16_t> read_types(ArrayReader reader, std::int64_t length);

class TypeArray {
 public:
  TypeArray() = default;
  // `path` with `length` types, or none if it isn't there. uint16 is mapped; other integers are
  // narrowed, which takes 2 bytes of memory each. Throws Error{kInput} if type or shape are others,
  // or if a value that is narrowed lies outside 0 to kMaxTypes - 1.
  TypeArray(const std::filesystem::path& path, std::int64_t length);
  // uint16 that is mapped already.
  TypeArray(NpyFile types, std::int64_t length);

  std::span<const std::uint16_t> values() const;
  // How many types there are: what `field` of `json` (read from `file`) states, else the largest
  // type + 1; 0 without the array. Throws Error{kInput} if the field contradicts the array. That no
  // type is larger than stated is what check() asks.
  std::int64_t count(const Json& json, const char* field, const std::filesystem::path& file) const;
  // Throws Error{kInput} naming the first type that is not below `count`.
  void check(std::int64_t count) const;

 private:
  NpyFile file_;
  bool there_ = false;
  std::vector<std::uint16_t> narrowed_;  // only if the elements are not uint16
};

}  // namespace atl
