// How messages travelled, as the ranks that hold a part together tell it: each knows of its slice.
#pragma once

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

// On the first of `members` that of all slices, on others their own; nothing if it is no news to
// any of them: a slice without columns has none. Columns, rows and bytes of a channel are those of
// all slices: each slice of a row is a message. Widths that slices chose by themselves are counted
// together; their choice is described by the slowest and the worst. For modes that send all
// messages. Collective.
std::optional<ExchangeReport> report_of_group(const std::optional<ExchangeReport>& own,
                                              Transport& members);

}  // namespace atl
