// The memory of values: of a backend, or on a host that of a file, of which less than all is in
// memory at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/file_memory.hpp"
#include "engine/program/value_pager.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

// Where values lie that are not all in memory.
struct ValuesInFile {
  std::filesystem::path folder = {};  // empty: all are in memory
  std::int64_t budget = 0;            // bytes of them and of `features` in memory at a time
  // Those in a mapped file, which may leave memory as values do; empty: they lie elsewhere.
  std::span<const std::byte> features = {};

  bool any() const { return !folder.empty(); }
};

class ValueMemory {
 public:
  explicit ValueMemory(DType dtype) : tensor_(1, 0, dtype) {}

  // Before allocate(): makes room for so many elements.
  void reserve(std::int64_t elements) { tensor_.reserve(elements); }
  // Those of all values, wherever they lie.
  std::int64_t bytes() const { return tensor_.bytes(); }
  // In memory at a time, at most; in a file with its features.
  std::int64_t resident_bytes(const ValuesInFile& in_file) const {
    return in_file.any() ? in_file.budget : bytes();
  }
  // Throws as Backend::allocate(), or as FileMemory.
  void allocate(Backend& backend) { tensor_.allocate(backend); }
  void allocate(const ValuesInFile& in_file);
  // Between passes: gives memory of a host back until it is touched again, and with it all values.
  void rest();
  MatrixView view() {
    MatrixView view = tensor_.view();
    if (file_) view.data = file_->data();
    return view;
  }

  // Parts that come from a file and leave: as large as pays for a call of the system, but many.
  std::int64_t unit() const;
  // Features of a mapped file behind all values, as plans see them.
  ByteRange place_of_features(const ValuesInFile& in_file) const {
    return {whole_units(), whole_units() + std::ssize(in_file.features)};
  }
  // Null: all values are in memory. lasting: bytes from the begin that outlive passes.
  std::unique_ptr<ValuePager> make_pager(const ValuesInFile& in_file, std::int64_t lasting) const;

 private:
  std::int64_t whole_units() const { return (bytes() + unit() - 1) / unit() * unit(); }

  Tensor tensor_;  // its memory only where there is no file
  std::unique_ptr<FileMemory> file_;
};

}  // namespace atl
