#include "launch/report/chart_script.hpp"

namespace atl {

const char* const kChartStyle = R"css(
.tip { position: fixed; z-index: 1; pointer-events: none; padding: .4rem .6rem; font-size: .85rem;
  background: var(--page); border: 1px solid var(--quiet); border-radius: 6px;
  font-variant-numeric: tabular-nums; }
.tip div { display: flex; gap: .5rem; justify-content: space-between; }
.tip i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .4em; }
)css";

const char* const kChartScript = R"js(<script>
"use strict";
// The series' values at the epoch next to `pixel` of the drawing: null where none has any.
function valuesAt(chart, pixel) {
  const wanted = chart.low + (pixel - chart.left) / (chart.right - chart.left) *
    (chart.high - chart.low);
  let epoch = null;
  for (const series of chart.series) {
    for (const [x] of series.points) {
      if (epoch === null || Math.abs(x - wanted) < Math.abs(epoch - wanted)) epoch = x;
    }
  }
  if (epoch === null) return null;
  const rows = [];
  for (const series of chart.series) {
    const found = series.points.find(([x]) => x === epoch);
    if (found) rows.push({name: series.name, color: series.color, value: found[1]});
  }
  return {epoch, rows};
}
function showValues(svg, tip) {
  const chart = JSON.parse(svg.dataset.chart);
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    const found = valuesAt(chart, (event.clientX - place.left) / place.width * chart.width);
    if (found === null) return;
    tip.replaceChildren();
    const head = document.createElement("b");
    head.textContent = `${chart.label} ${found.epoch}`;
    tip.append(head);
    for (const row of found.rows) {
      const line = document.createElement("div");
      const name = document.createElement("span");
      const mark = document.createElement("i");
      const value = document.createElement("span");
      mark.style.background = row.color;
      name.append(mark, row.name);
      value.textContent = row.value;
      line.append(name, value);
      tip.append(line);
    }
    tip.hidden = false;
    const right = event.clientX + 16 + tip.offsetWidth < window.innerWidth;
    tip.style.left = `${right ? event.clientX + 16 : event.clientX - 16 - tip.offsetWidth}px`;
    tip.style.top = `${event.clientY + 12}px`;
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}
if (typeof document !== "undefined") {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const svg of document.querySelectorAll("svg[data-chart]")) showValues(svg, tip);
}
</script>
)js";

}  // namespace atl
