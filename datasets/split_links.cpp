#include "datasets/split_links.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;  // source, target

class LinkSplitter {
 public:
  LinkSplitter(const Dataset& dataset, const LinkSplit& split, DatasetWriter& writer)
      : dataset_(dataset), graph_(dataset.graph()), split_(split), writer_(writer) {}

  void run() {
    collect_pairs();
    draw_sets();
    write_graph();
    write_nodes();
    writer_.write_links(sets_);
    for (std::size_t s = 0; s < 2 && split_.negatives > 0; ++s) write_negatives(s);
    DatasetInfo& info = writer_.info();
    const DatasetInfo& from = dataset_.info();
    info.name = from.name;
    info.directed = from.directed;
    info.edges_source = from.edges_source;
    info.provenance = {{"links_of", from.checksum}, {"valid", split_.valid},
                       {"test", split_.test},       {"negatives", split_.negatives},
                       {"seed", split_.seed},       {"source", from.provenance}};
    writer_.commit();
  }

 private:
  Pair pair_of(std::int32_t source, std::int32_t target) const {
    if (graph_.symmetric && source > target) return {target, source};
    return {source, target};
  }

  // All edges but self-loops, each once, ascending.
  void collect_pairs() {
    const CsrView& csr = graph_.in_edges;
    for (std::int64_t i = 0; i < csr.rows(); ++i) {
      const auto target = static_cast<std::int32_t>(i);
      for (const std::int32_t source : csr.row(i)) {
        if (source < target || (source > target && !graph_.symmetric)) {
          pairs_.push_back(pair_of(source, target));
        }
      }
    }
    std::ranges::sort(pairs_);
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  bool is_edge(std::int32_t source, std::int32_t target) const {
    return std::ranges::binary_search(pairs_, pair_of(source, target));
  }

  std::int64_t share_of(const char* option, double share) const {
    const auto count = std::llround(share * static_cast<double>(pairs_.size()));
    if (count > 0) return count;
    fail_option("{} {}: no edge of {}; it has {}", option, share, dataset_.folder().string(),
                pairs_.size());
  }

  // Edges in an order of 64 random bits each: the first are held out for validation, the next for
  // tests. Sets are in the order of the pairs.
  void draw_sets() {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t k = 0; k < pairs_.size(); ++k) {
      const PhiloxBlock bits = random_block({split_.seed, RandomStream::kSplit, 1}, k, 0);
      order.emplace_back(std::uint64_t{bits[0]} << 32U | bits[1], k);
    }
    std::ranges::sort(order);
    const std::int64_t valid = share_of("--valid", split_.valid);
    const std::int64_t held_out = valid + share_of("--test", split_.test);
    if (held_out >= static_cast<std::int64_t>(pairs_.size())) {
      fail_option("--valid {}, --test {}: no edge of {} is left to train on", split_.valid,
                  split_.test, dataset_.folder().string());
    }
    set_of_.assign(pairs_.size(), 0);
    for (std::int64_t k = 0; k < held_out; ++k) {
      set_of_[order[static_cast<std::size_t>(k)].second] = k < valid ? 1 : 2;
    }
    for (std::size_t k = 0; k < pairs_.size(); ++k) {
      auto [source, target] = pairs_[k];
      const PhiloxBlock bits = random_block({split_.seed, RandomStream::kSplit, 1}, k, 0);
      if (graph_.symmetric && (bits[2] & 1U) != 0) std::swap(source, target);
      sets_[set_of_[k]].insert(sets_[set_of_[k]].end(), {source, target});
    }
  }

  bool is_kept(std::int32_t source, std::int32_t target) const {
    if (source == target) return true;
    const auto found = std::ranges::lower_bound(pairs_, pair_of(source, target));
    return set_of_[static_cast<std::size_t>(found - pairs_.begin())] == 0;
  }

