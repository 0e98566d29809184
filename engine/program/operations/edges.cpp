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

Value through_edges(Gradients& gradients, Value reader, std::size_t i) {
  if (i > 0) return kNoValue;  // a weight or a bias, which have no rows
  const Operation edges = gradients.at(reader);
  return append_sources(gradients, edges, rules::kEdgesHalo, rules::kEdgesSources,
                        with_inputs_of(edges, {gradients.of(reader)}));
}

void add_term_gradients(Gradients& gradients, Value v) {
  const Operation edges = gradients.at(v);
  Operation terms = part_of(edges, rules::kEdgesTerms);
  terms.inputs = with_inputs_of(edges, {gradients.of(v)});
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
