#include "launch/memory_table.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/training/group_ranks.hpp"
#include "launch/planned_graph.hpp"

namespace atl {

namespace {

// Longer tables show the rank that takes most alone.
constexpr std::size_t kMostLines = 16;

// Where nothing is known of the cut.
RankCounts most_rows(const DatasetInfo& info, const RankMap& map, int rank, bool covers) {
  const auto share = [&](std::int64_t whole) { return (whole + map.parts() - 1) / map.parts(); };
  RankCounts counts;
  RankRows& rows = counts.shape.rows;
  rows.inner = share(info.nodes);
  rows.edges = share(info.edges);
  // Each in-edge may need a row of its own, but no row twice.
  const std::int64_t halo = std::min(rows.edges, info.nodes - rows.inner);
  rows.forward_halo = rows.backward_halo = rows.returned = halo;
  if (covers && map.parts() > 1) {
    // It may also send a sum to each node that it gets a row of.
    counts.covered = true;
    rows.forward_sums = rows.backward_sums = halo;
    rows.forward_halo = rows.backward_halo = 2 * halo;
  }
  counts.sent_forward.rows = counts.sent_backward.rows = halo;
  counts.sent_rest.rows = counts.returned.rows = halo;
  if (map.ranks_per_part() == 1) return counts;
  counts.role = map.role_of(rank);
  counts.shape.divide(map.share(rank, {0, rows.inner}).size(), 0);
  return counts;
}

RankMemory memory_of(const TrainingPrograms& programs, const RankCounts& counts,
                     const DatasetInfo& info, const TrainOptions& options) {
  const RankRows& rows = counts.shape.rows;
  return {.nodes = rows.inner,
          .halo = std::max(rows.arriving(Direction::kForward), rows.arriving(Direction::kBackward)),
          .data = data_memory({.nodes = rows.of_part(),
                               .own = rows.inner,
                               .edges = rows.edges,
                               .features = info.features,
                               .weighted = info.weighted,
                               .symmetric = !info.directed,
                               .covered = counts.covered,
                               .dtype = options.model.dtype}),
          .training = training_memory(programs, counts, "cpu", options.exchange_options())};
}

// Which of so many ranks hold which part.
RankMap groups_of(const GroupRanks& wish, int ranks) {
  if (wish.by == GroupRanks::By::kHost || wish.by == GroupRanks::By::kAuto) {
    fail_option("--group-ranks {}: nothing is known of {} here; allowed are whole numbers and all",
                to_string(wish), wish.by == GroupRanks::By::kHost ? "hosts" : "a machine's rates");
  }
  return rank_map(wish, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 0));
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

}  // namespace

MemoryEstimate estimate_memory(const Dataset& dataset, const TrainJob& job, int ranks) {
  const DatasetInfo& info = dataset.info();
  const RankMap map = groups_of(job.options.ranks_of_part(), ranks);
  const int each = map.ranks_per_part();
  ModelConfig model = model_for(info, job.options.model, ranks);
  MemoryEstimate estimate{
      .model = model_name(model),
      .dtype = to_string(model.dtype),
      .exchange = job.options.exchange,
      .ranks_per_part = each,
      .is_cut = map.parts() == 1 || has_partition(dataset, map.parts(), job.partition),
      .ranks = std::vector<RankMemory>(static_cast<std::size_t>(ranks))};
  std::optional<PartitionQuality> quality;
  if (map.parts() > 1 && estimate.is_cut) {
    const Partition found = ensure_partition(dataset, map.parts(), job.partition);
    quality = parse_quality(found.quality, found.folder / "quality.json");
  }
  for (int role = 0; role < each; ++role) {
    model.column_share = {role, each};
    const TrainingPrograms programs(model);
    for (int part = 0; part < map.parts(); ++part) {
      const int rank = map.rank_of(part, role);
      const RankCounts counts =
          quality ? rank_counts(*quality, rank, programs.covers, &model.recomputation, each)
                  : most_rows(info, map, rank, programs.covers);
      estimate.ranks[static_cast<std::size_t>(rank)] =
          memory_of(programs, counts, info, job.options);
    }
  }
  if (ranks == 1) estimate.ranks[0].reading = 2 * estimate.ranks[0].data.total();
  return estimate;
}

Json to_json(const MemoryEstimate& estimate) {
  Json ranks = Json::array();
  for (const RankMemory& rank : estimate.ranks) {
    ranks.push_back({{"nodes", rank.nodes},
                     {"halo", rank.halo},
                     {"graph_bytes", rank.data.graph},
                     {"features_bytes", rank.data.features},
                     {"values_bytes", rank.training.values},
                     {"parameters_bytes", rank.training.parameters},
                     {"messages_bytes", rank.training.messages},
                     {"reading_bytes", rank.reading},
                     {"total_bytes", rank.total()}});
  }
  return {{"model", estimate.model},
          {"dtype", estimate.dtype},
          {"exchange", estimate.exchange},
          {"ranks_per_part", estimate.ranks_per_part},
          {"cut", estimate.is_cut},
          {"program_bytes", resident_bytes()},
          {"ranks", ranks}};
}

std::string to_text(const MemoryEstimate& estimate) {
  const std::vector<RankMemory>& ranks = estimate.ranks;
  std::string text = fmt::format(
      "\nmemory of training {} in {} on {} rank{}{}{}, in MB of each\n\n"
      "  {:>5}{:>12}{:>12}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}\n",
      estimate.model, estimate.dtype, ranks.size(), ranks.size() == 1 ? "" : "s",
      estimate.ranks_per_part == 1 ? ""
                                   : fmt::format(", {} for each part", estimate.ranks_per_part),
      estimate.is_cut ? "" : " without a cut, at most", "rank", "nodes", "halo rows", "graph",
      "features", "values", "parameters", "messages", "reading", "total");
  const auto largest = std::ranges::max_element(ranks, {}, &RankMemory::total);
  const bool is_long = ranks.size() > kMostLines || !estimate.is_cut;
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
    if (is_long && rank != largest) continue;
    const std::string name = !estimate.is_cut ? "each" : fmt::format("{}", rank - ranks.begin());
    text += fmt::format("  {:>5}{:>12}{:>12}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}\n", name,
                        rank->nodes, rank->halo, megabytes(rank->data.graph),
                        megabytes(rank->data.features), megabytes(rank->training.values),
                        megabytes(rank->training.parameters), megabytes(rank->training.messages),
                        megabytes(rank->reading), megabytes(rank->total()));
  }
  if (is_long && estimate.is_cut) text += "  (the rank that takes most)\n";
  text += fmt::format(
      "\n  halo rows   rows of other ranks' nodes that this rank keeps a copy of\n"
      "  values      what the layers compute, kept until backward has read it\n"
      "  parameters  with gradients and the optimizer's moments\n"
      "  messages    rows on their way to other ranks, or kept for later epochs (--exchange {})\n"
      "  reading     files of the dataset and a copy, while a single rank reads them\n"
      "  The program itself takes some {} MB of host memory more, and under MPI 20 MB.\n",
      estimate.exchange, megabytes(resident_bytes()));
  if (!estimate.is_cut) {
    text += fmt::format(
        "  A cut usually needs far fewer halo rows: after atoll partition --parts {} these are "
        "the\n"
        "  real ones.\n",
        static_cast<int>(ranks.size()) / estimate.ranks_per_part);
  }
  return text;
}

}  // namespace atl