  void write_graph() {
    const CsrView& csr = graph_.in_edges;
    Csr kept;
    std::vector<std::int64_t> entries;
    for (std::int64_t i = 0; i < csr.rows(); ++i) {
      for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) {
        if (!is_kept(csr.col_idx[e], static_cast<std::int32_t>(i))) continue;
        entries.push_back(e);
        kept.col_idx.push_back(csr.col_idx[e]);
        if (!csr.values.empty()) kept.values.push_back(csr.values[e]);
      }
      kept.row_ptr.push_back(static_cast<std::int64_t>(entries.size()));
    }
    writer_.write_graph(kept);
    writer_.write_edge_values(graph_, entries, dataset_.info().relations);
  }

  void write_nodes() {
    const DatasetInfo& info = dataset_.info();
    if (info.features > 0) {
      const auto rows = writer_.write_features(info.features);
      rows->write(dataset_.features());
      rows->close();
    }
    if (info.node_types > 0) writer_.write_node_types(graph_.node_types, info.node_types);
    writer_.info().features_by_type = info.features_by_type;
    if (const std::vector<std::string> ids = dataset_.node_ids(); !ids.empty()) {
      writer_.write_node_ids(info.nodes, [&](std::int64_t i) { return ids[i]; });
    }
  }

  // Columns of row k are drawn one after the other, those that are edges passed over.
  void write_negatives(std::size_t set) {
    const std::vector<std::int64_t>& edges = sets_[set + 1];
    const std::vector<std::int32_t> degrees = degrees_of_sources();
    const RandomKey key{split_.seed, RandomStream::kSplit, static_cast<std::uint8_t>(2 + set)};
    std::vector<std::int64_t> negatives;
    negatives.reserve(edges.size() / 2 * static_cast<std::size_t>(split_.negatives));
    for (std::size_t k = 0; k < edges.size() / 2; ++k) {
      const auto source = static_cast<std::int32_t>(edges[2 * k]);
      if (degrees[static_cast<std::size_t>(source)] == dataset_.info().nodes - 1) {
        fail_input(
            "{}: node {} is joined to all others, so edge {} - {} has no negatives; "
            "--negatives 0 writes none",
            dataset_.folder().string(), source, source, edges[2 * k + 1]);
      }
      std::int64_t found = 0;
      for (std::uint32_t column = 0; found < split_.negatives; ++column) {
        const auto target =
            static_cast<std::int32_t>(random_node(key, k, column, dataset_.info().nodes));
        if (target == source || is_edge(source, target)) continue;
        negatives.push_back(target);
        ++found;
      }
    }
    writer_.write_link_negatives(kLinkNegativeFiles[set], negatives, split_.negatives);
  }

  // How many nodes each one has edges to.
  std::vector<std::int32_t> degrees_of_sources() const {
    std::vector<std::int32_t> degrees(static_cast<std::size_t>(dataset_.info().nodes), 0);
    for (const auto& [source, target] : pairs_) {
      ++degrees[static_cast<std::size_t>(source)];
      if (graph_.symmetric) ++degrees[static_cast<std::size_t>(target)];
    }
    return degrees;
  }

  const Dataset& dataset_;
  GraphView graph_;
  const LinkSplit& split_;
  DatasetWriter& writer_;
  std::vector<Pair> pairs_;
  std::vector<std::uint8_t> set_of_;  // by pair
  std::array<std::vector<std::int64_t>, 3> sets_;
};

}  // namespace

Dataset split_links(const std::filesystem::path& folder, const LinkSplit& split,
                    const std::filesystem::path& out) {
  const Dataset dataset = Dataset::open(folder);
  if (dataset.links().there()) {
    fail_input("{}: it has links already; split the dataset that they are from", folder.string());
  }
  // Two columns are pairs that all edges share: see LinkNegatives.
  if (split.negatives == 2) fail_option("--negatives 2: allowed are 0, 1 and 3 or more");
  dataset.validate();
  DatasetWriter writer(out);
  LinkSplitter(dataset, split, writer).run();
  return Dataset::open(out);
}

}  // namespace atl
