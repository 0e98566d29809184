// Tests of simulated epochs of exchange modes: the bytes, rows, spans and memory are those of real
// ones, and late messages have an epoch's time to arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/partition_folder.hpp"
#include "engine/placement/critical_path.hpp"
#include "engine/placement/memory_model.hpp"
#include "engine/placement/plan_space.hpp"
#include "tests/engine/placement/made_parts.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/engine/training/example_runs.hpp"

namespace atl {
namespace {

constexpr int kRanks = 3;
constexpr int kEpochs = 13;

struct ModeCase {
  const char* name;
  ExchangeOptions exchange;
  std::string model = "gcn";
};
std::ostream& operator<<(std::ostream& out, const ModeCase& c) { return out << c.name; }

ExchangeOptions mode(const char* name, const char* bits, const SendOptions& sending = {}) {
  ExchangeOptions exchange{.mode = name};
  exchange.message_bits.bits = parse_bits(bits);
  exchange.sending = sending;
  return exchange;
}

using PhaseSpan = std::tuple<std::string, std::string, int>;  // name, direction, layer

// Real epochs, from the first one on.
struct RealEpochs {
  std::vector<std::vector<std::vector<PhaseSpan>>> spans;  // by epoch and rank
  std::vector<double> sent;                                // by epoch, all bytes
  std::vector<double> bytes;                               // by epoch, of messages
  std::vector<double> rows;                                // by epoch, messages
  int last_report = 0;                                     // epoch
  std::vector<double> needed;                              // by rank: bytes of memory
  ModelConfig model;
  PartitionQuality parts;
};

RealEpochs train_epochs(const TrainOptions& options) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  PartitionOptions partition;
  partition.method = "random";
  RealEpochs result;
  result.spans.resize(kEpochs, std::vector<std::vector<PhaseSpan>>(kRanks));
  result.needed.resize(kRanks);
  run_local_ranks(kRanks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    const auto rank = static_cast<std::size_t>(transport.rank());
    result.needed[rank] = static_cast<double>(job.trainer().bytes_needed());
    double rows = 0;
    double bytes = 0;
    for (std::size_t e = 0; e < kEpochs; ++e) {
      const EpochResult epoch = job.trainer().run_epoch(static_cast<int>(e) + 1);
      std::vector<TraceSpan> recorded = job.trainer().trace().spans();
      std::ranges::stable_sort(recorded, {}, &TraceSpan::start_us);
      for (const TraceSpan& span : recorded) {
        const std::string name = span.name;
        if (!phase_named(name) || name == "all-reduce" || span.lane != kHostLane) continue;
        result.spans[e][rank].emplace_back(name, span.direction, span.tag.layer);
      }
      if (rank != 0) continue;
      result.sent.push_back(static_cast<double>(epoch.bytes_sent));
      if (epoch.exchange) {
        result.last_report = static_cast<int>(e) + 1;
        rows = bytes = 0;
        for (const ExchangeReport::Messages& messages : epoch.exchange->channels) {
          bytes += static_cast<double>(messages.bytes);
          for (const std::int64_t of_width : messages.rows_of_width) {
            rows += static_cast<double>(of_width);
          }
        }
      }
      result.rows.push_back(rows);
      result.bytes.push_back(bytes);
    }
    if (rank == 0) result.model = job.trainer().model();
  });
  const auto folder = partition_folder(Dataset::open(dataset), kRanks, partition);
  result.parts = parse_quality(read_json(folder / "quality.json"), folder / "quality.json");
  return result;
}

TrainOptions options_of(const ModeCase& c) {
  TrainOptions options = small_options();
  options.model.kind = c.model;
  options.model.hidden = 12;  // no multiple of eight: exact rows have padding
  options.exchange = c.exchange.mode;
  options.message_bits = c.exchange.message_bits;
  options.sending = c.exchange.sending;
  return options;
}

std::vector<LayerPlan> layers_at(const ModelConfig& model, const ExchangeOptions& exchange) {
  std::vector<LayerPlan> layers = layers_without_plan(model);
  for (LayerPlan& layer : layers) layer.bits = exchange.message_bits.bits.widths.front();
  return layers;
}

