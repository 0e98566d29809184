// Between the two ways in which the ranks that hold one part share its matrices
// (shard_columns.hpp).
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

constinit const Rule rules::kToColumns{.name = "to columns",
                                       .reach = Reach::kGroup,
                                       .rows_of = RowsOf::kPart,
                                       .span = "to columns",
                                       .lower = ask_for<RankWork::kToColumns>};
constinit const Rule rules::kToRows{.name = "to rows",
                                    .reach = Reach::kGroup,
                                    .span = "to rows",
                                    .lower = ask_for<RankWork::kToRows>};

}  // namespace atl
