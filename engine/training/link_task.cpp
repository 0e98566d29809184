#include "engine/training/link_task.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace atl {

namespace {

constexpr std::int64_t kMostPairs = 1 << 30;  // of a piece: rows have 31 bits, and pairs two ends

std::int64_t pieces_of(std::int64_t count, std::int64_t each) {
  return std::max<std::int64_t>(1, (count + each - 1) / each);
}

// Every rank gets the numbers of all ranks, in their order.
std::vector<float> gather_everywhere(Transport& transport, const std::vector<float>& mine,
                                     const OperationLabel& label) {
  const auto parts = transport.gather(std::as_bytes(std::span(mine)), 0, label);
  std::int64_t count = 0;
  for (const std::vector<std::byte>& part : parts) count += std::ssize(part);
  transport.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0, label);
  std::vector<float> all(static_cast<std::size_t>(count) / sizeof(float));
  auto* to = reinterpret_cast<std::byte*>(all.data());
  for (const std::vector<std::byte>& part : parts) to = std::ranges::copy(part, to).out;
  transport.broadcast(std::as_writable_bytes(std::span(all)), 0, label);
  return all;
}

}  // namespace

LinkTask::LinkTask(const Rank& rank, const LinkShare& links, const LinkOptions& options,
                   std::int64_t inner, Metric metric, std::int64_t columns, DType dtype,
                   std::unique_ptr<PairDecoder> decoder)
    : Loss(rank.backend, {},
           static_cast<double>(links.sets[0].total) * static_cast<double>(1 + options.negatives)),
      rank_(rank),
      links_(links),
      options_(options),
      inner_(inner),
      metric_(metric),
      columns_(columns),
      dtype_(dtype),
      decoder_(std::move(decoder)),
      pieces_(pieces_of(links.sets[0].largest, edges_per_piece(1 + options.negatives))),
      fetch_(rank, links.homes, inner, columns, dtype),
      sums_(rank.backend, count_blocks()) {}

std::int64_t LinkTask::edges_per_piece(std::int64_t pairs_each) const {
  const std::int64_t pairs = options_.batch * (1 + options_.negatives);
  return std::max<std::int64_t>(1, std::min(pairs, kMostPairs) / pairs_each);
}

RowRange LinkTask::piece(std::int64_t index, std::int64_t each, std::int64_t count) {
  return {std::min(index * each, count), std::min((index + 1) * each, count)};
}

std::int64_t LinkTask::pairs_at_a_time() const {
  return decoder_ ? PairDecoder::kMostPairs : kMostPairs;
}

std::int64_t LinkTask::count_blocks() const {
  const std::int64_t each = 1 + options_.negatives;
  std::int64_t count = 0;
  for (std::int64_t p = 0; p < pieces_; ++p) {
    const RowRange edges = piece(p, edges_per_piece(each), links_.sets[0].edges.size());
    count += pieces_of(edges.size() * each, pairs_at_a_time());
  }
  return count;
}

LinkTask::Pairs LinkTask::fetch(std::span<const std::int32_t> rows,
                                std::span<const std::int32_t> nodes, ConstMatrixView embeddings,
                                int epoch) {
  const OperationLabel label{"links", "forward", -1, epoch};
  fetch_.clear();
  for (const std::int32_t node : nodes) fetch_.want(node);
  fetch_.connect(label);
  Pairs pairs;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    pairs.first.push_back(LocalId{rows[k]});
    pairs.second.push_back(LocalId{fetch_.row_of(nodes[k])});
  }
  pairs.rows = fetch_.fetch(embeddings, label);
  pairs.device_first = {rank_.backend, rank_.queue, std::span<const LocalId>(pairs.first)};
  pairs.device_second = {rank_.backend, rank_.queue, std::span<const LocalId>(pairs.second)};
  pairs.scores = DeviceArray<float>(rank_.backend, pairs.size());
  return pairs;
}

