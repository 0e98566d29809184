#include "engine/exchange/halo_return.hpp"

#include <numeric>

namespace atl {

HaloReturn::HaloReturn(Backend& backend, Queue& queue, const LocalGraphView& graph,
                       EdgesBySource edges) {
  const LocalMatrixView& forward = graph.forward;
  const std::int64_t inner = graph.inner();
  const std::int64_t halo = forward.halo.halo_rows();
  const std::int64_t received = forward.halo.sent_rows();

  counting_ = first_numbers<LocalId>(halo);
  device_counting_ = {backend, queue, std::span<const LocalId>(counting_)};
  std::vector<GlobalId> ids;
  for (const GlobalId id : forward.halo_ids) ids.push_back(message_for(id, graph.part));
  message_ids_ = {backend, queue, std::move(ids)};

  // Row k of those received is for the inner node that was sent k-th forward. A node's rows are
  // added in the order of their senders.
  std::vector<std::int64_t>& row_ptr = host_sums_.row_ptr;
  row_ptr.assign(static_cast<std::size_t>(inner) + 1, 0);
  for (const LocalId row : forward.halo.send_rows) {
    ++row_ptr[static_cast<std::size_t>(to_index(row)) + 1];
  }
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  host_sums_.col_idx.resize(static_cast<std::size_t>(received));
  std::vector<std::int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  for (std::int64_t k = 0; k < received; ++k) {
    const auto row = static_cast<std::size_t>(to_index(forward.halo.send_rows[k]));
    host_sums_.col_idx[static_cast<std::size_t>(next[row]++)] = static_cast<std::int32_t>(halo + k);
  }
  sums_ = {backend, queue, host_sums_.view(), halo + received};

  messages_.direction = Direction::kBackward;
  messages_.matrix.rows = halo;
  messages_.matrix.cols = halo + received;
  messages_.halo = {forward.halo.send_offset, forward.halo.recv_offset, counting_};
  messages_.csr = host_sums_.view();
  messages_.send_rows = device_counting_.span();
  messages_.message_ids = message_ids_.span();
  messages_.central = {0, graph.central};
  messages_.marginal = {graph.central, inner};

  std::vector<GlobalId> columns(graph.inner_ids.begin(), graph.inner_ids.end());
  columns.insert(columns.end(), forward.halo_ids.begin(), forward.halo_ids.end());
  column_ids_ = {backend, queue, std::move(columns)};
  if (edges == EdgesBySource::kSorted) sort_edges(backend, queue, graph);
}

// A counting sort: the edges of a source stay in the order of their targets.
void HaloReturn::sort_edges(Backend& backend, Queue& queue, const LocalGraphView& graph) {
  const CsrView& csr = graph.forward.csr;
  const std::int64_t inner = graph.inner();
  const std::int64_t columns = inner + graph.forward.halo.halo_rows();
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(columns) + 1, 0);
  for (const std::int32_t column : csr.col_idx) ++row_ptr[static_cast<std::size_t>(column) + 1];
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  std::vector<std::int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  std::vector<std::int32_t> targets(csr.col_idx.size());
  std::vector<std::int64_t> edges(csr.col_idx.size());
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) {
      const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(csr.col_idx[e])]++);
      targets[at] = static_cast<std::int32_t>(i);
      edges[at] = e;
    }
  }
  const std::vector<std::int64_t> host_row_ptr = row_ptr;
  by_source_ = {backend, queue, Csr{std::move(row_ptr), std::move(targets), {}}, inner};
  edges_ = {backend, queue, std::move(edges)};
  const RowRange ranges[] = {
      {0, graph.central}, {graph.central, inner}, {0, inner}, {inner, columns}};
  prepared_ =
      backend.prepare_spmm(queue, by_source_.view(), host_row_ptr, ranges, lifetime_of(graph));
}

}  // namespace atl