// The last real epoch of a kind.
int epoch_of(const EpochKind& kind, const ExchangeOptions& exchange) {
  for (int epoch = kEpochs;; --epoch) {
    const SendOptions& sending = exchange.sending;
    const bool all = exchange.mode != std::string("periodic") || sending.stagger ||
                     (epoch - 1) % sending.every == 0;
    const bool late = exchange.pipelined() &&
                      (sending.synchronous_every == 0 || epoch % sending.synchronous_every != 0);
    if (late == kind.late && all == (kind.messages > 0)) return epoch;
  }
}

class ModeTasks : public ::testing::TestWithParam<ModeCase> {};

TEST_P(ModeTasks, AreThoseOfRealEpochs) {
  const ExchangeOptions& exchange = GetParam().exchange;
  const bool sends = exchange_mode(exchange.mode).sent != MessagesSent::kNone;
  const RealEpochs real = train_epochs(options_of(GetParam()));
  const RealEpochs silent = train_epochs(options_of({"", mode("none", "32"), GetParam().model}));
  const Topology topology = small_topology(1, kRanks, 1e9);
  const PhaseCorrections none;
  EpochSetting setting{.topology = topology,
                       .model = real.model,
                       .partition = real.parts,
                       .corrections = none,
                       .exchange = &exchange};
  const std::vector<LayerPlan> layers = layers_at(real.model, exchange);
  EXPECT_EQ(training_bytes(setting, layers), real.needed);

  const std::vector<SimulatedEpoch> epochs = simulate_epochs(setting, layers, TaskDetail::kPhases);
  for (const auto& [kind, graph, times] : epochs) {
    const int epoch =
        epoch_of({.messages = sends ? kind.messages : 1, .late = kind.late}, exchange);
    std::vector<std::vector<PhaseSpan>> predicted(kRanks);
    for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
      const SimTask& task = graph.task(id);
      if (task.kind != TaskKind::kCompute || task.name == std::string("rest")) continue;
      predicted[static_cast<std::size_t>(task.rank)].emplace_back(task.name, task.direction,
                                                                  task.layer);
    }
    EXPECT_EQ(predicted, real.spans[static_cast<std::size_t>(epoch - 1)]) << "epoch " << epoch;
  }

  // The first epoch sends everything; then whole cycles.
  const ExpectedMessages expected = expected_messages(exchange);
  const int count = (kEpochs - 1) / expected.cycle * expected.cycle;
  double bytes = 0;
  double rows = 0;
  for (std::size_t e = 1; e <= static_cast<std::size_t>(count); ++e) {
    bytes += real.bytes[e];
    rows += real.rows[e];
  }
  const PacketSums mean = mean_packet_sums(epochs);
  if (exchange.mode == "sampled") {  // drawn
    EXPECT_NEAR(rows / count, mean.rows, 0.05 * mean.rows);
    EXPECT_NEAR(bytes / count, mean.bytes, 0.05 * mean.bytes);
  } else if (exchange.mode == "skip") {  // a bound
    EXPECT_LT(rows / count, mean.rows);
    EXPECT_TRUE(expected.is_bound);
    const double share = rows / count / mean.rows;
    const auto measured = simulate_epochs(setting, layers, TaskDetail::kPhases, share);
    EXPECT_NEAR(mean_packet_sums(measured).rows, rows / count, 1e-6 * rows);
    EXPECT_FALSE(expected_messages(exchange, share).is_bound);
  } else {
    EXPECT_NEAR(rows, count * mean.rows, 1e-9 * rows);
    // Shifts are no messages.
    ExchangeOptions unshifted = exchange;
    unshifted.sending.shift = false;
    setting.exchange = &unshifted;
    EXPECT_NEAR(
        bytes,
        count * mean_packet_sums(simulate_epochs(setting, layers, TaskDetail::kPhases)).bytes,
        1e-9 * bytes);
    // A report is sent, too.
    if (real.last_report == 1) {
      EXPECT_NEAR(real.sent.back() - silent.sent.back(), mean.bytes, 1e-9 * mean.bytes);
    } else {
      EXPECT_EQ(exchange.mode, "periodic");
    }
  }
  EXPECT_EQ(mean.bytes > 0, sends);
}

