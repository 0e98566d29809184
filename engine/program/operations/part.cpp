// Between the two ways in which the ranks that hold one part share its matrices
// (shard_columns.hpp).
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

namespace {

template <RankWork kWork>
void ask_group(const Views& views, Requests& requests) {
  requests.take_work(kWork, views);
}

}  // namespace

constinit const Rule rules::kToColumns{.name = "to columns",
                                       .reach = Reach::kGroup,
                                       .rows_of = RowsOf::kPart,
                                       .span = "to columns",
                                       .lower = ask_group<RankWork::kToColumns>};
constinit const Rule rules::kToRows{.name = "to rows",
                                    .reach = Reach::kGroup,
                                    .span = "to rows",
                                    .lower = ask_group<RankWork::kToRows>};

}  // namespace atl
