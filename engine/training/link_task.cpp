#include "engine/training/link_task.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace atl {

namespace {

constexpr std::int64_t kMostPairs = 1 << 30;  // of a piece: rows have 31 bits, and pairs two ends
// At a time of those that a decoder scores: each takes a row of every layer.
constexpr std::int64_t kMostDecoded = 1 << 16;

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

// The loss of a block of pairs, whose targets change from block to block.
class LinkTask::PairLoss final : public Loss {
 public:
  PairLoss(Backend& backend, double total) : Loss(backend, {}, total) {}

  // wanted: 1 for edges, 0 for negatives; listed: 0, 1, 2, ...
  void set_block(std::span<const std::uint8_t> wanted, std::span<const LocalId> listed,
                 std::span<double> sum) {
    targets_.kind = LabelKind::kSeveral;
    targets_.multi_labels = wanted;
    targets_.rows = listed;
    sum_ = sum;
  }
  void compute(const Rank& rank, const Round& /*round*/, ConstMatrixView scores,
               MatrixView gradient) override {
    queue_loss(rank, targets_, scores, 1 / total(), gradient, sum_);
  }

 private:
  LossTargets targets_;
  std::span<double> sum_;
};

LinkTask::LinkTask(const Rank& rank, const LinkShare& links, const LinkOptions& options,
                   std::int64_t inner, Metric metric, const ModelConfig& model,
                   ParameterStore& parameters)
    : Loss(rank.backend, {},
           static_cast<double>(links.sets[0].total) * static_cast<double>(1 + options.negatives)),
      rank_(rank),
      links_(links),
      options_(options),
      inner_(inner),
      metric_(metric),
      decodes_(model.decoder != Decoder::kDot),
      pieces_(pieces_of(links.sets[0].largest, edges_per_piece(1 + options.negatives))),
      fetch_(rank, links.homes, inner, model.outputs, model.dtype),
      scorer_(pair_program(model, Pass::kTraining), pair_program(model, Pass::kEvaluation),
              {.dtype = model.dtype}, rank, parameters, inner, most_pairs()),
      pair_loss_(std::make_unique<PairLoss>(rank.backend, total())),
      sums_(rank.backend, count_blocks()) {}

LinkTask::~LinkTask() = default;

void LinkTask::allocate() {
  scorer_.allocate();
  const std::int64_t most = most_pairs().training;
  pair_numbers_ = {rank_.backend, rank_.queue, first_numbers<LocalId>(most)};
  if (decodes_) {
    end_numbers_ = {rank_.backend, rank_.queue, first_numbers<std::int32_t>(2 * most)};
  }
}

std::int64_t LinkTask::edges_per_piece(std::int64_t pairs_each) const {
  const std::int64_t pairs = options_.batch * (1 + options_.negatives);
  return std::max<std::int64_t>(1, std::min(pairs, kMostPairs) / pairs_each);
}

RowRange LinkTask::piece(std::int64_t index, std::int64_t each, std::int64_t count) {
  return {std::min(index * each, count), std::min((index + 1) * each, count)};
}

std::int64_t LinkTask::pairs_at_a_time() const { return decodes_ ? kMostDecoded : kMostPairs; }

MostPairs LinkTask::most_pairs() const {
  // The pairs of `count` edges, in pieces.
  const auto of = [&](std::int64_t count, std::int64_t each) {
    return std::min(std::min(count, edges_per_piece(each)) * each, pairs_at_a_time());
  };
  MostPairs most{.training = of(links_.sets[0].edges.size(), 1 + options_.negatives)};
  for (const LinkSet& set : std::span(links_.sets).subspan(1)) {
    most.evaluation =
        std::max({most.evaluation, of(set.edges.size(), 1 + set.each), of(set.shared.size(), 1)});
  }
  return most;
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
  return pairs;
}

PairViews LinkTask::Pairs::views(RowRange range) const {
  const auto of = [&](const auto& array) {
    return array.span().empty() ? array.span() : array.span().subspan(range.begin, range.size());
  };
  return {.rows = rows, .first = of(device_first), .second = of(device_second), .ids = of(ids)};
}

std::vector<float> LinkTask::scores(std::span<const std::int32_t> rows,
                                    std::span<const std::int32_t> nodes, ConstMatrixView embeddings,
                                    int epoch) {
  const Pairs pairs = fetch(rows, nodes, embeddings, epoch);
  const Round round{.epoch = epoch, .training = false};
  std::vector<float> scores;
  for (std::int64_t b = 0; b < pieces_of(pairs.size(), pairs_at_a_time()); ++b) {
    const RowRange range = piece(b, pairs_at_a_time(), pairs.size());
    scorer_.run_pairs(pairs.views(range), round, nullptr);
    const std::vector<float> block = download_f32(rank_.backend, rank_.queue, scorer_.logits());
    scores.insert(scores.end(), block.begin(), block.end());
  }
  return scores;
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
      for (std::int64_t k = 0; decodes_ && k < each; ++k) {
        ids.push_back(GlobalId{set.number[i] * each + k});
      }
    }
    Pairs pairs = fetch(rows, others, embeddings, round.epoch);
    pairs.ids = {rank_.backend, rank_.queue, std::move(ids)};
    const ConstDeviceArray<std::uint8_t> wanted(rank_.backend, rank_.queue, std::move(targets));
    for (std::int64_t b = 0; b < pieces_of(pairs.size(), pairs_at_a_time()); ++b) {
      const RowRange range = piece(b, pairs_at_a_time(), pairs.size());
      const auto size = static_cast<std::size_t>(range.size());
      PairViews views = pairs.views(range);
      const Ends ends = list_ends(pairs, range, views);
      views.inner.gradient = gradient;
      views.inner.adds = p > 0 || b > 0;
      if (fetch_.fetched() > 0) views.fetched.gradient = fetch_.returned();
      views.fetched.adds = b > 0;
      pair_loss_->set_block(wanted.span().subspan(range.begin, size),
                            pair_numbers_.span().first(size), sums_.span().subspan(block++, 1));
      scorer_.run_pairs(views, round, pair_loss_.get());
    }
    fetch_.give_back(gradient, {"links", "backward", -1, round.epoch});
  }
  sums_.queue_copy(rank_.backend, rank_.queue);
}

