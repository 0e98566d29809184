// The common part of operations along edges whose coefficients only the reader of a row knows:
// attention, pooling, means per relation, rows with features of edges.
//
// Their gradient has two halves. One goes along in-edges, as forward does. The other goes along
// out-edges: what a row sends back to its sources, first to halo rows (Part::kHalo), which travel
// to their owners while the owners sum up what their own rows send (Part::kSources). Each part
// reads, in this order: the halo part, if it is the sources'; its gradients; what forward reads.
#pragma once

#include <vector>

#include "engine/program/gradients.hpp"
#include "engine/program/views.hpp"

namespace atl {

// The common part of forward and the parts of its gradient.
Operation part_of(const Operation& forward, const Rule& rule);

// Values that a part reads: these gradients, and what forward reads.
std::vector<Value> with_inputs_of(const Operation& forward, std::vector<Value> gradients);

// Appends both parts that go along out-edges; reads: their gradients, and what forward reads.
Value append_sources(Gradients& gradients, const Operation& forward, const Rule& halo,
                     const Rule& sources, std::vector<Value> reads);

// Adds what other ranks have returned to the rows of the sources' part.
void add_returned_rows(const Views& views, Requests& requests);

// Rows of sources, where what they get is written, and the first input behind the halo part.
struct Sources {
  RowRange rows;
  MatrixView to;
  std::size_t first = 0;
};

// Rule::lower of both parts along out-edges. kSend asks for the kernel of these sources.
template <void (*kSend)(const Views&, const Sources&, Requests&)>
void lower_halo(const Views& views, Requests& requests) {
  const RankRows& rows = views.rows();
  // Only marginal rows have halo rows among their sources.
  if (views.call_rows() == Rows::kCentral || rows.forward_halo == 0) return;
  kSend(views,
        {{rows.of_part(), rows.of_part() + rows.forward_halo},
         views.whole(views.value()).rows_in({0, rows.forward_halo}),
         0},
        requests);
}
template <void (*kSend)(const Views&, const Sources&, Requests&)>
void lower_sources(const Views& views, Requests& requests) {
  kSend(views, {views.range(), views.out(), 1}, requests);
  add_returned_rows(views, requests);
}

// The rules of both parts.
template <void (*kSend)(const Views&, const Sources&, Requests&)>
constexpr Rule halo_rule(const char* name) {
  return {.name = name, .rows_of = RowsOf::kHalo, .part = Part::kHalo, .lower = lower_halo<kSend>};
}
void print_channel(const Operation& op, std::string& text);
template <void (*kSend)(const Views&, const Sources&, Requests&)>
constexpr Rule sources_rule(const char* name) {
  return {.name = name,
          .reach = Reach::kHalo,
          .part = Part::kSources,
          .sums = true,
          .lower = lower_sources<kSend>,
          .print = print_channel};
}

}  // namespace atl
