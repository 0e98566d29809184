// The elements of a matrix that is stored column by column (Fortran order), row by row. Internal to
// datasets/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/byte_source.hpp"

namespace atl {

// Reads a block of whole rows at a time, or a piece of a row that is longer than a block, with
// memory for one block (kBlockBytes) however large the matrix is.
class TransposedSource : public ByteSource {
 public:
  static constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 25U;

  // The matrix begins at byte `offset` of `file`; its elements have `item` bytes. block_bytes:
  // other than kBlockBytes in tests.
  TransposedSource(std::shared_ptr<const RandomFile> file, std::uint64_t offset, std::uint64_t rows,
                   std::uint64_t columns, std::size_t item,
                   std::uint64_t block_bytes = kBlockBytes);

  std::size_t read(std::span<std::byte> bytes) override;
  std::uint64_t skip(std::uint64_t count) override;
  std::shared_ptr<const RandomFile> random_access() override { return file_; }

 private:
  // The content of block_: `rows` x `columns` elements from (row, column) on.
  struct Area {
    std::uint64_t row, column, rows, columns;
  };

  void fill();
  void gather(const Area& area, std::uint64_t done, std::uint64_t count);
  template <std::size_t kItem>
  void place(const Area& area, std::uint64_t done, std::uint64_t count, std::uint64_t stride);

  std::shared_ptr<const RandomFile> file_;
  std::uint64_t offset_, rows_, columns_;
  std::size_t item_;
  std::uint64_t block_bytes_;
  std::uint64_t at_ = 0;                   // byte of the matrix, in the order of rows
  std::uint64_t begin_ = 0, end_ = 0;      // of what block_ holds
  std::vector<std::byte> block_, pieces_;  // row by row; column by column, as in the file
};

}  // namespace atl
