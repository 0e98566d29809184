#include "partition/message_cover.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "partition/transpose.hpp"
#include "partition/vertex_cover.hpp"

namespace atl {

namespace {

constexpr std::int32_t kNotSent = -1;

// A stretch of columns or entries.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Columns of the halo rows that come from a part.
Stretch columns_from(const LocalMatrixView& matrix, std::int64_t inner, std::size_t part) {
  return {inner + matrix.halo.recv_offset[part], inner + matrix.halo.recv_offset[part + 1]};
}

// The inner nodes whose rows go to a part, ascending.
std::span<const LocalId> sent_to(const LocalMatrixView& matrix, std::size_t part) {
  const auto begin = static_cast<std::size_t>(matrix.halo.send_offset[part]);
  return matrix.halo.send_rows.subspan(
      begin, static_cast<std::size_t>(matrix.halo.send_offset[part + 1]) - begin);
}

// The entries of a row whose columns are in `range`; columns ascend among remote ones.
Stretch entries_in(const CsrView& csr, std::int64_t row, std::int64_t split, Stretch range) {
  const auto first = csr.col_idx.begin() + split;
  const auto last = csr.col_idx.begin() + csr.row_ptr[row + 1];
  return {std::lower_bound(first, last, range.begin) - csr.col_idx.begin(),
          std::lower_bound(first, last, range.end) - csr.col_idx.begin()};
}

VertexCover all_sources(std::int64_t sources) {
  return {std::vector<std::uint8_t>(static_cast<std::size_t>(sources), 1), {}};
}

// The messages from one part to another. Sums take work before they can be sent, so few messages
// less are not worth them.
VertexCover messages_over(const CsrView& edges, std::int64_t targets) {
  constexpr std::int64_t kLeastPercent = 5;
  VertexCover cover = minimum_vertex_cover(edges, targets);
  const std::int64_t sent =
      std::ranges::count(cover.sources, 1) + std::ranges::count(cover.targets, 1);
  const bool pays = 100 * (edges.rows() - sent) >= kLeastPercent * edges.rows();
  return pays ? cover : all_sources(edges.rows());
}

// One message of a link: the row of a source, or the partial sum for a target.
struct LinkMessage {
  bool is_sum = false;
  std::int32_t index = 0;
};

// The messages from one part to another.
struct Link {
  VertexCover cover;
  std::vector<LinkMessage> order;  // in which they travel
};

Link link_of_rows(std::int64_t sources) {
  Link link{all_sources(sources), {}};
  for (std::int32_t s = 0; s < sources; ++s) link.order.push_back({false, s});
  return link;
}

// Those come first that the first rows of their receiver need.
Link link_over(const CsrView& edges, std::int64_t targets) {
  VertexCover cover = messages_over(edges, targets);
  if (cover.targets.empty()) return link_of_rows(edges.rows());
  std::vector<std::vector<std::int32_t>> rows_of(static_cast<std::size_t>(targets));
  for (std::int32_t s = 0; s < edges.rows(); ++s) {
    if (cover.sources[s] != 0) rows_of[std::ranges::min(edges.row(s))].push_back(s);
  }
  Link link{std::move(cover), {}};
  for (std::int32_t t = 0; t < targets; ++t) {
    for (const std::int32_t s : rows_of[t]) link.order.push_back({false, s});
    if (link.cover.targets[t] != 0) link.order.push_back({true, t});
  }
  return link;
}

// The messages of one direction between this part and the others: `in` is its matrix, `out` that of
// the other direction, whose rows list who reads this part's nodes.
class DirectionCover {
 public:
  DirectionCover(const LocalGraphView& graph, const LocalMatrixView& in, const LocalMatrixView& out,
                 const Recomputation& recomputation)
      : graph_(graph),
        in_(in),
        out_(out),
        inner_(graph.inner()),
        parts_(static_cast<std::size_t>(graph.parts)),
        received_(parts_),
        sent_(parts_) {
    // Twice as many tasks as parts: what comes from each, and what goes to each.
    parallel_for(2 * graph.parts, 1, [&](std::int64_t task) {
      const auto peer = static_cast<std::size_t>(task / 2);
      const bool keeps_rows = recomputation.computes(graph.part, static_cast<int>(peer)) ||
                              recomputation.computes(static_cast<int>(peer), graph.part);
      if (task % 2 == 0) {
        received_[peer] =
            keeps_rows ? link_of_rows(in_.halo.received_from(peer))
                       : link_over(received_edges(peer).view(), std::ssize(sent_to(out_, peer)));
      } else {
        sent_[peer] = keeps_rows
                          ? link_of_rows(std::ssize(sent_to(in_, peer)))
                          : link_over(sent_edges(peer).view(), out_.halo.received_from(peer));
      }
    });
  }

