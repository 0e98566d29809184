// Sequential, converting reads of one numeric NumPy array, from a .npy file or a member of a .npz
// archive, with a small buffer: arrays larger than memory can pass through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/npy.hpp"
#include "datasets/byte_source.hpp"

struct zip;

namespace atl {

// Whether the first bytes of a .npy file say that its elements are pickled Python objects.
bool holds_objects(std::span<const std::byte> header);

// Reads an array from its first element to its last, row by row, also where it is stored column by
// column (Fortran order) or big-endian. Element types: f2 f4 f8 i1..i8 u1..u8 b1.
class ArrayReader {
 public:
  // `total_bytes` is what the source will deliver; `place` names it in errors. Throws Error{kInput}
  // on a malformed header and one that disagrees with total_bytes.
  ArrayReader(std::unique_ptr<ByteSource> source, std::string place, std::int64_t total_bytes);
  static ArrayReader open_npy(const std::filesystem::path& path);

  const NpyHeader& header() const { return header_; }
  const std::string& place() const { return place_; }
  std::int64_t elements() const { return header_.elements(); }
  std::int64_t dimensions() const { return static_cast<std::int64_t>(header_.shape.size()); }
  // Length of dimension `axis`; 1 beyond the last.
  std::int64_t length(std::size_t axis) const {
    return axis < header_.shape.size() ? header_.shape[axis] : 1;
  }
  char kind() const { return header_.descr[1]; }  // 'f', 'i', 'u' or 'b'
  // Throws Error{kInput} unless the shape equals `shape`; -1 stands for any length.
  void require_shape(std::initializer_list<std::int64_t> shape) const;

  // The next values.size() elements. Integers refuse fractions, NaN and what int64 can't hold;
  // floats refuse finite numbers that are infinite as floats.
  void read(std::span<float> values);
  void read(std::span<double> values);
  void read(std::span<std::int64_t> values);
  void skip(std::int64_t elements);
  // After the last element: reads to the end, so that an archive's checksum is verified.
  void finish();

 private:
  template <typename T>
  void read_converted(std::span<T> values);
  void read_exactly(std::span<std::byte> bytes);

  std::unique_ptr<ByteSource> source_;
  std::string place_;
  NpyHeader header_;
  std::int64_t at_ = 0;  // index of the next element
  std::vector<std::byte> buffer_;
};

// Hands every element, converted to T, and its place to `check` until that says no. Finishes the
// reader and returns true where it never does.
template <typename T, typename Check>
bool all_values(ArrayReader& reader, const Check& check) {
  constexpr std::int64_t kAtATime = std::int64_t{1} << 15U;
  std::vector<T> block;
  for (std::int64_t at = 0; at < reader.elements();) {
    block.resize(static_cast<std::size_t>(std::min(kAtATime, reader.elements() - at)));
    reader.read(block);
    for (const T value : block) {
      if (!check(value, at++)) return false;
    }
  }
  reader.finish();
  return true;
}

// Hands every element, converted to T, and its place to `visit`, and finishes the reader.
template <typename T, typename Visit>
void each_value(ArrayReader& reader, const Visit& visit) {
  all_values<T>(reader, [&](T value, std::int64_t at) {
    visit(value, at);
    return true;
  });
}

// A whole array of any numeric type; throws Error{kInput} unless it has `dimensions` dimensions.
std::vector<std::int64_t> read_integers(ArrayReader reader, std::int64_t dimensions = 1);

// A .npz archive (zip of .npy members).
class NpzArchive {
 public:
  // `scratch`: a folder for copies of members in Fortran order, which can't be read backwards out
  // of an archive; empty: that for temporary files.
  explicit NpzArchive(const std::filesystem::path& path, std::filesystem::path scratch = {});

  bool has(const std::string& name) const;
  // Member `name` (without .npy); several may be read at once. Throws Error{kInput} listing the
  // members if it is absent, on sizes that the file can't hold, and on pickled objects (also in its
  // place), saying how to save them as plain arrays.
  ArrayReader open(const std::string& name) const;
  // Member `name` if it is a single short text of ASCII, as numpy.savez writes b"csr"; else empty.
  std::string word(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> members() const;  // names of at most 30, without .npy

 private:
  void refuse_objects(const std::string& name) const;

  std::filesystem::path path_;
  std::filesystem::path scratch_;
  std::int64_t file_bytes_ = 0;
  std::shared_ptr<zip> zip_;
  // Copies of members read at any position, by their number; made when they are first needed.
  using Copies = std::map<std::uint64_t, std::shared_ptr<const RandomFile>>;
  std::shared_ptr<Copies> copies_;
};

}  // namespace atl
