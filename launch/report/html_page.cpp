#include "launch/report/html_page.hpp"

#include <fmt/format.h>

#include "launch/report/svg_chart.hpp"

namespace atl {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --page: #ffffff; --text: #1c2430; --quiet: #5d6878; --line: #d9dee5; --panel: #f6f8fa;
  --s0: #2563eb; --s1: #d9480f; --s2: #0f8a4b; --s3: #a21caf; --s4: #b58100; --s5: #0e7490;
  --s6: #be123c; --s7: #57534e;
  --w0: #f5d327; --w1: #8fc93f; --w2: #2ba884; --w3: #2a788e; --w4: #414c8f; --w5: #45185c; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --text: #e4e8ee; --quiet: #98a3b3; --line: #303a47; --panel: #1a2028;
  --s0: #7aa2ff; --s1: #ff9060; --s2: #4ade80; --s3: #e58bf5; --s4: #f2c14e; --s5: #4fd1e5;
  --s6: #ff7b93; --s7: #b8b2ab;
  --w0: #f5d327; --w1: #8fc93f; --w2: #2ba884; --w3: #3b93ad; --w4: #7b86d4; --w5: #c39bd8; } }
body { background: var(--page); color: var(--text); margin: 0 auto; padding: 2rem 1.5rem 3rem;
  max-width: 1240px; font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.5rem; font-weight: 650; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; font-weight: 650; margin: 2.2rem 0 .8rem; }
h3 { font-size: .92rem; font-weight: 650; margin: 1rem 0 .3rem; }
p { margin: .3rem 0; } .quiet { color: var(--quiet); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .9rem; }
.legend i, td i { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .45em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr));
  gap: 1.2rem; }
figure { margin: 0; padding: .9rem 1rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis, svg .tick { stroke: var(--quiet); stroke-width: 1; }
svg .mark { stroke-width: 1.2; stroke-dasharray: 3 3; opacity: .75; }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
dl { columns: 15rem; column-gap: 2rem; margin: 0; font-size: .88rem; }
dl div { break-inside: avoid; display: flex; gap: .6rem; justify-content: space-between;
  border-bottom: 1px solid var(--line); padding: .2rem 0; }
dt { color: var(--quiet); } dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .7rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
td.number, td.line { white-space: nowrap; }
th { overflow-wrap: normal; color: var(--quiet); font-weight: 600; background: var(--panel); }
tbody tr + tr td { border-top: 1px solid var(--line); }
td.number, th.number { text-align: right; }
@media (max-width: 620px) { body { padding: 1.2rem .8rem 2rem; } svg text { font-size: 15px; } }
)css";

}  // namespace

std::string html_page(const std::string& title, const std::string& style, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Atoll: {}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape_html(title), kStyle, style, body);
}

}  // namespace atl