void LinkTask::score(Pairs& pairs, RowRange range, int epoch) {
  const auto of = [&](const auto& array) {
    return array.span().empty() ? array.span() : array.span().subspan(range.begin, range.size());
  };
  const std::span<const LocalId> first = of(pairs.device_first);
  const std::span<const LocalId> second = of(pairs.device_second);
  const MatrixView scores = pairs.column(pairs.scores, range);
  if (decoder_) return decoder_->score(pairs.rows, first, second, of(pairs.ids), epoch, scores);
  rank_.backend.run(rank_.queue, kernels::PairDots{pairs.rows, first, second, scores});
}

LinkTask::Pairs LinkTask::scored(std::span<const std::int32_t> rows,
                                 std::span<const std::int32_t> nodes, ConstMatrixView embeddings,
                                 int epoch) {
  Pairs pairs = fetch(rows, nodes, embeddings, epoch);
  for (std::int64_t b = 0; b < pieces_of(pairs.size(), pairs_at_a_time()); ++b) {
    score(pairs, piece(b, pairs_at_a_time(), pairs.size()), epoch);
  }
  return pairs;
}

void LinkTask::compute(const Rank& /*rank*/, const Round& round, ConstMatrixView embeddings,
                       MatrixView gradient) {
  const LinkSet& set = links_.sets[0];
  const std::int64_t each = 1 + options_.negatives;
  const RandomKey key{rank_.seed, RandomStream::kLinkNegatives, 0,
                      static_cast<std::uint32_t>(round.epoch)};
  const std::int64_t nodes = std::ssize(links_.homes.row);
  std::size_t block = 0;
  for (std::int64_t p = 0; p < pieces_; ++p) {
    const RowRange edges = piece(p, edges_per_piece(each), set.edges.size());
    std::vector<std::int32_t> rows, others;
    std::vector<std::uint8_t> targets;
    std::vector<GlobalId> ids;
    for (std::int64_t i = edges.begin; i < edges.end; ++i) {
      rows.insert(rows.end(), static_cast<std::size_t>(each), set.edges.row[i]);
      others.push_back(set.edges.node[i]);
      targets.push_back(1);
      for (std::uint32_t k = 0; k + 1 < each; ++k) {
        const auto number = static_cast<std::uint64_t>(set.number[i]);
        others.push_back(static_cast<std::int32_t>(random_node(key, number, k, nodes)));
        targets.push_back(0);
      }
      for (std::int64_t k = 0; decoder_ && k < each; ++k) {
        ids.push_back(GlobalId{set.number[i] * each + k});
      }
    }
    Pairs pairs = fetch(rows, others, embeddings, round.epoch);
    pairs.ids = {rank_.backend, rank_.queue, std::move(ids)};
    const std::int64_t at_a_time = std::min(pairs_at_a_time(), pairs.size());
    std::vector<LocalId> all(static_cast<std::size_t>(at_a_time));
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = LocalId(k);
    const ConstDeviceArray<LocalId> listed(rank_.backend, rank_.queue, std::move(all));
    const ConstDeviceArray<std::uint8_t> wanted(rank_.backend, rank_.queue, std::move(targets));
    DeviceArray<float> d(rank_.backend, at_a_time);
    for (std::int64_t b = 0; b < pieces_of(pairs.size(), pairs_at_a_time()); ++b) {
      const RowRange range = piece(b, pairs_at_a_time(), pairs.size());
      const auto size = static_cast<std::size_t>(range.size());
      score(pairs, range, round.epoch);
      rank_.backend.run(rank_.queue,
                        kernels::SigmoidCrossEntropy{pairs.column(pairs.scores, range),
                                                     wanted.span().subspan(range.begin, size),
                                                     listed.span().first(size), 1 / total(),
                                                     pairs.column(d, {0, range.size()}),
                                                     sums_.span().subspan(block++, 1)});
      add_gradient(pairs, range, d, p == 0 && b == 0, b == 0, gradient);
    }
    fetch_.give_back(gradient, {"links", "backward", -1, round.epoch});
  }
  sums_.queue_copy(rank_.backend, rank_.queue);
}

