// The graph that the policy reads (TAG, arXiv 2302.06126, section 4.2): what each rank does in each
// layer under a partly decided plan, the devices, and what each option of the next decision would
// change. Made from the tasks of an epoch alone, so it knows no decision by name. All numbers are
// free of units: shares of the start plan's epoch, ratios to the machine's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "engine/placement/plan_space.hpp"
#include "engine/placement/policy/workload.hpp"

namespace atl {

// Columns of the features of a node and of an edge.
inline constexpr std::size_t kPolicyNodeColumns = 37;
inline constexpr std::size_t kPolicyEdgeColumns = 19;

// Nodes: one group per rank and slot (a layer, or what lies outside of layers), one device per
// rank, and last one candidate per option.
struct PolicyGraph {
  int nodes = 0;
  int options = 0;
  std::vector<float> node_features;      // [nodes, kPolicyNodeColumns]
  std::vector<std::int64_t> edge_begin;  // nodes + 1; edges into node i: [begin[i], begin[i + 1])
  std::vector<LocalId> edge_source;      // by edge
  std::vector<float> edge_features;      // [edges, kPolicyEdgeColumns]

  std::int64_t edges() const { return static_cast<std::int64_t>(edge_source.size()); }
};

class PolicyGraphMaker {
 public:
  // The space must outlive it. Its start's epoch, which every search simulates anyway, says how
  // busy devices are, and its length is the unit of time. No other epoch is simulated here.
  explicit PolicyGraphMaker(const PlanSpace& space);

  // `chosen`: options of the decisions before `decision`.
  PolicyGraph make(std::span<const int> chosen, int decision) const;

 private:
  struct Simulated {
    double busy = 0;   // shares of the start plan's epoch
    double waits = 0;  // idle before a task of this group
  };

  // An option of the decision, filled into the plan.
  struct Option {
    std::vector<double> memory;  // bytes, by rank
    Workload load;
    bool is_start = false;
    bool is_inherited = false;
  };
  struct Draft;  // a graph that is being made

  Workload workload(std::span<const int> choice) const;
  void read_simulation();
  void find_influences();
  // Sets to 1 the groups in which two workloads differ.
  static void mark_differences(const Workload& a, const Workload& b, std::vector<char>& touched);
  std::vector<float> group_features(const Workload& base, int rank, int slot, int decision) const;
  std::vector<float> device_features(const Workload& base, std::span<const double> memory,
                                     int rank) const;
  float memory_used(std::span<const double> memory, int rank) const;
  void add_groups(const Workload& base, int decision, Draft& draft) const;
  void add_link(const Workload& base, int from, int to, Draft& draft) const;
  void add_candidate(const Workload& base, const Option& option, int node, Draft& draft) const;
  static void add_node(Draft& draft, const std::vector<float>& features);
  int first_device() const { return topology_.ranks() * (layers_ + 1); }
  double per_epoch(double seconds) const { return seconds / epoch_s_; }

  const PlanSpace& space_;
  const Topology& topology_;
  double fastest_link_;  // bytes/s
  int layers_ = 0;
  double epoch_s_ = 0;                         // of the start plan
  std::vector<Simulated> simulated_;           // by group
  std::vector<double> utilisation_;            // by rank
  std::vector<std::vector<char>> influences_;  // by decision and group
};

}  // namespace atl
