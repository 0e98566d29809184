// Script that shows the values of line charts under the pointer: without it the charts are as they
// are.
#pragma once

namespace atl {

// A <script> element, once per page. It reads the `data-chart` of each svg, in which values are
// texts already, finds the epoch next to the pointer and shows what every series has there.
extern const char* const kChartScript;
// Rules for what it draws.
extern const char* const kChartStyle;

}  // namespace atl