INSTANTIATE_TEST_SUITE_P(
    Placement, ModeTasks,
    ::testing::Values(ModeCase{"Stale", mode("stale", "32")},
                      ModeCase{"StaleShifted", mode("stale", "8", {.shift = true})},
                      ModeCase{"OneBitLate", mode("one-bit", "1",
                                                  {.schedule = MessageSchedule::kPipelined,
                                                   .synchronous_every = 4})},
                      ModeCase{"Sampled", mode("sampled", "32", {.rate = 0.25})},
                      ModeCase{"Periodic", mode("periodic", "32", {.every = 3})},
                      ModeCase{"PeriodicShifted",
                               mode("periodic", "4", {.every = 4, .shift = true})},
                      ModeCase{"Staggered", mode("periodic", "32", {.every = 4, .stagger = true})},
                      ModeCase{"Skip", mode("skip", "32", {.bound = 0.3, .oldest = 3})},
                      ModeCase{"Compensated", mode("compensated", "2")},
                      ModeCase{"CompensatedShifted", mode("compensated", "1", {.shift = true})},
                      ModeCase{"CompensatedExact", mode("compensated", "32")},
                      ModeCase{"CompensatedGat", mode("compensated", "2"), "gat"},
                      ModeCase{"CompensatedLate",
                               mode("compensated", "4", {.schedule = MessageSchedule::kPipelined})},
                      ModeCase{"None", mode("none", "32")}),
    [](const auto& test) { return std::string(test.param.name); });

// As `atoll info` asks, which has no widths of layers.
TEST(ModeMemory, IsWhatARankNeedsWithWidthsThatChange) {
  for (const char* bits : {"random", "adaptive", "8,4,32"}) {
    for (const char* name : {"quantized", "compensated"}) {
      const ModeCase c{name, mode(name, bits)};
      const RealEpochs real = train_epochs(options_of(c));
      const TrainingPrograms programs(real.model);
      for (int rank = 0; rank < kRanks; ++rank) {
        const RankCounts counts = rank_counts(real.parts, rank, programs.covers);
        EXPECT_EQ(static_cast<double>(training_memory(programs, counts, "cpu", c.exchange).total()),
                  real.needed[static_cast<std::size_t>(rank)])
            << name << " " << bits;
      }
    }
  }
}

// Late messages, whatever the machine.
class LateMessages : public ::testing::Test {
 protected:
  LateMessages() {
    model_.features = 100;
    model_.hidden = 16;
    model_.outputs = 4;
    model_.norm = Norm::kBatch;
  }
  double seconds(const Topology& topology, const ExchangeOptions& exchange) const {
    return mean_seconds(epochs(topology, exchange));
  }
  std::vector<SimulatedEpoch> epochs(const Topology& topology,
                                     const ExchangeOptions& exchange) const {
    return simulate_epochs({.topology = topology,
                            .model = model_,
                            .partition = parts_,
                            .corrections = none_,
                            .exchange = &exchange},
                           layers_at(model_, exchange), TaskDetail::kPhases);
  }
  ModelConfig model_;
  PartitionQuality parts_ = make_parts(4);
  PhaseCorrections none_;
  ExchangeOptions late_ = mode("stale", "32");
  ExchangeOptions now_ = mode("stale", "32", {.schedule = MessageSchedule::kSynchronous});
};

TEST_F(LateMessages, HideBehindAWholeEpoch) {
  // So slow that messages take about as long as the work of an epoch.
  Topology topology = small_topology(4, 1, 1e12);
  const double work = seconds(topology, late_);
  const double bytes = mean_packet_sums(epochs(topology, late_)).bytes;
  // Each card has about a quarter of them.
  topology = small_topology(4, 1, bytes / 4 / (0.6 * work));
  EXPECT_NEAR(seconds(topology, late_), work, 0.02 * work);
  EXPECT_GT(seconds(topology, now_), 1.2 * work);
}

