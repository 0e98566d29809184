// Seconds that the phases of an epoch take on a rank, from counted work and the machine's rates.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/models/model.hpp"
#include "engine/placement/topology.hpp"

namespace atl {

inline constexpr double kFloatBytes = 4;

// The spans of a rank's main thread in an epoch's trace, but for waiting.
enum class Phase : std::uint8_t {
  kInputDropout,
  kInputLayer,
  kPrepareMarginal,
  kPack,
  kPost,
  kPrepareCentral,
  kSpmmCentral,
  kCompleteCentral,
  kUnpack,
  kSpmmMarginal,
  kCompleteMarginal,
  kToColumns,
  kToRows,
  kNormStatistics,
  kNormApply,
  kRecompute,
  kHead,
  kLoss,
  kAllReduce,  // the same for all ranks: what rank 0 has counts
  kStep,
  kRest,  // no span: what lies between them
};
inline constexpr std::array<std::string_view, 21> kPhaseNames = {"input dropout",
                                                                 "input layer",
                                                                 "prepare marginal",
                                                                 "pack",
                                                                 "post",
                                                                 "prepare central",
                                                                 "spmm central",
                                                                 "complete central",
                                                                 "unpack",
                                                                 "spmm marginal",
                                                                 "complete marginal",
                                                                 "to columns",
                                                                 "to rows",
                                                                 "norm statistics",
                                                                 "norm apply",
                                                                 "recompute",
                                                                 "head",
                                                                 "loss",
                                                                 "all-reduce",
                                                                 "step",
                                                                 "rest"};
inline const char* to_string(Phase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)].data();
}
// Absent: a span of another kind.
inline std::optional<Phase> phase_named(std::string_view name) {
  const auto found = std::ranges::find(kPhaseNames, name);
  if (found == kPhaseNames.end()) return std::nullopt;
  return static_cast<Phase>(found - kPhaseNames.begin());
}

// Where in an epoch a phase stands. layer -1, direction "" : outside of layers.
struct PhasePlace {
  Phase phase = Phase::kStep;
  int layer = -1;
  bool backward = false;
  auto operator<=>(const PhasePlace&) const = default;
};

// Phases whose products of rows with weights move from one to another with a layer's algebra.
inline bool is_row_work(Phase phase) {
  return phase == Phase::kPrepareMarginal || phase == Phase::kPrepareCentral ||
         phase == Phase::kCompleteCentral || phase == Phase::kCompleteMarginal;
}

// How much longer phases really took than their work says, by rank and place, and how fast packets
// travelled: from a trace.
class PhaseCorrections {
 public:
  // One factor for all row work of a layer forward, one backward.
  struct RowWork {
    LayerAlgebra of_run;
    std::array<double, 2> factors{1, 1};
  };

  PhaseCorrections() = default;
  PhaseCorrections(int ranks, int layers);
  double factor(int rank, const PhasePlace& place) const {
    return factors_.empty() ? 1 : factors_[index(rank, place)];
  }
  // The same in a plan that computes the place's layer by `algebra`. If it isn't that of the run,
  // phases of the same name hold other operations: a product where the run had a few sums.
  double factor(int rank, const PhasePlace& place, const LayerAlgebra& algebra) const {
    if (place.layer >= 0 && !row_work_.empty() && is_row_work(place.phase)) {
      const RowWork& layer = row_work_[static_cast<std::size_t>(place.layer)];
      if (layer.of_run != algebra) return layer.factors[place.backward ? 1 : 0];
    }
    return factor(rank, place);
  }
  // By layer; empty: plans have the algebra of the run.
  void set_row_work(std::vector<RowWork> layers) { row_work_ = std::move(layers); }
  void set(int rank, const PhasePlace& place, double factor) {
    factors_[index(rank, place)] = factor;
  }
  // The network between hosts had its rates in the topology times this.
  double network_speed() const { return network_speed_; }
  void set_network_speed(double speed) { network_speed_ = speed; }

 private:
  std::size_t index(int rank, const PhasePlace& place) const {
    const auto per_rank = static_cast<std::size_t>(2 * (layers_ + 1));
    const auto channel = static_cast<std::size_t>(2 * (place.layer + 1) + (place.backward ? 1 : 0));
    return (static_cast<std::size_t>(rank) * per_rank + channel) * kPhaseNames.size() +
           static_cast<std::size_t>(place.phase);
  }
  int layers_ = 0;
  std::vector<double> factors_;
  std::vector<RowWork> row_work_;
  double network_speed_ = 1;
};

// Work of one device; all matrices f32. Rates of Device, see there.
double gemm_seconds(const Device& device, std::int64_t rows, std::int64_t in, std::int64_t out);
// `edges` rows read, self-loops of the model included, `rows` written.
double spmm_seconds(const Device& device, std::int64_t edges, std::int64_t rows, std::int64_t cols);
double elementwise_seconds(const Device& device, double bytes);
double quantize_seconds(const Device& device, std::int64_t rows, std::int64_t cols);
// Bytes of a message of `cols` f32 values on the wire. A mean width between two of the wire's
// widths counts in proportion. exact: at 32 bits rows travel with their padding.
double mean_message_bytes(double bits, std::int64_t cols, bool exact = true);

}  // namespace atl
