// Small datasets and short runs of them that several tests compare.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"
#include "datasets/generate.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"
#include "engine/training/training_run.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {

inline std::filesystem::path make_sbm(const TempDir& dir, bool directed, int nodes = 600,
                                      double degree = 10) {
  spdlog::set_level(spdlog::level::warn);
  GenerateOptions options;
  options.out =
      dir.path() / fmt::format("{}-{}-{}", directed ? "directed" : "undirected", nodes, degree);
  options.nodes = nodes;
  options.degree = degree;
  options.classes = 4;
  options.features = 12;
  options.directed = directed;
  options.seed = 3;
  generate_dataset("sbm", options);
  return options.out;
}

// Edges and nodes with types.
inline std::filesystem::path make_relational(const TempDir& dir, int relations = 4) {
  GenerateOptions options;
  options.out = dir.path() / fmt::format("relational-{}", relations);
  options.nodes = 600;
  options.classes = relations;
  options.features = 13;
  options.relations = relations;
  options.seed = 3;
  generate_dataset("relational", options);
  return options.out;
}

inline TrainOptions small_options() {
  TrainOptions options;
  options.model.hidden = 16;
  options.model.norm = Norm::kBatch;
  options.backend = "cpu";
  options.threads = 1;
  options.optimizer.epochs = 6;
  return options;
}

// As an earlier run would have measured two ranks with a slow link from rank 1 to rank 0.
inline Json slow_calibration(int layers) {
  Json exchange = {{"ranks", 2}, {"links", Json::array()}, {"channels", Json::array()}};
  for (const int from : {0, 1}) {
    exchange["links"].push_back({{"from", from},
                                 {"to", 1 - from},
                                 {"theta_s_per_byte", from == 0 ? 1e-8 : 1e-6},
                                 {"gamma_s", 1e-4}});
  }
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* direction : {"forward", "backward"}) {
      exchange["channels"].push_back({{"layer", layer},
                                      {"direction", direction},
                                      {"central_s", 1e-3},
                                      {"slowdown_s", 1e-4},
                                      {"quantize_s", 1e-4}});
    }
  }
  return {{"exchange", exchange}};
}

// The same with so many ranks for each part.
inline TrainOptions grouped(TrainOptions options, int ranks) {
  options.group_ranks = {.number = ranks};
  return options;
}

// As `atoll train` with these options, on ranks that are threads.
inline void train_in_folder(int ranks, const std::filesystem::path& dataset,
                            const TrainOptions& options, const PartitionOptions& cut = {}) {
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    TrainOptions own = options;
    const auto folder = open_run_folder(transport, own);
    RankJob job(transport, dataset, cut, own);
    train(own, {{}, "commit", dataset.string()}, job, transport, *folder);
  });
}

// The lines of its metrics.jsonl.
inline std::vector<Json> metrics_of(const std::filesystem::path& run) {
  std::vector<Json> lines;
  std::istringstream text(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Runs of a small graph in folders of their own, which stop and go on.
class RunsInFolders : public ::testing::Test {
 protected:
  void run(const std::string& name, int epochs, bool resume, TrainOptions options,
           int ranks = 2) const {
    options.checkpoint_every = 1;
    options.optimizer.epochs = epochs;
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir_.path() / name;
    train_in_folder(ranks, dataset_, options);
  }
  // A field of metrics.jsonl by epoch, null where it has none.
  std::vector<Json> lines(const std::string& name, const char* field) const {
    std::vector<Json> result;
    for (const Json& line : metrics_of(dir_.path() / name)) {
      result.push_back(line.value(field, Json()));
    }
    return result;
  }
  void expect_same(const std::string& name, const std::string& as) const {
    EXPECT_TRUE(read_text(dir_.path() / name / "model.safetensors") ==
                read_text(dir_.path() / as / "model.safetensors"))
        << name;
    for (const char* field : {"loss", "valid", "valid_loss", "cut", "edges_inside", "steps",
                              "edges_kept", "last_before_switch"}) {
      EXPECT_EQ(lines(name, field), lines(as, field)) << name << " " << field;
    }
  }

  TempDir dir_;
  std::filesystem::path dataset_ = make_sbm(dir_, true);
};

struct RunResult {
  std::vector<double> losses;
  std::vector<std::int64_t> bytes;
  std::vector<Json> assignments;  // null where nothing was new
  std::int64_t formula_bytes = 0;
  SafetensorsFile state;
  Metrics metrics;
  bool replayed = false;           // the last epoch
  std::vector<bool> of_recording;  // by epoch: it was replayed
};

// Epochs `first`..`last`, after loading `start` if it holds anything.
inline RunResult run_epochs(const std::filesystem::path& dataset, int ranks,
                            const TrainOptions& options, int first, int last,
                            const SafetensorsFile& start = {}) {
  RunResult result;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    if (!start.tensors.empty()) job.trainer().load_state(start, true, "start");
    std::vector<double> losses;
    std::vector<std::int64_t> bytes;
    std::vector<Json> assignments;
    std::vector<bool> of_recording;
    for (int epoch = first; epoch <= last; ++epoch) {
      const EpochResult epoch_result = job.trainer().run_epoch(epoch);
      of_recording.push_back(epoch_result.replayed);
      losses.push_back(epoch_result.loss);
      bytes.push_back(epoch_result.bytes_sent);
      assignments.push_back(epoch_result.exchange ? to_json(*epoch_result.exchange)
                                                  : Json(nullptr));
    }
    const Metrics metrics = job.trainer().evaluate(last);
    SafetensorsFile state = job.trainer().state(true);  // collective where nodes have parameters
    std::int64_t formula = job.trainer().network().halo_bytes_per_epoch();
    transport.all_reduce(std::span(&formula, 1), {"formula"});
    if (transport.rank() == 0) {
      result = {losses,           bytes,   assignments,         formula,
                std::move(state), metrics, of_recording.back(), of_recording};
    }
  });
  return result;
}

inline bool same_tensors(const SafetensorsFile& a, const SafetensorsFile& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    if (!b.tensors.contains(name) || b.tensors.at(name).bytes != tensor.bytes) return false;
  }
  return true;
}

inline void expect_same_run(const RunResult& found, const RunResult& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_TRUE(same_tensors(found.state, expected.state));
}

// A run repeats bit for bit, with and without overlap.
inline void expect_repeats_without_overlap(const std::filesystem::path& dataset, int ranks,
                                           TrainOptions options, int epochs) {
  const RunResult first = run_epochs(dataset, ranks, options, 1, epochs);
  expect_same_run(run_epochs(dataset, ranks, options, 1, epochs), first);
  options.overlap = false;
  expect_same_run(run_epochs(dataset, ranks, options, 1, epochs), first);
}

}  // namespace atl
