// NumPy .npy files: mapped reading and streamed writing of C-ordered little-endian arrays.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"

namespace atl {

// The contents of a .npy header.
struct NpyHeader {
  std::string descr;  // NumPy's dtype string, e.g. "<f4", "|u1"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes from the start of the file

  std::int64_t elements() const;   // product of shape; 1 for a scalar
  std::size_t item_bytes() const;  // bytes of one element
};

// Parses the header in the first bytes of a .npy file (versions 1, 2, 3). `place` names the file
// (or archive member) in errors. Throws Error{kInput} on anything malformed, on shapes whose
// product overflows and on element types other than fixed-size numbers and booleans.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& place);
// A version 1 header, padded so that the data starts at a multiple of 64 bytes.
std::string make_npy_header(const std::string& descr, std::span<const std::int64_t> shape);

// NumPy's dtype string of T: "<f4", "<i8", "|u1", ...
template <typename T>
constexpr const char* npy_descr() {
  if constexpr (std::is_enum_v<T>) {
    return npy_descr<std::underlying_type_t<T>>();
  } else if constexpr (std::is_same_v<T, float>) {
    return "<f4";
  } else if constexpr (std::is_same_v<T, double>) {
    return "<f8";
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return "<i4";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return "<i8";
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    return "<u2";
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return "|u1";
  } else {
    static_assert(sizeof(T) == 0, "no .npy type for T");
  }
}

// A mapped .npy file. Refuses Fortran order, big-endian elements, and files shorter or longer than
// their header says.
class NpyFile {
 public:
  NpyFile() = default;
  explicit NpyFile(const std::filesystem::path& path);
  // The bytes of such a file, which are in memory alone; `path` names them in errors.
  NpyFile(std::filesystem::path path, std::shared_ptr<const MappedFile> bytes);

  const NpyHeader& header() const { return header_; }
  std::int64_t rows() const { return header_.shape.empty() ? 1 : header_.shape[0]; }
  std::int64_t columns() const { return header_.shape.size() < 2 ? 1 : header_.shape[1]; }
  const std::filesystem::path& path() const { return path_; }

  // The elements; throws Error{kInput} naming the file if its type is not T.
  template <typename T>
  std::span<const T> values() const {
    require_descr(npy_descr<T>());
    return {reinterpret_cast<const T*>(map_->bytes().data() + header_.data_offset),
            static_cast<std::size_t>(header_.elements())};
  }
  // The bytes of the elements, whatever their type.
  std::span<const std::byte> value_bytes() const {
    return map_->bytes().subspan(header_.data_offset);
  }
  bool is(const char* descr) const { return header_.descr == descr; }
  // Throws Error{kInput} unless the shape equals `shape`; -1 stands for any length.
  void require_shape(std::span<const std::int64_t> shape) const;
  void require_descr(const char* descr) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> map_;
  NpyHeader header_;
};

// Writes a .npy file piece by piece with a small buffer; the first dimension may be set at the end.
class NpyWriter {
 public:
  // `shape` is what the file will hold when close() is called.
  NpyWriter(const std::filesystem::path& path, std::string descr, std::vector<std::int64_t> shape);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();

  void write_bytes(std::span<const std::byte> bytes);
  template <typename T>
  void write(std::span<const T> values) {
    write_bytes(std::as_bytes(values));
  }
  // Flushes; throws Error{kInput} (disk full, ...). Asserts that shape and bytes written agree.
  void close();

 private:
  std::filesystem::path path_;
  std::string descr_;
  std::vector<std::int64_t> shape_;
  std::FILE* file_ = nullptr;
  std::size_t written_ = 0;
};

template <typename T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               std::vector<std::int64_t> shape) {
  NpyWriter writer(path, npy_descr<T>(), std::move(shape));
  writer.write(values);
  writer.close();
}

template <typename T>
void write_npy(const std::filesystem::path& path, const std::vector<T>& values) {
  write_npy(path, std::span<const T>(values), {static_cast<std::int64_t>(values.size())});
}

}  // namespace atl