  LocalMatrix matrix() {
    LocalMatrix matrix;
    number_received(matrix);
    list_sent(matrix);
    fill_rows(matrix);
    return matrix;
  }

 private:
  // Calls visit(column - range.begin) for the distinct columns of a row in a range.
  template <typename Visit>
  static void for_each_column(const LocalMatrixView& matrix, std::int64_t row, Stretch range,
                              const Visit& visit) {
    const Stretch entries = entries_in(matrix.csr, row, matrix.split[row], range);
    std::int32_t last = kNotSent;
    for (std::int64_t e = entries.begin; e < entries.end; ++e) {
      const std::int32_t column = matrix.csr.col_idx[e];
      if (column != last) visit(static_cast<std::int32_t>(column - range.begin));
      last = column;
    }
  }

  // Edges from this part's nodes that a part reads to that part's nodes, both numbered as the lists
  // of rows number them.
  Csr sent_edges(std::size_t peer) const { return edges(out_, sent_to(in_, peer), peer); }
  // The same of the edges that come from a part, which this part has by their targets.
  Csr received_edges(std::size_t peer) const {
    const Csr by_target = edges(in_, sent_to(out_, peer), peer);
    return transpose(by_target.view(), in_.halo.received_from(peer));
  }
  Csr edges(const LocalMatrixView& matrix, std::span<const LocalId> rows, std::size_t peer) const {
    const Stretch range = columns_from(matrix, inner_, peer);
    Csr edges;
    for (const LocalId row : rows) {
      for_each_column(matrix, to_index(row), range,
                      [&](std::int32_t column) { edges.col_idx.push_back(column); });
      edges.row_ptr.push_back(std::ssize(edges.col_idx));
    }
    return edges;
  }

  void number_received(LocalMatrix& matrix) {
    matrix.halo.recv_offset = {0};
    row_message_.assign(static_cast<std::size_t>(in_.halo.halo_rows()), kNotSent);
    sum_message_.resize(parts_);
    for (std::size_t peer = 0; peer < parts_; ++peer) {
      const Link& link = received_[peer];
      const std::int64_t first = in_.halo.recv_offset[peer];
      const std::span<const LocalId> targets = sent_to(out_, peer);
      sum_message_[peer].assign(link.cover.targets.size(), kNotSent);
      for (const auto& [is_sum, index] : link.order) {
        const std::int64_t row = first + index;
        (is_sum ? sum_message_[peer][index] : row_message_[row]) =
            static_cast<std::int32_t>(std::ssize(matrix.halo_ids));
        matrix.halo_ids.push_back(is_sum ? graph_.inner_ids[to_index(targets[index])]
                                         : in_.halo_ids[row]);
      }
      matrix.halo.recv_offset.push_back(std::ssize(matrix.halo_ids));
    }
  }

  void list_sent(LocalMatrix& matrix) const {
    matrix.halo.send_offset = {0};
    const std::int64_t first_sum = inner_ + matrix.halo.recv_offset.back();
    std::int64_t all_sums = 0;
    for (const Link& link : sent_) all_sums += std::ranges::count(link.cover.targets, 1);
    ATOLL_ASSERT(first_sum + all_sums < std::numeric_limits<std::int32_t>::max());
    for (std::size_t peer = 0; peer < parts_; ++peer) {
      const Link& link = sent_[peer];
      const std::span<const LocalId> sources = sent_to(in_, peer);
      const Stretch targets = columns_from(out_, inner_, peer);
      std::vector<std::int32_t> sum_of(link.cover.targets.size(), kNotSent);
      std::int32_t sums = 0;
      for (const auto& [is_sum, index] : link.order) {
        if (!is_sum) {
          matrix.halo.send_rows.push_back(sources[index]);
          continue;
        }
        sum_of[index] = sums++;
        matrix.halo.send_rows.push_back(
            static_cast<LocalId>(first_sum + std::ssize(matrix.sum_ids)));
        matrix.sum_ids.push_back(out_.halo_ids[targets.begin - inner_ + index]);
      }
      add_sums(matrix.sums, link.cover, sources, targets, sum_of, sums);
      matrix.halo.send_offset.push_back(std::ssize(matrix.halo.send_rows));
    }
  }

