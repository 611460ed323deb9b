// Draws panels on canvases. Nothing here knows where the numbers come from.
import { BANDS, duration, edge, quantile } from "./cells.js";

export const LEFT = 66, TOP = 8, BOTTOM = 20, RIGHT = 6;
const NICE = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function amount(value, unit) {
  const space = unit.startsWith("/") ? "" : " ";
  for (const [size, prefix] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)}${prefix}${unit}`;
  return `${+value.toPrecision(3)}${space}${unit}`;
}

// A context in CSS pixels, as sharp as the screen is.
export function context(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  const wide = Math.round(width * ratio), high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11.5px system-ui, sans-serif";
  return [pen, width, height];
}

export const placeOf = (time, range, width) => LEFT + (time - range[0]) / (range[1] - range[0]) * (width - LEFT - RIGHT);
export const timeAt = (x, range, width) => range[0] + (x - LEFT) / (width - LEFT - RIGHT) * (range[1] - range[0]);

export const clock = (time, fine = true) => new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: fine ? "2-digit" : undefined, hourCycle: "h23" });

function nice(most) {
  if (!(most > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return NICE.find(each => each * size >= most * 0.999) * size;
}

// Time along the bottom, windows that do not count as a shade, a line where a trial begins.
function frame(pen, width, height, range, cells, trials) {
  const bottom = height - BOTTOM, span = range[1] - range[0];
  pen.fillStyle = colour("shade");
  for (const cell of cells) if (cell.window !== "measured") {
    const x = Math.max(LEFT, placeOf(cell.at, range, width)), until = Math.min(width - RIGHT, placeOf(cell.until, range, width));
    if (until > x) pen.fillRect(x, TOP, until - x, bottom - TOP);
  }
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  const step = steps.find(each => each >= span / Math.max(2, (width - LEFT) / 90)) ?? 86400;
  pen.textAlign = "center"; pen.textBaseline = "top";
  for (let time = Math.ceil(range[0] / step) * step; time <= range[1]; time += step) {
    const x = placeOf(time, range, width);
    pen.fillStyle = colour("grid"); pen.fillRect(x, TOP, 1, bottom - TOP);
    pen.fillStyle = colour("soft");
    if (x > LEFT + 18 && x < width - 26) pen.fillText(clock(time, step < 60), x, bottom + 5);
  }
  pen.fillStyle = colour("soft");
  const begun = trials.filter(trial => trial.info.start_s >= range[0] && trial.info.start_s <= range[1]);
  if (begun.length < (width - LEFT) / 24) for (const trial of begun) {
    const x = placeOf(trial.info.start_s, range, width);
    if (x >= LEFT && x <= width - RIGHT) for (let y = TOP; y < bottom; y += 6) pen.fillRect(Math.round(x), y, 1, 3);
  }
}

function scale(pen, width, height, most, unit) {
  const bottom = height - BOTTOM;
  pen.textAlign = "right"; pen.textBaseline = "middle";
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * (bottom - TOP);
    pen.fillStyle = colour("grid"); pen.fillRect(LEFT, y, width - LEFT - RIGHT, 1);
    pen.fillStyle = colour("soft"); pen.fillText(share ? amount(most * share, unit) : "0", LEFT - 5, y + (share === 1 ? 3 : 0));
  }
}

function inside(pen, width, height) {
  pen.save(); pen.beginPath(); pen.rect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM); pen.clip();
}

// Cells as columns of at least `least` pixels: narrower neighbours are taken together, each weighted by its length.
function columns(cells, range, width, valuesOf, least = 1.5) {
  const found = [];
  let open = null;
  for (const cell of cells) {
    const x = placeOf(cell.at, range, width), until = placeOf(cell.until, range, width), weight = cell.until - cell.at;
    if (open && (open.until - open.x >= least || x - open.until > 2)) open = null;
    if (!open) found.push(open = { x, until, weight: 0, values: new Map() });
    open.until = until; open.weight += weight;
    for (const [key, value] of valuesOf(cell)) open.values.set(key, (open.values.get(key) ?? 0) + value * weight);
  }
  for (const column of found) for (const [key, value] of column.values) column.values.set(key, column.weight ? value / column.weight : 0);
  return found;
}

// `keys` from the bottom up, each with its colour; what has no key of its own is `others`.
export function drawRates(canvas, { range, cells, trials, ratesOf, keys, stacked, unit }) {
  const [pen, width, height] = context(canvas), bottom = height - BOTTOM;
  const named = new Set(keys.map(key => key.name));
  const cols = columns(cells, range, width, cell => {
    const shown = new Map();
    for (const [key, rate] of ratesOf(cell)) { const to = named.has(key) ? key : "others"; shown.set(to, (shown.get(to) ?? 0) + rate); }
    return shown;
  });
  const most = nice(cols.reduce((top, { values }) => {
    let sum = 0;
    for (const rate of values.values()) sum = stacked ? sum + rate : Math.max(sum, rate);
    return Math.max(top, sum);
  }, 0));
  frame(pen, width, height, range, cells, trials);
  scale(pen, width, height, most, unit);
  inside(pen, width, height);
  const y = value => bottom - value / most * (bottom - TOP);
  if (stacked) for (const { x, until, values } of cols) {
    let sum = 0;
    for (const key of keys) {
      const rate = values.get(key.name) ?? 0;
      if (!rate) continue;
      pen.fillStyle = key.colour; pen.globalAlpha = key.faint ? 0.35 : 0.85;
      pen.fillRect(x, y(sum + rate), Math.max(1, until - x - (until - x > 6 ? 0.6 : 0)), Math.max(0.6, y(sum) - y(sum + rate)));
      sum += rate;
    }
  } else for (const key of keys) {
    pen.strokeStyle = key.colour; pen.lineWidth = 1.8; pen.globalAlpha = key.faint ? 0.35 : 1; pen.beginPath();
    let last = null;
    for (const { x, until, values } of cols) {
      const rate = values.get(key.name);
      if (rate === undefined) { last = null; continue; }
      if (last === null || x - last > 3) pen.moveTo(x, y(rate)); else pen.lineTo(x, y(rate));
      pen.lineTo(until, y(rate)); last = until;
    }
    pen.stroke();
  }
  pen.restore(); pen.globalAlpha = 1;
  return { valueAt: (top) => (bottom - top) / (bottom - TOP) * most };
}

function ramp(share) {
  const stops = ["h0", "h1", "h2", "h3"].map(colour).map(hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)));
  const at = Math.min(2.999, share * 3), low = Math.floor(at);
  return `rgb(${stops[low].map((value, index) => Math.round(value + (stops[low + 1][index] - value) * (at - low))).join(" ")})`;
}

// Rows are latency bands on a logarithm, columns time, colour the logarithm of the count; p50 and p99 as lines.
export function drawHeat(canvas, { range, cells, trials, bandsOf }) {
  const [pen, width, height] = context(canvas), bottom = height - BOTTOM;
  let low = Infinity, high = -Infinity;
  for (const cell of cells) for (const band of bandsOf(cell).keys()) { low = Math.min(low, +band); high = Math.max(high, +band); }
  frame(pen, width, height, range, cells, trials);
  if (!(high >= low)) return { bandAt: () => null, most: 0 };
  low = Math.floor(low / 8) * 8; high = Math.max(low + 16, Math.ceil((high + 1) / 8) * 8);
  const rows = high - low, merge = [1, 2, 4, 8, 16].find(each => (bottom - TOP) / (rows / each) >= 3) ?? 16;
  const y = band => bottom - (band - low) / rows * (bottom - TOP);
  const cols = columns(cells, range, width, cell => {
    const shown = new Map(), length = Math.max(1e-9, cell.until - cell.at);
    for (const [band, count] of bandsOf(cell)) { const row = low + Math.floor((+band - low) / merge) * merge; shown.set(row, (shown.get(row) ?? 0) + count / length); }
    return shown;
  }, 2);
  let most = 0;
  for (const { values, weight } of cols) for (const rate of values.values()) most = Math.max(most, rate * weight);
  inside(pen, width, height);
  const colours = Array.from({ length: 33 }, (_, index) => ramp(index / 32)), top = Math.log(Math.max(2, most));
  for (const { x, until, values, weight } of cols) for (const [row, rate] of values) {
    const count = rate * weight;
    pen.fillStyle = colours[Math.round(32 * Math.max(0, Math.min(1, Math.log(Math.max(1, count)) / top)))];
    // Whole pixels: seams between rows would look like stripes of the data.
    const above = Math.round(y(row + merge)), left = Math.round(x);
    pen.fillRect(left, above, Math.max(1, Math.round(until) - left), Math.max(1, Math.round(y(row)) - above));
  }
  pen.strokeStyle = colour("line"); pen.lineWidth = 1.6;
  for (const [q, dash] of [[0.5, []], [0.99, [5, 3]]]) {
    pen.setLineDash(dash); pen.beginPath();
    let last = null;
    for (const { x, until, values } of cols) {
      const time = quantile(spread(values, merge), q);
      if (time === null) { last = null; continue; }
      const at = y(Math.log10(time) * BANDS);
      if (last === null || x - last > 3) pen.moveTo(x, at); else pen.lineTo(x, at);
      pen.lineTo(until, at); last = until;
    }
    pen.stroke();
  }
  pen.setLineDash([]); pen.restore();
  pen.textAlign = "right"; pen.textBaseline = "middle"; pen.fillStyle = colour("soft");
  for (let decade = Math.ceil(low / BANDS); decade * BANDS <= high; decade++) {
    const at = y(decade * BANDS);
    pen.fillStyle = colour("rule"); pen.fillRect(LEFT - 3, at, 3, 1);
    pen.fillStyle = colour("soft"); if (at > TOP + 2) pen.fillText(duration(edge(decade * BANDS)), LEFT - 5, at);
  }
  return { bandAt: at => { const band = low + Math.floor((bottom - at) / (bottom - TOP) * rows / merge) * merge; return band < low || band >= high ? null : [band, band + merge]; }, most: Math.round(most) };
}

// Rows of several bands as bands again, so that a quantile does not depend on how tall the chart is.
function spread(values, merge) {
  const found = new Map();
  for (const [row, count] of values) for (let band = 0; band < merge; band++) found.set(row + band, count / merge);
  return found;
}

export function drawCursor(canvas, range, time) {
  const [pen, width, height] = context(canvas);
  if (time === null || time < range[0] || time > range[1]) return;
  pen.fillStyle = colour("ink");
  pen.fillRect(Math.round(placeOf(time, range, width)), TOP, 1, height - TOP - BOTTOM);
}

// The whole campaign: a block for each trial, what is shown now as a window on it.
export function drawMap(canvas, { extent, trials, endOf, range }) {
  const [pen, width, height] = context(canvas);
  if (!extent) return;
  const span = Math.max(1, extent[1] - extent[0]), x = time => (time - extent[0]) / span * width;
  pen.textBaseline = "middle"; pen.textAlign = "left";
  for (const trial of trials) {
    const from = x(trial.info.start_s), wide = Math.max(2, x(endOf(trial)) - from - 1), status = trial.info.status;
    pen.fillStyle = colour(status === "failed" || status === "stopped" ? "bad" : status === "running" ? "accent" : "good");
    pen.globalAlpha = 0.55; pen.fillRect(from, 8, wide, height - 16); pen.globalAlpha = 1;
    if (status === "failed" || status === "stopped") { pen.fillStyle = colour("ink"); pen.fillText("×", from + wide / 2 - 3, height / 2); }
    else if (wide > 34) { pen.fillStyle = colour("ink"); pen.fillText(`${trial.info.order + 1}`, from + 5, height / 2); }
  }
  pen.strokeStyle = colour("ink"); pen.lineWidth = 2;
  const from = Math.max(1, x(range[0])), until = Math.min(width - 1, x(range[1]));
  pen.strokeRect(from, 3, Math.max(3, until - from), height - 6);
}
