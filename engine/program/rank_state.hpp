// State of a rank for the programs of a model beside their values: parameters and norms; and, of a
// graph, its operators and what else operations read of the dataset.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/exchange/computed_halo.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/halo_return.hpp"
#include "engine/program/degree_factors.hpp"
#include "engine/program/value_memory.hpp"
#include "engine/program/views.hpp"
#include "partition/message_cover.hpp"

namespace atl {

struct NetworkOptions {
  DType dtype = DType::kF32;
  Recomputation recomputation = {};    // that the programs were made for
  bool covers_messages = false;        // messages are those of a CoveredGraph; the programs
                                       // only_adds_neighbours() then
  Sharing sharing = Sharing::kPacked;  // of memory between values
  Arrival arrival = Arrival::kOff;     // kAuto: where messages are covered
  int equal_groups = 1;                // without arrival: of marginal rows; more than 1 in tests
  MarginalGroups row_groups = {};      // in place of these: where each of them ends
  bool trains = true;                  // false: evaluates this graph, and trains on others alone
  ValuesInFile values_in_file = {};
  // Tests: fills the place of a value with NaN as soon as nothing needs it any more, in the order
  // of the queue.
  bool poisons_dead_values = false;
};

// One batch norm in the backend's memory.
struct NormState {
  std::string name;  // "layers.0.norm"
  std::int64_t columns = 0;
  DeviceArray<double> running_mean = {};      // [columns], in checkpoints
  DeviceArray<double> running_variance = {};  // the same
  DeviceArray<double> mean = {};              // of this training pass
  DeviceArray<double> inverse_std = {};
  DeviceArray<double> running_inverse_std = {};
  DeviceArray<double> sums = {};  // [2 columns], of this rank, then of all
};

// Numbers of edges, or of rows, in the backend's memory, as kernels and products read them.
class EdgeFeatures {
 public:
  EdgeFeatures() = default;
  // parameters: the type of what they are multiplied by.
  EdgeFeatures(const Rank& rank, ConstDeviceArray<float> values, std::int64_t columns,
               DType parameters);
  std::span<const float> span() const { return values_.span(); }
  ConstMatrixView matrix() const;  // in the type of the parameters

 private:
  ConstDeviceArray<float> values_;
  std::int64_t columns_ = 0;
  Tensor in_f64_;  // where parameters are
};

// A graph as operations read it.
struct GraphState {
  // Has nothing but rows.
  explicit GraphState(std::int64_t inner) : shape({.rows = {.inner = inner}}) {}
  // For the model of this program of training. features [inner, F]: in the backend's memory, of
  // type options.dtype; they and the graph must outlive it.
  GraphState(const Program& training, const NetworkOptions& options, const Rank& rank,
             const LocalGraphView& graph, ConstMatrixView features);
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  // The operator that an aggregate multiplies with, and which rows travel for it.
  const DistributedOperator& operator_of(const Operation& aggregate) const;

  ConstMatrixView features = {};
  MarginalGroups groups = {};
  std::optional<CoveredGraph> covered = {};
  CsrView in_edges = {};  // of the operators
  std::map<Normalisation, std::unique_ptr<GraphOperators>> operators = {};
  const ComputedHalo* computed_halo = nullptr;
  RankShape shape = {};
  // Features of in-edges, where operations read them; and, where rows attend to themselves, of each
  // inner row the means over its in-edges but those from itself.
  EdgeFeatures edge_features = {};
  EdgeFeatures mean_edge_features = {};
  NodeTypeRows node_types = {};                       // empty where nothing reads them
  std::map<bool, DegreeFactors> degree_factors = {};  // by whether nodes attend to themselves
};

struct RankState {
  // For the model of this program of training. features [inner, F]: in the backend's memory, of
  // type options.dtype; they, the rank and the graph must outlive it.
  RankState(const Program& training, const NetworkOptions& options, const Rank& rank,
            const LocalGraphView& graph, ConstMatrixView features);
  // For a program of pairs of `inner` rows, and of rows of other ranks. The store must outlive it.
  RankState(DType dtype, const Rank& rank, ParameterStore& parameters, std::int64_t inner);
  // With the parameters and norms of another state, which must outlive it, and no graph yet.
  RankState(RankState& other, const Rank& rank);
  // Takes memory, draws the parameters if they are its own, and asks other ranks for what computed
  // rows need. Collective.
  void allocate();

  const Rank& rank;
  DType dtype;
  std::unique_ptr<GraphState> graph = {};
  ConstMatrixView node_parameters = {};  // instead of features, where they are trained
  PairViews pairs = {};                  // of a program of pairs: the block at hand
  std::vector<GlobalId> share_ids = {};  // of this rank's rows, where several ranks hold the part
  std::unique_ptr<ParameterStore> own_parameters = {};
  ParameterStore& parameters;
  std::unique_ptr<std::vector<NormState>> own_norms = {};
  std::vector<NormState>& norms;
};

// Views of one program's values and of the rank's state.
class RankViews final : public Views {
 public:
  // block: memory of the values, laid out by `layout`. All must outlive it.
  RankViews(const Program& program, const Layout& layout, RankState& state, MatrixView block,
            const Round& round)
      : Views(program, state.graph->shape, state.dtype),
        layout_(layout),
        state_(state),
        block_(block),
        round_(round) {}

  const Layout& layout() const { return layout_; }
  MatrixView whole(Value value) const override;
  MatrixView computed_rows(Value value) const override;
  bool has_place(Value value) const override { return !place_of(value).is_nowhere(); }

  MatrixView parameter(int number) const override { return state_.parameters.value(number); }
  ConstMatrixView operand(int number) const override { return state_.parameters.operand(number); }
  MatrixView gradient(int number) const override { return state_.parameters.gradient(number); }
  RowRange block(int number, std::int64_t k) const override {
    return state_.parameters.block(number, k);
  }

  NormViews norm(int number) const override;
  std::int64_t graph_nodes() const override { return state_.rank.nodes; }
  DropoutSpec dropout(const Activation& activation) const override;
  AttentionDropout dropout_of_edges(const AttentionOptions& options) const override;

  SparseOperator matrix() const override;
  SourceEdges source_edges() const override { return operators().halo_return()->edges(); }
  SparseOperator returned_sums() const override { return operators().halo_return()->sums(); }
  SparseOperator relations(Part part) const override;
  EdgeFeatureViews edge_features() const override;
  const NodeTypeRows& node_types() const override { return state_.graph->node_types; }
  ComputedViews computed() const override;
  DegreeViews degrees(bool with_self) const override {
    return state_.graph->degree_factors.at(with_self).views();
  }
  PairViews pairs() const override { return state_.pairs; }

 private:
  const Place& place_of(Value value) const {
    return layout_.places[static_cast<std::size_t>(value)];
  }
  const GraphOperators& operators() const {
    return *state_.graph->operators.at(op().messages.normalisation);
  }
  std::span<const GlobalId> ids() const;  // of the rows of the call
  RandomKey key(RandomStream stream, int site) const;

  const Layout& layout_;
  RankState& state_;
  MatrixView block_;
  const Round& round_;
};

}  // namespace atl
