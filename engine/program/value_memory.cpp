#include "engine/program/value_memory.hpp"

#include <algorithm>
#include <bit>

#include "base/memory.hpp"

namespace atl {

std::int64_t ValueMemory::unit() const {
  constexpr std::int64_t kMost = 4 << 20;
  constexpr std::int64_t kParts = 4096;
  const auto part = static_cast<std::uint64_t>(bytes() / kParts + 1);
  return std::clamp(static_cast<std::int64_t>(std::bit_ceil(part)), FileMemory::kPage, kMost);
}

void ValueMemory::allocate(const ValuesInFile& in_file) {
  file_ = std::make_unique<FileMemory>(in_file.folder, whole_units());
}

void ValueMemory::rest() {
  const MatrixView all = view();
  if (file_ || all.data == nullptr) return;
  drop_pages({static_cast<std::byte*>(all.data), static_cast<std::size_t>(bytes())});
}

std::unique_ptr<ValuePager> ValueMemory::make_pager(const ValuesInFile& in_file,
                                                    std::int64_t lasting) const {
  if (!in_file.any()) return nullptr;
  const std::int64_t whole = std::min((lasting + unit() - 1) / unit() * unit(), whole_units());
  return std::make_unique<ValuePager>(*file_, whole, in_file.features);
}

}  // namespace atl
