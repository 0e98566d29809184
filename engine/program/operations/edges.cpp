// Sums of neighbours' rows with what features of their edges add to them (kernels/edge_terms.hpp).
#include "engine/program/operations/neighbourhood.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

EdgeTerms terms_of(const Views& views) {
  const Operation& op = views.op();
  return {views.edge_features().features, views.edge_parameter(op.parameter),
          views.edge_parameter(op.second_parameter)};
}

void lower_edges(const Views& views, Requests& requests) {
  requests.take(kernels::AggregateEdges{views.matrix(), views.range(), views.whole(views.input(0)),
                                        terms_of(views), views.inner(views.value())});
}

// Reads dy, x.
void lower_terms(const Views& views, Requests& requests) {
  const Operation& op = views.op();
  requests.take(kernels::AggregateEdgesBackwardTerms{
      views.matrix(), views.range(), views.whole(views.input(1)), terms_of(views),
      views.inner(views.input(0)), views.edge_gradient(op.parameter),
      views.edge_gradient(op.second_parameter)});
}

// Reads dy, x.
void send_edges(const Views& views, const Sources& sources, Requests& requests) {
  requests.take(kernels::AggregateEdgesBackwardSources{
      views.matrix(), views.source_edges(), sources.rows,
      views.whole(views.input(sources.first + 1)), terms_of(views),
      views.inner(views.input(sources.first)), sources.to});
}

std::vector<Value> reads_of_gradient(Gradients& gradients, Value reader) {
  std::vector<Value> reads = {gradients.of(reader)};
  const std::vector<Value> forward = gradients.at(reader).inputs;
  reads.insert(reads.end(), forward.begin(), forward.end());
  return reads;
}

Value through_edges(Gradients& gradients, Value reader, std::size_t i) {
  if (i > 0) return kNoValue;  // a weight or a bias, which have no rows
  return append_sources(gradients, gradients.at(reader), rules::kEdgesHalo, rules::kEdgesSources,
                        reads_of_gradient(gradients, reader));
}

void add_term_gradients(Gradients& gradients, Value v) {
  Operation terms = part_of(gradients.at(v), rules::kEdgesTerms);
  terms.inputs = reads_of_gradient(gradients, v);
  gradients.append(terms);
}

}  // namespace

constinit const Rule rules::kAggregateEdges{
    .name = "aggregate edges",
    .reach = Reach::kHalo,
    .part = Part::kForward,
    .keeps_halo = true,
    .reads = [](const Operation&, GraphData data) { return data == GraphData::kEdgeFeatures; },
    .lower = lower_edges,
    .through = through_edges,
    .parameters = add_term_gradients,
    .print = print_channel};
constinit const Rule rules::kEdgesHalo = halo_rule<send_edges>("edges backward, halo rows");
constinit const Rule rules::kEdgesSources = sources_rule<send_edges>("edges backward, sources");
constinit const Rule rules::kEdgesTerms{.name = "edges backward, terms",
                                        .reach = Reach::kSum,
                                        .has_rows = false,
                                        .part = Part::kTerms,
                                        .lower = lower_terms};

}  // namespace atl
