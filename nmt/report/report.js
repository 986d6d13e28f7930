"use strict";
// Charts of the report: points are [update, minutes, value]; all charts have the same horizontal axis and zoom.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const axis = document.getElementById("axis");
  const logarithmic = document.getElementById("log");
  const area = { left: 56, right: 10, top: 8, bottom: 24 };
  let zoom = null; // [from, to] of the horizontal axis, or null for all
  const charts = data.charts.map(makeChart);
  const drawAll = () => charts.forEach((chart) => chart.draw());
  axis.addEventListener("change", () => { zoom = null; drawAll(); });
  logarithmic.addEventListener("change", drawAll);
  window.addEventListener("resize", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name); }
  function across(point) { return point[axis.value === "1" ? 1 : 0]; }

  function extent() {
    let low = Infinity, high = -Infinity;
    for (const chart of data.charts) for (const curve of chart.curves) if (curve.length) {
      low = Math.min(low, across(curve[0]));
      high = Math.max(high, across(curve[curve.length - 1]));
    }
    return low < high ? [low, high] : [low - 1, high + 1];
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(at);
    return found;
  }

  function shown(value) {
    const size = Math.abs(value);
    if (size >= 10000) return Math.round(value).toLocaleString("en");
    if (size !== 0 && size < 0.001) return value.toExponential(1);
    return String(+value.toPrecision(4));
  }

  function makeChart(chart) {
    const box = document.createElement("div");
    box.className = "chart";
    const title = document.createElement("h3");
    title.textContent = chart.title;
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", chart.title);
    const read = document.createElement("div");
    read.className = "read";
    box.append(title, canvas, read);
    document.getElementById("charts").append(box);
    const context = canvas.getContext("2d");
    let pressed = null, pointer = null;

    const span = () => zoom || extent();
    const width = () => canvas.clientWidth - area.left - area.right;
    const place = (x) => { const [a, b] = span(); return area.left + (x - a) / (b - a) * width(); };
    const value = (px) => { const [a, b] = span(); return a + (px - area.left) / width() * (b - a); };
    const scaled = (y) => logarithmic.checked ? Math.log10(Math.max(y, 1e-12)) : y;

    function bounds() {
      const [a, b] = span();
      let low = Infinity, high = -Infinity;
      chart.curves.forEach((curve, run) => {
        const widths = new Map(chart.bands[run] || []);
        for (const point of curve) {
          if (across(point) < a || across(point) > b || (logarithmic.checked && point[2] <= 0)) continue;
          const width = widths.get(point[0]) || 0, least = point[2] - width;
          low = Math.min(low, scaled(logarithmic.checked && least <= 0 ? point[2] : least));
          high = Math.max(high, scaled(point[2] + width));
        }
      });
      if (!(low <= high)) return [0, 1];
      const pad = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
      return [low - pad, high + pad];
    }

    function draw() {
      const ratio = window.devicePixelRatio || 1, height = canvas.clientHeight;
      canvas.width = canvas.clientWidth * ratio;
      canvas.height = height * ratio;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, canvas.clientWidth, height);
      context.font = "12px system-ui, sans-serif";
      const [low, high] = bounds(), [from, to] = span();
      const inner = height - area.top - area.bottom;
      const rise = (y) => area.top + (high - scaled(y)) / (high - low) * inner;
      context.strokeStyle = colour("--line");
      context.fillStyle = colour("--soft");
      context.lineWidth = 1;
      for (const at of ticks(low, high, 5)) {
        const y = area.top + (high - at) / (high - low) * inner;
        line(area.left, y, canvas.clientWidth - area.right, y);
        context.textAlign = "right";
        context.fillText(shown(logarithmic.checked ? 10 ** at : at), area.left - 6, y + 4);
      }
      for (const at of ticks(from, to, Math.max(2, width() / 90))) {
        context.textAlign = place(at) > canvas.clientWidth - 30 ? "right" : "center";
        context.fillText(shown(at), Math.min(place(at), canvas.clientWidth - 2), height - 6);
      }
      context.save();
      context.beginPath();
      context.rect(area.left, area.top, width(), inner);
      context.clip();
      chart.curves.forEach((curve, run) => { band(curve, run, rise); path(curve, run, rise); });
      context.restore();
      if (pressed !== null && pointer !== null) {
        context.fillStyle = colour("--soft") + "33";
        context.fillRect(Math.min(pressed, pointer), area.top, Math.abs(pointer - pressed), inner);
      } else if (pointer !== null) {
        context.strokeStyle = colour("--soft");
        line(pointer, area.top, pointer, height - area.bottom);
      }
    }

    function line(x0, y0, x1, y1) {
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }

    function band(curve, run, rise) {
      const widths = new Map(chart.bands[run] || []);
      const points = curve.filter((point) => widths.has(point[0]));
      if (points.length < 2) return;
      context.beginPath();
      points.forEach((point) => context.lineTo(place(across(point)), rise(point[2] + widths.get(point[0]))));
      points.slice().reverse().forEach((point) => context.lineTo(place(across(point)), rise(point[2] - widths.get(point[0]))));
      context.globalAlpha = 0.15;
      context.fillStyle = colour("--c" + run % 8);
      context.fill();
      context.globalAlpha = 1;
    }

    function path(curve, run, rise) {
      context.strokeStyle = context.fillStyle = colour("--c" + run % 8);
      context.lineWidth = 1.6;
      context.beginPath();
      for (const point of curve) context.lineTo(place(across(point)), rise(point[2]));
      context.stroke();
      if (curve.length <= 60) for (const point of curve) {
        context.beginPath();
        context.arc(place(across(point)), rise(point[2]), 2.4, 0, 7);
        context.fill();
      }
    }

    function tell() {
      if (pointer === null) { read.textContent = ""; return; }
      const at = value(pointer);
      read.replaceChildren(...chart.curves.flatMap((curve, run) => {
        if (!curve.length) return [];
        const near = curve.reduce((a, b) => Math.abs(across(b) - at) < Math.abs(across(a) - at) ? b : a);
        const key = document.createElement("span");
        key.className = "key c" + run % 8;
        key.title = data.runs[run];
        const unit = axis.value === "1" ? "min" : "updates";
        return [key, document.createTextNode(`${shown(near[2])} at ${shown(across(near))} ${unit}  `)];
      }));
    }

    const position = (event) => {
      const x = event.clientX - canvas.getBoundingClientRect().left;
      return Math.min(Math.max(x, area.left), canvas.clientWidth - area.right);
    };
    canvas.addEventListener("pointermove", (event) => { pointer = position(event); draw(); tell(); });
    canvas.addEventListener("pointerleave", () => { pointer = null; draw(); tell(); });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") { pressed = position(event); canvas.setPointerCapture(event.pointerId); }
    });
    canvas.addEventListener("pointerup", (event) => {
      const start = pressed;
      pressed = null;
      if (start !== null && Math.abs(position(event) - start) > 5) {
        zoom = [value(start), value(position(event))].sort((a, b) => a - b);
        drawAll();
      }
    });
    canvas.addEventListener("dblclick", () => { zoom = null; drawAll(); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = value(position(event)), [a, b] = span(), [least, most] = extent();
      const factor = event.deltaY > 0 ? 1.25 : 0.8;
      const next = [Math.max(least, at - (at - a) * factor), Math.min(most, at + (b - at) * factor)];
      zoom = next[0] <= least && next[1] >= most ? null : next;
      drawAll();
    }, { passive: false });
    return { draw };
  }
})();
