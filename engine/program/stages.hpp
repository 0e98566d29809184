// Layers divided among ranks: each rank is a stage, which holds all nodes and runs some of the
// layers. Nodes flow through the stages in chunks. A sum over neighbours reads the rows of chunks
// that have not come yet as the last pass left them (GNNPipe, arXiv 2308.10087, section 3.2). The
// program stays that of the whole model: a stage runs part of its calls, and values that others
// read are sent.
#pragma once

#include <functional>
#include <vector>

#include "engine/program/views.hpp"

namespace atl {

// Which stage runs which layers: those of a stage follow one another.
struct StageCut {
  std::vector<int> first_layer;  // by stage, ascending; the first one is 0
  int stages() const { return static_cast<int>(first_layer.size()); }
  int stage_of(int layer) const;
  int stage_of(const Scope& scope) const;  // of a scope that one stage runs
};

// How long the rank of a stage takes for a call.
using StageSeconds = std::function<double(int stage, const Call& call)>;

// The slowest stage is as fast as it can be where layers stay whole. training: differentiated.
// Throws Error{kOption} naming --stages if there are fewer layers than stages, or if an operation
// of a layer needs all rows at once, or all ranks.
StageCut cut_into_stages(const Program& training, int stages, const StageSeconds& seconds);
// One that was made elsewhere. Throws as that does.
StageCut given_stages(const Program& training, std::vector<int> first_layer);
// The same as the first where all ranks are equally fast, by counted work.
StageCut cut_into_stages(const Program& training, const RankShape& shape, DType dtype, int stages);

// A value that one stage computes and another one reads. Both have it in a place of its own.
struct Crossing {
  Value value = kNoValue;
  int from = 0;
  int to = 0;
  bool operator==(const Crossing&) const = default;
};

// Sets rows of a value to those of another one, or to zeros.
struct Fill {
  Value from = kNoValue;  // kNoValue: zeros
  Value to = kNoValue;
  bool operator==(const Fill&) const = default;
};

// The operations of a training program that one rank runs, for each chunk in this order.
struct Stage {
  // Places alone: instants of what the stage computes or is sent, and the prologue.
  Schedule schedule;
  std::vector<Value> forward;
  std::vector<Value> loss;       // once, on all rows
  std::vector<Fill> sums_begin;  // of gradients of the input, of its own layers alone
  std::vector<Value> backward;   // of its layers
  std::vector<Fill> sums_end;
  std::vector<Value> input_backward;
  std::vector<Value> step;  // once
};

// All that stages send, in the order of the values, so that both ends find the same order. What
// comes before the first layer is not sent: every stage that reads it computes it, and where its
// gradient is a sum over layers, also the gradients of its parameters, from its own terms.
struct Crossings {
  std::vector<Crossing> forward;
  std::vector<Crossing> backward;
};

Crossings find_crossings(const Program& training, const StageCut& cut);
// crossings: those of this cut.
Stage make_stage(const Program& training, const StageCut& cut, const Crossings& crossings,
                 int stage);

// The name of an operation's span in a stage's trace; null: it has none.
const char* stage_span_of(const Program& training, Value v);
// That attention and relations sort on a stage beside the values, about.
std::int64_t sorted_edge_bytes(const Program& training, const RankRows& rows);

// Ends of `chunks` ranges of rows that have about as much to do each, for a graph with these edges
// per row.
std::vector<std::int64_t> chunks_of_rows(const CsrView& edges, int chunks);

}  // namespace atl
