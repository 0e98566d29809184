// Parts that charts of the report share.
#pragma once

#include <cstddef>
#include <string>

namespace atl {

inline constexpr double kChartWidth = 560;  // of the drawing; the page scales it
inline constexpr int kPaletteColors = 8;    // --s0 .. --s7 of the page's style sheet

// A colour of the palette, again from its beginning behind its end.
std::string color(int index);
// Parts beyond the palette repeat its colours paler.
const char* opacity(std::size_t part);

std::string figure(const std::string& title, const std::string& body);
// data: further attributes, with a blank before each.
std::string open_svg(const std::string& title, double height, const std::string& data = "");
// anchor: "start", "middle" or "end".
std::string text_at(double x, double y, const char* anchor, const std::string& text);

}  // namespace atl
