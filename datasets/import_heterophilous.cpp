// heterophilous-graphs sets (Platonov et al., ICLR'23): one .npz with node_features, node_labels,
// edges (each undirected edge once) and train/val/test masks of ten splits.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace {

void stream_pairs(const NpzArchive& archive, std::int64_t nodes, const EdgeSink& sink) {
  constexpr std::int64_t kPairs = 1 << 15;
  ArrayReader edges = archive.open("edges");
  edges.require_shape({-1, 2});
  std::vector<std::int64_t> pairs;
  EdgeBlock block(sink);
  Activity activity("reading edges", edges.length(0));
  for (std::int64_t at = 0; at < edges.length(0); at += kPairs) {
    activity.advance_to(at);
    pairs.resize(static_cast<std::size_t>(2 * std::min(kPairs, edges.length(0) - at)));
    edges.read(pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      check_node_id(pairs[i], nodes, edges.place(), 2 * at + static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < pairs.size(); i += 2) block.add(pairs[i], pairs[i + 1]);
  }
  block.flush();
  edges.finish();
}

void read_masks(ImportSession& session, const NpzArchive& archive) {
  constexpr std::array<const char*, 3> kMasks = {"train_masks", "val_masks", "test_masks"};
  std::vector<std::uint8_t> splits;
  std::vector<std::int64_t> row(static_cast<std::size_t>(session.nodes()));
  std::int64_t count = -1;
  for (std::uint8_t part = 0; part < 3; ++part) {
    ArrayReader mask = archive.open(kMasks[part]);
    mask.require_shape({count, session.nodes()});
    count = mask.length(0);
    splits.resize(static_cast<std::size_t>(count * session.nodes()), 255);
    for (std::int64_t k = 0; k < count; ++k) {
      mask.read(row);
      std::uint8_t* const split = splits.data() + k * session.nodes();
      for (std::int64_t i = 0; i < session.nodes(); ++i) {
        if (row[i] == 0) continue;
        if (row[i] != 1) {
          fail_input("{}: split {}: node {} is {}; allowed are 0 and 1, or booleans", mask.place(),
                     k, i, row[i]);
        }
        if (split[i] != 255) {
          fail_input("{}: split {}: node {} is in two parts", mask.place(), k, i);
        }
        split[i] = part;
      }
    }
    mask.finish();
  }
  if (count > 0) session.splits(splits, count);
}

}  // namespace

void import_heterophilous(ImportSession& session) {
  const NpzArchive archive(session.source(), session.scratch());
  const std::int64_t nodes = archive.open("node_labels").length(0);
  session.graph([&](const EdgeSink& sink) { stream_pairs(archive, nodes, sink); }, nodes, {},
                archive.path().string());
  session.features(archive.open("node_features"));
  session.labels(archive.open("node_labels"));
  // The authors report ROC-AUC wherever there are two classes.
  if (session.classes() == 2) session.set_task(Task::kBinary);
  read_masks(session, archive);
}

}  // namespace atl
