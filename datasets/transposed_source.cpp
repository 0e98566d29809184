#include "datasets/transposed_source.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace atl {

namespace {

// Columns that are not longer are read whole, with their neighbours: a read of its own for a part
// of each would take longer.
constexpr std::uint64_t kShortColumn = 1024;
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20U;
// So many columns are placed at a time: a line of the cache of each row.
constexpr std::uint64_t kPlacedColumns = 16;

}  // namespace

TransposedSource::TransposedSource(std::shared_ptr<const RandomFile> file, std::uint64_t offset,
                                   std::uint64_t rows, std::uint64_t columns, std::size_t item,
                                   std::uint64_t block_bytes)
    : file_(std::move(file)),
      offset_(offset),
      rows_(rows),
      columns_(columns),
      item_(item),
      block_bytes_(block_bytes) {}

std::size_t TransposedSource::read(std::span<std::byte> bytes) {
  if (at_ >= rows_ * columns_ * item_) return 0;
  if (at_ < begin_ || at_ >= end_) fill();
  const auto count = std::min<std::uint64_t>(bytes.size(), end_ - at_);
  std::memcpy(bytes.data(), block_.data() + (at_ - begin_), count);
  at_ += count;
  return count;
}

std::uint64_t TransposedSource::skip(std::uint64_t count) {
  const std::uint64_t passed = std::min(count, rows_ * columns_ * item_ - at_);
  at_ += passed;
  return passed;
}

// The block that begins with the element at at_: whole rows where one fits.
void TransposedSource::fill() {
  const std::uint64_t element = at_ / item_;
  const std::uint64_t room = std::max<std::uint64_t>(1, block_bytes_ / item_);  // elements
  Area area{element / columns_, element % columns_, 1, 0};
  area.columns = std::min(columns_ - area.column, room);
  if (area.column == 0 && columns_ <= room) {
    area.rows = std::min(rows_ - area.row, room / columns_);
  }
  block_.resize(area.rows * area.columns * item_);
  const bool whole = area.rows == rows_ || rows_ * item_ <= kShortColumn;
  const std::uint64_t stride = (whole ? rows_ : area.rows) * item_;  // bytes of a column's piece
  const std::uint64_t group =
      std::clamp<std::uint64_t>(kPieceBytes / stride, 1, whole ? area.columns : kPlacedColumns);
  for (std::uint64_t done = 0; done < area.columns; done += group) {
    const std::uint64_t count = std::min(group, area.columns - done);
    pieces_.resize(count * stride);
    gather(area, done, count);
    switch (item_) {
      case 1:
        place<1>(area, done, count, stride);
        break;
      case 2:
        place<2>(area, done, count, stride);
        break;
      case 4:
        place<4>(area, done, count, stride);
        break;
      default:
        place<8>(area, done, count, stride);
    }
  }
  begin_ = element * item_;
  end_ = begin_ + block_.size();
}

// Reads `count` columns of the area, from its column `done` on.
void TransposedSource::gather(const Area& area, std::uint64_t done, std::uint64_t count) {
  const std::uint64_t piece = pieces_.size() / count;
  const bool whole = piece == rows_ * item_;
  const std::uint64_t first = area.column + done;
  const auto position = [&](std::uint64_t column) {
    return offset_ + (column * rows_ + (whole ? 0 : area.row)) * item_;
  };
  if (whole) return file_->read_at(position(first), pieces_);
  for (std::uint64_t k = 0; k < count; ++k) {
    file_->read_at(position(first + k), std::span(pieces_).subspan(k * piece, piece));
  }
}

template <std::size_t kItem>
void TransposedSource::place(const Area& area, std::uint64_t done, std::uint64_t count,
                             std::uint64_t stride) {
  const std::byte* const from =
      pieces_.data() + (stride == rows_ * kItem ? area.row * kItem : std::uint64_t{0});
  for (std::uint64_t i = 0; i < area.rows; ++i) {
    std::byte* const to = block_.data() + (i * area.columns + done) * kItem;
    for (std::uint64_t k = 0; k < count; ++k) {
      std::memcpy(to + k * kItem, from + k * stride + i * kItem, kItem);
    }
  }
}

}  // namespace atl
