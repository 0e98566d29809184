// The mean over in-neighbours along the edges of each relation, side by side.
#include <fmt/format.h>

#include "engine/program/operations/neighbourhood.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// Rows of one relation each.
MatrixView by_relation(MatrixView means, std::int64_t relations) {
  ATOLL_ASSERT(means.stride == means.cols);
  const std::int64_t columns = means.cols / relations;
  return {means.data, means.rows * relations, columns, columns, means.dtype};
}

void lower_relations(const Views& views, Requests& requests) {
  const std::int64_t relations = views.op().as<Relations>().count;
  const RowRange range = views.range();
  requests.take(kernels::Spmm{views.relations(Part::kForward),
                              {range.begin * relations, range.end * relations},
                              views.whole(views.input(0)),
                              0,
                              by_relation(views.inner(views.value()), relations)});
}

void send_relations(const Views& views, const Sources& sources, Requests& requests) {
  const std::int64_t relations = views.op().as<Relations>().count;
  const MatrixView dy = by_relation(views.inner(views.input(sources.first)), relations);
  const bool to_halo = sources.first == 0;
  const RowRange rows = to_halo ? RowRange{0, sources.rows.size()} : sources.rows;
  requests.take(kernels::Spmm{views.relations(to_halo ? Part::kHalo : Part::kSources), rows, dy, 0,
                              to_halo ? sources.to : views.inner(views.value())});
}

// Backward goes through relations by the one product that reads them.
Value through_relations(Gradients& gradients, Value reader, std::size_t /*i*/) {
  const Value dy = gradients.of(reader);
  ATOLL_ASSERT(gradients.at(dy).is(rules::kLinear), "{}", gradients.at(dy).rule->name);
  gradients.change(dy).packed = true;
  return append_sources(gradients, gradients.at(reader), rules::kRelationsHalo,
                        rules::kRelationsSources, {dy});
}

}  // namespace

constinit const Rule rules::kAggregateRelations{
    .name = "aggregate relations",
    .reach = Reach::kHalo,
    .part = Part::kForward,
    .reads = [](const Operation&, GraphData data) { return data == GraphData::kRelations; },
    .lower = lower_relations,
    .through = through_relations,
    .print =
        [](const Operation& op, std::string& text) {
          text += fmt::format(" {}", op.as<Relations>().count);
          print_channel(op, text);
        }};
constinit const Rule rules::kRelationsHalo =
    halo_rule<send_relations>("relations backward, halo rows");
constinit const Rule rules::kRelationsSources =
    sources_rule<send_relations>("relations backward, sources");

}  // namespace atl