double LinkTask::local_sum() const {
  const std::span<const double> sums = sums_.host();
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The gradient of a row is the sum over its pairs of d times the other row, or, of a decoder, of
// the gradient of their product times the other row: a sparse matrix, of which this rank's rows and
// those to be returned are taken one after the other.
void LinkTask::add_gradient(const Pairs& pairs, RowRange range, DeviceArray<float>& d, bool first,
                            bool first_here, MatrixView gradient) {
  const std::int64_t all = inner_ + fetch_.fetched();
  const std::int64_t entries = 2 * range.size();
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(all) + 1, 0);
  for (const auto* ends : {&pairs.first, &pairs.second}) {
    for (std::int64_t k = range.begin; k < range.end; ++k) ++row_ptr[to_index((*ends)[k]) + 1];
  }
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  std::vector<std::int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  std::vector<LocalId> other_end(static_cast<std::size_t>(entries));
  std::vector<LocalId> pair_of(static_cast<std::size_t>(entries));
  for (std::int64_t k = range.begin; k < range.end; ++k) {
    const LocalId one = pairs.first[k];
    const LocalId two = pairs.second[k];
    for (const auto& [row, other] : {std::pair(one, two), std::pair(two, one)}) {
      const auto at = static_cast<std::size_t>(next[to_index(row)]++);
      other_end[at] = other;
      pair_of[at] = LocalId(k - range.begin);
    }
  }
  // Rows returned begin at 0 again.
  std::vector<std::int64_t> returned_ptr(row_ptr.begin() + inner_, row_ptr.end());
  const std::int64_t inner_entries = row_ptr[static_cast<std::size_t>(inner_)];
  for (std::int64_t& at : returned_ptr) at -= inner_entries;
  row_ptr.resize(static_cast<std::size_t>(inner_) + 1);
  // A decoder's entries are rows of their own.
  std::vector<std::int32_t> col_idx(static_cast<std::size_t>(entries));
  for (std::size_t at = 0; at < col_idx.size(); ++at) {
    col_idx[at] = decoder_ ? static_cast<std::int32_t>(at) : to_index(other_end[at]);
  }

  const ConstDeviceArray<std::int64_t> inner_rows(rank_.backend, rank_.queue, std::move(row_ptr));
  const ConstDeviceArray<std::int64_t> returned_rows(rank_.backend, rank_.queue,
                                                     std::move(returned_ptr));
  const ConstDeviceArray<std::int32_t> columns(rank_.backend, rank_.queue, std::move(col_idx));
  const ConstDeviceArray<LocalId> order(rank_.backend, rank_.queue, std::move(pair_of));
  const MatrixView scores = pairs.column(d, {0, range.size()});
  ConstMatrixView rows = pairs.rows;
  DeviceArray<float> values;
  if (decoder_) {
    const ConstDeviceArray<LocalId> others(rank_.backend, rank_.queue, std::move(other_end));
    if (contributions_.rows() < entries) {
      contributions_ = Tensor(rank_.backend, entries, columns_, dtype_);
    }
    const MatrixView products = contributions_.view().rows_in({0, entries});
    rank_.backend.run(rank_.queue, kernels::PairProducts{decoder_->backward(scores), order.span(),
                                                         pairs.rows, others.span(), products});
    rows = products;
  } else {
    values = DeviceArray<float>(rank_.backend, entries);
    rank_.backend.run(
        rank_.queue,
        kernels::GatherRows{
            scores, order.span(), {}, {values.span().data(), entries, 1, 1, DType::kF32}});
  }

  const auto add_rows = [&](std::int64_t count, const ConstDeviceArray<std::int64_t>& ends,
                            RowRange edges, bool writes, MatrixView to) {
    SparseOperator op;
    op.rows = count;
    op.cols = rows.rows;
    op.row_ptr = ends.span();
    op.col_idx = columns.span().subspan(edges.begin, edges.size());
    if (!decoder_) op.values = values.span().subspan(edges.begin, edges.size());
    rank_.backend.run(rank_.queue, kernels::Spmm{op, {0, count}, rows, writes ? 0.0 : 1.0, to});
  };
  add_rows(inner_, inner_rows, {0, inner_entries}, first, gradient);
  if (fetch_.fetched() > 0) {
    add_rows(fetch_.fetched(), returned_rows, {inner_entries, entries}, first_here,
             fetch_.returned());
  }
}

