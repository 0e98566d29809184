#include "engine/exchange/computed_halo.hpp"

#include "engine/exchange/exchange_parts.hpp"

namespace atl {

ComputedHalo::ComputedHalo(Backend& backend, Queue& queue, const LocalGraphView& graph,
                           const DistributedOperator& forward, const Recomputation& recomputation)
    : fetched_(forward), inputs_(forward) {
  select(fetched_messages_, fetched_, false, graph, recomputation, backend, queue);
  select(input_messages_, inputs_, true, graph, recomputation, backend, queue);
  const HaloListsView& halo = forward.halo;
  std::vector<GlobalId> ids;
  for (int owner = 0; owner < graph.parts; ++owner) {
    const auto peer = static_cast<std::size_t>(owner);
    if (!recomputation.computes(graph.part, owner) || halo.received_from(peer) == 0) continue;
    const std::int64_t first = graph.inner() + halo.first_halo_row(peer);
    const RowRange range{first, first + halo.received_from(peer)};
    if (!ranges_.empty() && ranges_.back().end == range.begin) {
      ranges_.back().end = range.end;
    } else {
      ranges_.push_back(range);
    }
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      halo_rows_.push_back(static_cast<LocalId>(row));
      ids.push_back(graph.forward.halo_ids[static_cast<std::size_t>(row - graph.inner())]);
    }
  }
  counting_ = {backend, queue, first_numbers<LocalId>(rows())};
  device_rows_ = {backend, queue, std::span<const LocalId>(halo_rows_)};
  ids_ = {backend, queue, std::move(ids)};
  inputs_.matrix.cols = inputs_.matrix.rows + rows();
  inputs_.message_scale = {};
  inputs_.message_ids = {};
  inputs_.sums = {};  // pairs with computed rows keep rows
}

void ComputedHalo::select(Messages& messages, DistributedOperator& op, bool computed,
                          const LocalGraphView& graph, const Recomputation& recomputation,
                          Backend& backend, Queue& queue) {
  const HaloListsView whole = op.halo;
  messages.recv_offset = {0};
  messages.send_offset = {0};
  for (int peer = 0; peer < graph.parts; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    const bool receives = recomputation.computes(graph.part, peer) == computed;
    // Computed rows are numbered on their own; fetched ones keep their places among all.
    messages.recv_first.push_back(computed ? messages.recv_offset.back() : whole.first_halo_row(p));
    messages.recv_offset.push_back(messages.recv_offset.back() +
                                   (receives ? whole.received_from(p) : 0));
    if (recomputation.computes(peer, graph.part) == computed) {
      messages.send_rows.insert(messages.send_rows.end(),
                                whole.send_rows.begin() + whole.send_offset[p],
                                whole.send_rows.begin() + whole.send_offset[p + 1]);
    }
    messages.send_offset.push_back(std::ssize(messages.send_rows));
  }
  messages.device_send_rows = {backend, queue, std::span<const LocalId>(messages.send_rows)};
  op.halo = {messages.recv_offset, messages.send_offset, messages.send_rows, messages.recv_first};
  op.pieces = 1;
  op.sent_pieces = {};
  op.received_pieces = {};
  op.send_rows = messages.device_send_rows.span();
}

void ComputedHalo::fetch_factors(Backend& backend, Queue& queue, Transport& transport,
                                 std::span<const float> own_factors) {
  const HaloListsView& halo = inputs_.halo;
  std::vector<float> sent;
  for (const LocalId row : halo.send_rows) {
    sent.push_back(own_factors[static_cast<std::size_t>(to_index(row))]);
  }
  std::vector<float> received(static_cast<std::size_t>(rows()));
  exchange_parts(transport, sent, halo.send_offset, received, halo.recv_offset,
                 {"factors of computed rows"});
  factors_ = {backend, queue, std::move(received)};
}

}  // namespace atl