  // Each sum to a part adds up the sources that do not travel themselves, in their order.
  void add_sums(Csr& sums, const VertexCover& cover, std::span<const LocalId> sources,
                Stretch targets, std::span<const std::int32_t> sum_of, std::int32_t count) const {
    const auto for_each_term = [&](const auto& visit) {
      for (std::size_t s = 0; s < sources.size(); ++s) {
        if (count == 0 || cover.sources[s] != 0) continue;
        const std::int64_t row = to_index(sources[s]);
        const Stretch entries = entries_in(out_.csr, row, out_.split[row], targets);
        for (std::int64_t e = entries.begin; e < entries.end; ++e) {
          visit(sum_of[out_.csr.col_idx[e] - targets.begin],
                static_cast<std::int32_t>(row - graph_.central), e);
        }
      }
    };
    const std::int64_t before = sums.row_ptr.back();
    std::vector<std::int64_t> next(static_cast<std::size_t>(count) + 1, 0);
    for_each_term([&](std::int32_t sum, std::int32_t, std::int64_t) { ++next[sum + 1]; });
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (std::int32_t sum = 0; sum < count; ++sum) sums.row_ptr.push_back(before + next[sum + 1]);
    sums.col_idx.resize(static_cast<std::size_t>(sums.row_ptr.back()));
    if (!out_.csr.values.empty()) sums.values.resize(sums.col_idx.size());
    for_each_term([&](std::int32_t sum, std::int32_t column, std::int64_t entry) {
      const std::int64_t at = before + next[sum]++;
      sums.col_idx[at] = column;
      if (!sums.values.empty()) sums.values[at] = out_.csr.values[entry];
    });
  }

  // Calls visit(column, value) for the entries of an inner row.
  template <typename Visit>
  void for_each_entry(std::int64_t row, const Visit& visit) const {
    const CsrView& csr = in_.csr;
    for (std::int64_t e = csr.row_ptr[row]; e < in_.split[row]; ++e) {
      visit(csr.col_idx[e], csr.value(e));
    }
    for (std::int64_t e = in_.split[row]; e < csr.row_ptr[row + 1];) {
      const auto halo_row = csr.col_idx[e] - inner_;
      const auto after = std::ranges::upper_bound(in_.halo.recv_offset, halo_row);
      const auto peer = static_cast<std::size_t>(after - in_.halo.recv_offset.begin()) - 1;
      const std::int64_t end = entries_in(csr, row, e, columns_from(in_, inner_, peer)).end;
      bool summed = false;
      for (; e < end; ++e) {
        const std::int32_t message = row_message_[csr.col_idx[e] - inner_];
        summed = summed || message == kNotSent;
        if (message != kNotSent) {
          visit(static_cast<std::int32_t>(inner_ + message), csr.value(e));
        }
      }
      if (!summed) continue;
      const std::span<const LocalId> targets = sent_to(out_, peer);
      const auto target = std::ranges::lower_bound(targets, static_cast<LocalId>(row));
      visit(static_cast<std::int32_t>(inner_ + sum_message_[peer][target - targets.begin()]), 1.0F);
    }
  }

  void fill_rows(LocalMatrix& matrix) const {
    constexpr std::int64_t kRows = 1024;
    Csr& csr = matrix.csr;
    csr.row_ptr.resize(static_cast<std::size_t>(inner_) + 1);
    parallel_for(inner_, kRows, [&](std::int64_t row) {
      std::int64_t entries = 0;
      for_each_entry(row, [&](std::int32_t, float) { ++entries; });
      csr.row_ptr[row + 1] = entries;
    });
    std::partial_sum(csr.row_ptr.begin(), csr.row_ptr.end(), csr.row_ptr.begin());
    csr.col_idx.resize(static_cast<std::size_t>(csr.row_ptr.back()));
    if (!in_.csr.values.empty()) csr.values.resize(csr.col_idx.size());
    matrix.split.resize(static_cast<std::size_t>(inner_));
    parallel_for(inner_, kRows, [&](std::int64_t row) {
      std::int64_t at = csr.row_ptr[row];
      matrix.split[row] = at + in_.split[row] - in_.csr.row_ptr[row];
      for_each_entry(row, [&](std::int32_t column, float value) {
        csr.col_idx[at] = column;
        if (!csr.values.empty()) csr.values[at] = value;
        ++at;
      });
    });
  }

