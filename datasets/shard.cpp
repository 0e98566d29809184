#include "datasets/shard.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/memory.hpp"

namespace atl {

namespace {

// Copies the rows `ids` of a [*, columns] array to `to`. Goes through the source in its own order
// and takes mapped pages that are done with out of this process, so that it is never held twice.
template <typename T>
void copy_rows(std::span<const T> from, std::int64_t columns, std::span<const GlobalId> ids,
               T* to) {
  constexpr std::int64_t kBytesBetweenDrops = 64 << 20;
  std::vector<std::int32_t> ascending(ids.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  std::ranges::sort(ascending, {}, [&](std::int32_t i) { return ids[i]; });
  const std::int64_t rows_between = kBytesBetweenDrops / static_cast<std::int64_t>(sizeof(T)) /
                                    std::max<std::int64_t>(1, columns);
  std::int64_t dropped = 0;
  for (const std::int32_t i : ascending) {
    const std::int64_t row = to_index(ids[i]);
    std::ranges::copy(from.subspan(row * columns, columns), to + i * columns);
    if (row - dropped > rows_between) {
      drop_mapped_pages(std::as_bytes(from.subspan(dropped * columns, (row - dropped) * columns)));
      dropped = row;
    }
  }
  drop_mapped_pages(std::as_bytes(from.subspan(dropped * columns)));
}

template <typename T>
std::vector<T> copied_rows(std::span<const T> from, std::int64_t columns,
                           std::span<const GlobalId> ids) {
  std::vector<T> rows(from.empty() ? 0 : ids.size() * static_cast<std::size_t>(columns));
  if (!from.empty()) copy_rows(from, columns, ids, rows.data());
  return rows;
}

}  // namespace

Shard Shard::copy(const Dataset& dataset, LocalGraph graph) {
  Shard shard;
  const DatasetInfo& info = shard.dataset_ = dataset.info();
  shard.local_graph_ = std::move(graph);
  shard.graph_ = shard.local_graph_.view();
  const std::span<const GlobalId> ids = shard.graph_.inner_ids;
  if (info.features > 0) {
    // Rows begin where vector loads don't cross cache lines, as they do in a mapped file.
    constexpr std::size_t kAlignment = 64;
    const std::size_t count = ids.size() * static_cast<std::size_t>(info.features);
    const std::size_t bytes = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    shard.feature_rows_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    if (!shard.feature_rows_) throw std::bad_alloc();
    copy_rows(dataset.features(), info.features, ids, shard.feature_rows_.get());
    shard.features_ = {shard.feature_rows_.get(), count};
  }
  shard.label_rows_ = copied_rows(dataset.labels(), 1, ids);
  shard.labels_ = shard.label_rows_;
  shard.multi_label_rows_ = copied_rows(dataset.multi_labels(), info.classes, ids);
  shard.multi_labels_ = shard.multi_label_rows_;
  shard.real_label_rows_ = copied_rows(dataset.real_labels(), info.classes, ids);
  shard.real_labels_ = shard.real_label_rows_;
  for (std::int64_t k = 0; k < info.splits; ++k) {
    const std::vector<std::uint8_t> rows = copied_rows(dataset.split(k), 1, ids);
    shard.split_rows_.insert(shard.split_rows_.end(), rows.begin(), rows.end());
  }
  shard.splits_ = shard.split_rows_;
  return shard;
}

std::span<const std::uint8_t> Shard::split(std::int64_t index) const {
  if (index < 0 || index >= dataset_.splits) {
    if (dataset_.splits == 0) fail_option("--split-index {}: the dataset has no split", index);
    fail_option("--split-index {}: allowed are 0 to {}", index, dataset_.splits - 1);
  }
  return splits_.subspan(index * graph_.inner(), graph_.inner());
}

std::int64_t Shard::rest() const {
  std::int64_t bytes = std::ssize(mapped_features());
  drop_mapped_pages(mapped_features());
  std::vector<const void*> arrays;
  for (const LocalMatrixView* matrix : {&graph_.forward, &graph_.backward}) {
    if (graph_.symmetric && matrix == &graph_.backward) continue;  // the same
    arrays.insert(arrays.end(), {matrix->csr.row_ptr.data(), matrix->csr.col_idx.data(),
                                 matrix->csr.values.data(), matrix->edge_features.data()});
  }
  for (const NpyFile& file : files_) {
    const std::span<const std::byte> values = file.value_bytes();
    if (std::ranges::find(arrays, values.data()) == arrays.end()) continue;
    drop_mapped_pages(values);
    bytes += std::ssize(values);
  }
  return bytes;
}

void Shard::release_features() {
  if (feature_rows_) {
    feature_rows_.reset();
  } else {
    drop_mapped_pages(std::as_bytes(features_));
  }
  features_ = {};
}

}  // namespace atl