TEST_F(LateMessages, CannotBeFasterThanTheWire) {
  const Topology topology = small_topology(4, 1, 1e6);
  for (const ExchangeOptions& exchange : {late_, now_}) {
    const std::vector<SimulatedEpoch> simulated = epochs(topology, exchange);
    const double bound = mean_lower_bound_seconds(topology, simulated);
    if (exchange.pipelined()) {
      EXPECT_NEAR(mean_seconds(simulated), bound, 0.02 * bound);
    } else {
      EXPECT_GT(mean_seconds(simulated), 1.1 * bound);
    }
    // The path of the last epoch is as long as it.
    double path = 0;
    for (const PathShare& share : path_shares(simulated)) path += share.seconds;
    const auto& [kind, graph, times] = simulated.front();
    const int last = graph.epochs() - 1;
    const double begin = last == 0 ? 0 : epoch_end_seconds(graph, times, last - 1);
    EXPECT_NEAR(path, epoch_end_seconds(graph, times, last) - begin, 1e-9);
  }
}

TEST_F(LateMessages, AreWaitedForInSomeEpochs) {
  const Topology topology = small_topology(4, 1, 1e7);
  ExchangeOptions sometimes = late_;
  sometimes.sending.synchronous_every = 4;
  // Rows that are kept for other epochs are not received in place.
  const double mixed = 0.25 * seconds(topology, now_) + 0.75 * seconds(topology, late_);
  EXPECT_NEAR(seconds(topology, sometimes), mixed, 0.01 * mixed);
  sometimes.sending.synchronous_every = 1;
  EXPECT_GT(seconds(topology, sometimes), seconds(topology, late_));
}

// A search costs plans of a mode as a simulation of all of its epochs does.
TEST_F(LateMessages, AreEvaluatedInSearchesLikeOtherModes) {
  const Topology topology = small_topology(2, 2, 1e6);
  const std::vector<CutCandidate> cuts = {{"uneven", {}, parts_}};
  for (const ExchangeOptions& exchange :
       {late_, mode("periodic", "32", {.every = 5}), mode("compensated", "2"),
        mode("sampled", "8", {.rate = 0.5}), mode("none", "32")}) {
    PlanSpace space(topology, model_, cuts, {exchange.message_bits.bits.widths.front()}, none_,
                    exchange.message_bits.bits.widths.front(), {&exchange});
    const PlanCost cost = space.evaluate(space.start());
    EXPECT_NEAR(cost.seconds, mean_seconds(space.simulated(space.start())), 1e-9 * cost.seconds)
        << exchange.mode;
    EXPECT_EQ(cost.seconds, space.evaluate(space.start()).seconds);
    int about_halo_rows = 0;
    for (int d = 0; d < space.decisions(); ++d) {
      about_halo_rows += space.decision_name(d) == "layer 1 halo rows" ? 1 : 0;
    }
    EXPECT_EQ(about_halo_rows, exchange.mode == "none" ? 0 : 1) << exchange.mode;
  }
}

TEST(ExpectedMessages, SaysWhatAnEpochSends) {
  const auto share = [](const ExchangeOptions& exchange) {
    return expected_messages(exchange).mean_share();
  };
  EXPECT_EQ(share({}), 1);
  EXPECT_EQ(share(mode("compensated", "2")), 1);
  EXPECT_EQ(share(mode("sampled", "32", {.rate = 0.3})), 0.3);
  EXPECT_EQ(share(mode("periodic", "32", {.every = 4})), 0.25);
  EXPECT_EQ(share(mode("periodic", "32", {.every = 4, .stagger = true})), 0.25);
  EXPECT_EQ(share(mode("none", "32")), 0);
  EXPECT_EQ(share(mode("skip", "32")), 1);
  EXPECT_EQ(expected_messages(mode("skip", "32"), 0.7).mean_share(), 0.7);
  EXPECT_EQ(expected_messages(mode("periodic", "32", {.every = 4})).kinds.front().messages, 1);
}

}  // namespace
}  // namespace atl