  const LocalGraphView& graph_;
  const LocalMatrixView& in_;
  const LocalMatrixView& out_;
  std::int64_t inner_;
  std::size_t parts_;
  // By part: of the edges that come from it and of those that go to it.
  std::vector<Link> received_;
  std::vector<Link> sent_;
  std::vector<std::int32_t> row_message_;               // by halo row: the message that it is
  std::vector<std::vector<std::int32_t>> sum_message_;  // by part and target
};

}  // namespace

const char* to_string(MessageForm form) {
  switch (form) {
    case MessageForm::kAuto:
      return "auto";
    case MessageForm::kRows:
      return "rows";
    case MessageForm::kCover:
      return "cover";
  }
  return "";
}

CoverCounts count_cover(const LocalGraphBuilder& builder, Direction direction) {
  const int parts = builder.parts();
  const CsrView readers = builder.readers(direction);
  const auto pairs = static_cast<std::size_t>(parts) * static_cast<std::size_t>(parts);
  CoverCounts counts{std::vector<std::int64_t>(pairs), std::vector<std::int64_t>(pairs)};
  // Sizes do not depend on how nodes are numbered: targets are numbered as they come.
  parallel_for(parts, 1, [&](std::int64_t from) {
    struct Pair {
      Csr edges;
      std::unordered_map<std::int32_t, std::int32_t> target_of;
    };
    std::vector<Pair> pairs_of(static_cast<std::size_t>(parts));
    const auto inner = builder.inner_ids(static_cast<int>(from));
    std::vector<std::int32_t> touched;
    for (const GlobalId id : inner.subspan(builder.central(static_cast<int>(from)))) {
      touched.clear();
      for (const std::int32_t reader : readers.row(to_index(id))) {
        const std::int32_t to = builder.part_of()[reader];
        if (to == from) continue;
        Pair& pair = pairs_of[to];
        const auto next = static_cast<std::int32_t>(pair.target_of.size());
        if (pair.edges.row_ptr.back() == std::ssize(pair.edges.col_idx)) touched.push_back(to);
        pair.edges.col_idx.push_back(pair.target_of.try_emplace(reader, next).first->second);
      }
      for (const std::int32_t to : touched) {
        pairs_of[to].edges.row_ptr.push_back(std::ssize(pairs_of[to].edges.col_idx));
      }
    }
    for (int to = 0; to < parts; ++to) {
      const Pair& pair = pairs_of[to];
      const VertexCover cover = messages_over(pair.edges.view(), std::ssize(pair.target_of));
      const std::size_t k = static_cast<std::size_t>(to) * parts + from;
      counts.sums[k] = std::ranges::count(cover.targets, 1);
      counts.messages[k] = std::ranges::count(cover.sources, 1) + counts.sums[k];
    }
  });
  return counts;
}

CoveredGraph::CoveredGraph(const LocalGraphView& graph, const Recomputation& recomputation)
    : graph_(graph),
      forward_(DirectionCover(graph, graph.forward, graph.backward, recomputation).matrix()) {
  if (graph.symmetric) return;
  backward_ = DirectionCover(graph, graph.backward, graph.forward, recomputation).matrix();
}

bool CoveredGraph::saves() const {
  const auto differ = [](const LocalMatrixView& rows, const LocalMatrix& cover) {
    return rows.halo.halo_rows() != std::ssize(cover.halo_ids) ||
           rows.halo.sent_rows() != std::ssize(cover.halo.send_rows);
  };
  return differ(graph_.forward, forward_) ||
         (!graph_.symmetric && differ(graph_.backward, backward_));
}

std::int64_t CoveredGraph::bytes() const {
  const auto of = [](const auto& values) {
    return std::ssize(values) * static_cast<std::int64_t>(sizeof(values[0]));
  };
  std::int64_t total = 0;
  for (const LocalMatrix* matrix : {&forward_, &backward_}) {
    total += matrix->csr.view().bytes() + matrix->sums.view().bytes() + of(matrix->split) +
             of(matrix->halo_ids) + of(matrix->sum_ids) + of(matrix->halo.send_rows);
  }
  return total;
}

LocalGraphView CoveredGraph::view() const {
  LocalGraphView view = graph_;
  view.forward = forward_.view();
  view.backward = graph_.symmetric ? view.forward : backward_.view();
  return view;
}

}  // namespace atl
