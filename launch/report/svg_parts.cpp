#include "launch/report/svg_parts.hpp"

#include <fmt/format.h>

#include "launch/report/svg_chart.hpp"

namespace atl {

std::string color(int index) { return fmt::format("var(--s{})", index % kPaletteColors); }

const char* opacity(std::size_t part) {
  return part < static_cast<std::size_t>(kPaletteColors) ? "1" : "0.5";
}

std::string figure(const std::string& title, const std::string& body) {
  return fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escape_html(title),
                     body);
}

std::string open_svg(const std::string& title, double height, const std::string& data) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>\n", kChartWidth,
                     height, escape_html(title), data);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

}  // namespace atl
