// A chart of curves as SVG: redrawn as a whole, since it is small. Beside it stands the same as a table.

const NS = "http://www.w3.org/2000/svg", AREA = { left: 52, right: 12, top: 10, bottom: 26, height: 240 };
const MOST_DOTS = 60;
const svg = (tag, attributes, text) => {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough * .999), found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(+at.toPrecision(9));
  return found;
}

function shown(value) {
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString();
  return size && size < .001 ? value.toExponential(1) : String(+value.toPrecision(4));
}

// curves: each { points: [[x, y, half width of its interval or none], ...] }; span: [from, to], or all; low, high:
// bounds of the other axis, else those of the points. on_zoom gets a span that was drawn with the pointer, or null.
export function chart({ label, curves, span, low, high, log, unit = "", on_zoom }) {
  const width = Math.max(220, Math.min(440, innerWidth - 80));
  const y_of = log ? y => Math.log10(Math.max(y, 1e-12)) : y => y, all = curves.flatMap(one => one.points);
  const xs = all.map(one => one[0]), [from, to] = span || (xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1]);
  const is_seen = one => one[0] >= from && one[0] <= to && (!log || one[1] > 0), right = to > from ? to : from + 1;
  const ys = all.filter(is_seen).flatMap(([, y, w = 0]) => [y_of(log && y <= w ? y : y - w), y_of(y + w)]);
  let bottom = low ?? Math.min(...ys), top = high ?? Math.max(...ys);
  if (!Number.isFinite(bottom)) [bottom, top] = [0, 1];
  const about = bottom < top ? 0 : Math.abs(bottom / 2) || 1; // around a curve that is level
  [bottom, top] = [bottom - about, top + about];
  const pad = (top - bottom) * .06;
  if (low === undefined) bottom -= pad;
  if (high === undefined) top += pad;
  const inner = width - AREA.left - AREA.right, tall = AREA.height - AREA.top - AREA.bottom;
  const x = at => AREA.left + (at - from) / (right - from) * inner;
  const y = at => AREA.top + (top - y_of(at)) / (top - bottom) * tall;
  const box = svg("svg", { viewBox: `0 0 ${width} ${AREA.height}`, role: "img", "aria-label": label, class: "chart" });
  const scale = log ? at => 10 ** at : at => at;
  for (const at of ticks(bottom, top, 4)) {
    const place = AREA.top + (top - at) / (top - bottom) * tall;
    box.append(svg("path", { class: "grid", d: `M${AREA.left} ${place}H${width - AREA.right}` }));
    box.append(svg("text", { x: AREA.left - 6, y: place + 4, "text-anchor": "end" }, shown(scale(at))));
  }
  const across = ticks(from, right, 4), room = 7 * (shown(across.at(-1)) + unit).length + 12;
  across.forEach((at, n) => {
    const is_last = n === across.length - 1, is_late = x(at) > width - room;
    if (is_late && !is_last) return;
    const anchor = !is_last ? "middle" : is_late ? "end" : unit ? "start" : "middle";
    box.append(svg("text", { x: is_late ? width - 2 : x(at), y: AREA.height - 7, "text-anchor": anchor },
      shown(at) + (is_last && unit ? " " + unit : "")));
  });
  const line = list => list.map(([a, b], n) => `${n ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  curves.forEach(({ points }, n) => {
    const seen = points.filter(is_seen), banded = seen.filter(one => one[2]);
    if (banded.length > 1) {
      const back = banded.map(([a, b, w]) => [a, log ? Math.max(b - w, b / 10) : b - w]).reverse();
      const upper = banded.map(([a, b, w]) => [a, b + w]);
      box.append(svg("path", { class: `band c${n % 8}`, d: line([...upper, ...back]) + "Z" }));
    }
    box.append(svg("path", { class: `curve c${n % 8}`, d: line(seen) }));
    if (seen.length <= MOST_DOTS)
      for (const [a, b] of seen) {
        const dot = svg("circle", { class: `dot c${n % 8}`, cx: x(a), cy: y(b), r: 3 });
        dot.append(svg("title", {}, `${shown(a)}: ${shown(b)}`)); // what the pointer is told
        box.append(dot);
      }
  });
  if (on_zoom) zoomable(box, width, at => from + (at - AREA.left) / inner * (right - from), on_zoom);
  return box;
}

function zoomable(box, width, value, on_zoom) {
  const place = event => {
    const at = (event.clientX - box.getBoundingClientRect().left) / box.clientWidth * width;
    return Math.min(Math.max(at, AREA.left), width - AREA.right);
  };
  const drawn = svg("rect", { class: "drawn", y: AREA.top, height: AREA.height - AREA.top - AREA.bottom });
  let start = null;
  box.addEventListener("pointerdown", event => {
    if (event.pointerType !== "mouse") return;
    start = place(event);
    box.setPointerCapture(event.pointerId);
    drawn.setAttribute("width", 0);
    box.append(drawn);
  });
  box.addEventListener("pointermove", event => {
    if (start === null) return;
    drawn.setAttribute("x", Math.min(start, place(event)));
    drawn.setAttribute("width", Math.abs(place(event) - start));
  });
  box.addEventListener("pointerup", event => {
    const ends = [start, place(event)].sort((a, b) => a - b);
    if (start !== null && ends[1] - ends[0] > 5) on_zoom(ends.map(value));
    start = null;
    drawn.remove();
  });
  box.addEventListener("dblclick", () => on_zoom(null));
}