std::vector<float> LinkTask::shared_scores(const LinkSet& set, ConstMatrixView embeddings,
                                           int epoch) {
  const std::int64_t each = edges_per_piece(1);
  std::vector<float> mine;
  for (std::int64_t p = 0; p < pieces_of(set.largest_shared, each); ++p) {
    const RowRange range = piece(p, each, set.shared.size());
    const auto part = [&](const std::vector<std::int32_t>& values) {
      return std::span(values).subspan(range.begin, range.size());
    };
    const Pairs pairs = scored(part(set.shared.row), part(set.shared.node), embeddings, epoch);
    for (const float value : pairs.scores.download(rank_.backend, rank_.queue)) {
      mine.push_back(ranked_negative(value));
    }
  }
  std::vector<float> all = gather_everywhere(rank_.transport, mine, {"links", "", -1, epoch});
  std::ranges::sort(all);
  return all;
}

LinkScores LinkTask::rank_set(const LinkSet& set, ConstMatrixView embeddings, int epoch) {
  const bool shared = set.each == 0;
  std::vector<float> negatives;
  if (shared) negatives = shared_scores(set, embeddings, epoch);
  const std::int64_t pairs_each = 1 + set.each;
  const std::int64_t each = edges_per_piece(pairs_each);
  LinkScores result{metrics_};
  for (std::int64_t p = 0; p < pieces_of(set.largest, each); ++p) {
    const RowRange edges = piece(p, each, set.edges.size());
    std::vector<std::int32_t> rows, others;
    for (std::int64_t i = edges.begin; i < edges.end; ++i) {
      rows.insert(rows.end(), static_cast<std::size_t>(pairs_each), set.edges.row[i]);
      others.push_back(set.edges.node[i]);
      const auto own = std::span(set.others).subspan(i * set.each, set.each);
      others.insert(others.end(), own.begin(), own.end());
    }
    const Pairs pairs = scored(rows, others, embeddings, epoch);
    const std::vector<float> scores = pairs.scores.download(rank_.backend, rank_.queue);
    for (std::int64_t k = 0; k < pairs.size(); k += pairs_each) {
      if (shared) {
        result.add_to_shared(scores[k], negatives);
      } else {
        result.add(scores[k], std::span(scores).subspan(k + 1, set.each));
      }
    }
  }
  std::vector<double> sums(result.sums.begin(), result.sums.end());
  sums.push_back(result.edges);
  rank_.transport.all_reduce(std::span(sums), {"links", "", -1, epoch});
  std::copy_n(sums.begin(), result.sums.size(), result.sums.begin());
  result.edges = sums.back();
  return result;
}

Metrics LinkTask::evaluate(int epoch, ConstMatrixView embeddings) {
  rank_.reducer.synchronize();
  Metrics metrics;
  const LinkScores valid = rank_set(links_.sets[1], embeddings, epoch);
  const LinkScores test = rank_set(links_.sets[2], embeddings, epoch);
  for (const Metric metric : metrics_) {
    metrics.all.push_back({metric, {kUnknownMetric, valid.mean(metric), test.mean(metric)}});
  }
  metrics.valid = valid.mean(metric_);
  metrics.test = test.mean(metric_);
  return metrics;
}

std::int64_t LinkTask::bytes() const {
  constexpr std::int64_t kBytesOfPair = 48;  // ends, scores, gradients, and the matrix of the two
  const std::int64_t pairs =
      std::min(options_.batch, links_.sets[0].edges.size()) * (1 + options_.negatives);
  const std::int64_t fetched = std::min<std::int64_t>(pairs, std::ssize(links_.homes.row) - inner_);
  std::int64_t bytes = pairs * kBytesOfPair + fetch_.bytes(fetched);
  if (decoder_) {
    const std::int64_t entries = 2 * std::min(pairs, PairDecoder::kMostPairs);
    bytes += decoder_->bytes(pairs) + entries * padded_columns(columns_) * bytes_of(dtype_);
  }
  return bytes;
}

}  // namespace atl
