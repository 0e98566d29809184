// The median of measured values.
#pragma once

#include <vector>

namespace atl {

// The median of values that are not NaN: the mean of the two middle ones of an even number; NaN if
// there is none.
double median(std::vector<double> values);

}  // namespace atl