double LinkTask::local_sum() const {
  const std::span<const double> sums = sums_.host();
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

LinkTask::Ends LinkTask::list_ends(const Pairs& pairs, RowRange range, PairViews& views) const {
  const std::int64_t all = inner_ + fetch_.fetched();
  const auto entries = static_cast<std::size_t>(2 * range.size());
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(all) + 1, 0);
  for (const auto* ends : {&pairs.first, &pairs.second}) {
    for (std::int64_t k = range.begin; k < range.end; ++k) ++row_ptr[to_index((*ends)[k]) + 1];
  }
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  std::vector<std::int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  std::vector<LocalId> pair_of(entries);
  std::vector<LocalId> other_end(decodes_ ? entries : 0);
  std::vector<std::int32_t> other_row(decodes_ ? 0 : entries);
  for (std::int64_t k = range.begin; k < range.end; ++k) {
    const LocalId one = pairs.first[k];
    const LocalId two = pairs.second[k];
    for (const auto& [row, other] : {std::pair(one, two), std::pair(two, one)}) {
      const auto at = static_cast<std::size_t>(next[to_index(row)]++);
      pair_of[at] = LocalId(k - range.begin);
      if (decodes_) {
        other_end[at] = other;
      } else {
        other_row[at] = to_index(other);
      }
    }
  }
  std::vector<std::int64_t> fetched_ptr(row_ptr.begin() + inner_, row_ptr.end());
  const std::int64_t inner_entries = row_ptr[static_cast<std::size_t>(inner_)];
  for (std::int64_t& at : fetched_ptr) at -= inner_entries;
  row_ptr.resize(static_cast<std::size_t>(inner_) + 1);

  const auto upload = [&](auto values) {
    return ConstDeviceArray(rank_.backend, rank_.queue, std::move(values));
  };
  Ends ends{upload(std::move(row_ptr)), upload(std::move(fetched_ptr)), upload(std::move(pair_of)),
            upload(std::move(other_end)), upload(std::move(other_row))};
  views.pair_of = ends.pair_of.span();
  views.other_end = ends.other_end.span();
  const std::span<const std::int32_t> columns =
      decodes_ ? end_numbers_.span().first(entries) : ends.other_row.span();
  const auto of_inner = static_cast<std::size_t>(inner_entries);
  views.inner.ends.rows = inner_;
  views.inner.ends.row_ptr = ends.inner_rows.span();
  views.inner.ends.col_idx = columns.first(of_inner);
  views.fetched.ends.rows = fetch_.fetched();
  views.fetched.ends.row_ptr = ends.fetched_rows.span();
  views.fetched.ends.col_idx = columns.subspan(of_inner);
  return ends;
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
    const std::vector<float> found =
        scores(part(set.shared.row), part(set.shared.node), embeddings, epoch);
    std::ranges::transform(found, std::back_inserter(mine), ranked_negative);
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
    const std::vector<float> found = scores(rows, others, embeddings, epoch);
    for (std::int64_t k = 0; k < std::ssize(found); k += pairs_each) {
      if (shared) {
        result.add_to_shared(found[k], negatives);
      } else {
        result.add(found[k], std::span(found).subspan(k + 1, set.each));
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
  constexpr std::int64_t kBytesOfPair = 32;  // ends, targets, and the matrix of the two
  const std::int64_t pairs =
      std::min(options_.batch, links_.sets[0].edges.size()) * (1 + options_.negatives);
  const std::int64_t fetched = std::min<std::int64_t>(pairs, std::ssize(links_.homes.row) - inner_);
  return pairs * kBytesOfPair + fetch_.bytes(fetched) + scorer_.value_bytes();
}

}  // namespace atl
