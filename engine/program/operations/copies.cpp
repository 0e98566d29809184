// Values that nothing computes, and copies: of the features, to and from host memory, and of halo
// rows that are computed here.
#include <algorithm>

#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

void add_node_gradient(Gradients& gradients, Value v) {
  gradients.append({.rule = &rules::kNodeGradient,
                    .inputs = {gradients.of(v)},
                    .columns = gradients.columns(v),
                    .parameter = gradients.at(v).parameter});
}

// Without halo rows the features are as good as their copy.
void lower_copy(const Views& views, Requests& requests) {
  if (!views.has_place(views.value())) return;
  requests.take(kernels::ApplyEpilogue{views.in(0), {}, views.out()});
}

// The aggregate before has brought them, without factors: see compute_halo_rows.
void lower_take_computed(const Views& views, Requests& requests) {
  requests.take(kernels::GatherRows{views.whole(views.input(0)),
                                    views.computed().halo_rows,
                                    {},
                                    views.computed_rows(views.value())});
}

// As messages would bring them.
void lower_place_computed(const Views& views, Requests& requests) {
  const ComputedViews computed = views.computed();
  std::size_t first = 0;
  for (const RowRange& range : computed.ranges) {
    const auto size = static_cast<std::size_t>(range.size());
    requests.take(kernels::GatherRows{views.computed_rows(views.input(0)),
                                      computed.counting.subspan(first, size), computed.factors,
                                      views.whole(views.input(0)).rows_in(range)});
    first += size;
  }
}

}  // namespace

constinit const Rule rules::kFeatures{.name = "features", .is_leaf = true};
constinit const Rule rules::kNodeParameters{.name = "node parameters",
                                            .is_leaf = true,
                                            .is_trained = true,
                                            .parameters = add_node_gradient};
constinit const Rule rules::kParameter{.name = "parameter",
                                       .reach = Reach::kSmall,
                                       .has_rows = false,
                                       .is_leaf = true,
                                       .is_trained = true};
constinit const Rule rules::kCopy{
    .name = "copy", .span = "input dropout", .lower = lower_copy, .through = pass_on};

constinit const Rule rules::kStore{
    .name = "store", .reach = Reach::kBeside, .has_rows = false, .span = kNoSpan};
constinit const Rule rules::kFinishStore{
    .name = "finish store", .reach = Reach::kBeside, .has_rows = false, .span = kNoSpan};
constinit const Rule rules::kFetch{.name = "fetch", .reach = Reach::kBeside, .span = kNoSpan};
constinit const Rule rules::kFinishFetch{
    .name = "finish fetch", .reach = Reach::kBeside, .may_be_in = true, .span = kNoSpan};

constinit const Rule rules::kFetchComputed{.name = "fetch computed",
                                           .reach = Reach::kWhole,
                                           .has_rows = false,
                                           .span = kNoSpan,
                                           .lower = ask_for<RankWork::kFetchComputed>};
constinit const Rule rules::kTakeComputed{
    .name = "take computed", .span = kNoSpan, .lower = lower_take_computed};
constinit const Rule rules::kPlaceComputed{
    .name = "place computed", .has_rows = false, .lower = lower_place_computed};

}  // namespace atl
