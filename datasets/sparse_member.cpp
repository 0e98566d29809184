#include "datasets/sparse_member.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"

namespace atl {

SparseMember::SparseMember(const NpzArchive& archive, std::string prefix)
    : archive_(archive), prefix_(std::move(prefix)) {
  const std::string place = archive.path().string() + "[" + prefix_ + "shape]";
  const std::vector<std::int64_t> shape = read_integers(archive.open(prefix_ + "shape"));
  if (shape.size() != 2 || shape[0] < 0 || shape[0] > kMaxNodes || shape[1] < 0 ||
      shape[1] > kMaxNodes) {
    fail_input("{}: two lengths, 0 to {}, are expected", place, kMaxNodes);
  }
  rows_ = shape[0];
  columns_ = shape[1];
  row_ptr_ = read_row_ptr(archive.open(prefix_ + "indptr"), rows_);
}

template <typename Visit>
void SparseMember::each_row(const Visit& visit) const {
  ArrayReader indices = archive_.open(prefix_ + "indices");
  indices.require_shape({row_ptr_.back()});
  std::vector<std::int64_t> row;
  Activity activity("reading " + prefix_ + "indices", row_ptr_.back());
  for (std::int64_t i = 0; i < rows_; ++i) {
    activity.advance_to(row_ptr_[i]);
    row.resize(static_cast<std::size_t>(row_ptr_[i + 1] - row_ptr_[i]));
    indices.read(row);
    for (std::size_t e = 0; e < row.size(); ++e) {
      if (row[e] < 0 || row[e] >= columns_) {
        fail_input("{}: element {} is {}; allowed are 0 to {}", indices.place(),
                   row_ptr_[i] + static_cast<std::int64_t>(e), row[e], columns_ - 1);
      }
    }
    visit(i, row);
  }
  indices.finish();
}

void SparseMember::stream_edges(const EdgeSink& sink) const {
  if (rows_ != columns_) {
    fail_input("{}[{}shape]: {} x {}; a square matrix is expected", archive_.path().string(),
               prefix_, rows_, columns_);
  }
  EdgeBlock block(sink);
  each_row([&](std::int64_t i, const std::vector<std::int64_t>& columns) {
    for (const std::int64_t j : columns) block.add(i, j);
  });
  block.flush();
}

void SparseMember::write_features(ImportSession& session) const {
  ArrayReader data = archive_.open(prefix_ + "data");
  data.require_shape({row_ptr_.back()});
  FeatureWriter writer = session.sparse_features(columns_, row_ptr_.back(), data.place());
  std::vector<float> dense(static_cast<std::size_t>(columns_));
  std::vector<float> values;
  each_row([&](std::int64_t, const std::vector<std::int64_t>& columns) {
    values.resize(columns.size());
    data.read(values);
    for (std::size_t e = 0; e < columns.size(); ++e) dense[columns[e]] += values[e];
    writer.add_rows(dense);
    std::fill(dense.begin(), dense.end(), 0.0F);
  });
  data.finish();
  writer.close();
}

}  // namespace atl
