// The histogram of a page: of all that the map shows, of one column, or of each column in turn; zoom over values; counts plain or as
// logarithms. It draws over the picture that the page came with.
(() => {
  const map = document.querySelector("svg.hm .hm-data"), holder = document.querySelector(".hm-histogram");
  if (!map || !holder) return;
  const data = JSON.parse(map.textContent), root = map.closest("svg"), SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent, text) => {
    const made = name === "button" || name === "div" || name === "input" || name === "output"
      ? document.createElement(name) : document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const short = (count) => (count < 1e4 ? String(count) : count < 1e6 ? Number((count / 1e3).toPrecision(3)) + "k" : Number((count / 1e6).toPrecision(3)) + "M");
  const digits = (value) => String(Number(value.toPrecision(4)));
  const counts = Array.from({ length: data.columns }, () => new Array(data.rows).fill(0)), all = new Array(data.rows).fill(0);
  for (let i = 0; i < data.cells.length; i += 3) {
    counts[data.cells[i]][data.cells[i + 1]] += data.cells[i + 2];
    all[data.cells[i + 1]] += data.cells[i + 2];
  }
  const state = { log: true, low: 0, high: data.rows, column: null, from: 0, to: data.columns, timer: null };
  const time = (column) => Number((data.begin + column * data.column).toPrecision(10));

  const tools = make("div", { class: "tools" });
  holder.before(tools);
  const play = make("button", { type: "button" }, tools, "play");
  const slider = make("input", { type: "range", min: 0, max: data.columns - 1, value: 0, "aria-label": "column" }, tools);
  const said = make("output", {}, tools, "all columns");
  const every = make("button", { type: "button" }, tools, "all columns");
  const log = make("button", { type: "button", "aria-pressed": "true" }, tools, "log counts");
  const near = make("button", { type: "button" }, tools, "outliers only");
  const reset = make("button", { type: "button" }, tools, "all values");

  const stop = () => { clearInterval(state.timer); state.timer = null; play.textContent = "play"; };
  const show = (column) => {
    state.column = column;
    if (column !== null) slider.value = column;
    draw();
  };
  const next = () => show(state.column === null || state.column >= data.columns - 1 ? 0 : state.column + 1);
  play.addEventListener("click", () => {
    if (state.timer) return stop();
    // Who asked for less motion steps by hand.
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return next();
    play.textContent = "pause";
    next();
    state.timer = setInterval(() => { if (state.column >= data.columns - 1) stop(); else next(); }, 200);
  });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  every.addEventListener("click", () => { stop(); show(null); });
  log.addEventListener("click", () => { state.log = !state.log; log.setAttribute("aria-pressed", String(state.log)); draw(); });
  reset.addEventListener("click", () => { state.low = 0; state.high = data.rows; draw(); });
  near.addEventListener("click", () => {
    // The rows of the upper hundredth.
    const total = all.reduce((a, b) => a + b, 0);
    let above = 0, row = data.rows;
    while (row > 0 && above + all[row - 1] <= total / 100) above += all[--row];
    state.low = Math.min(row, data.rows - 1);
    state.high = data.rows;
    draw();
  });
  root.addEventListener("hm-column", (event) => { stop(); show(event.detail.column); });
  root.addEventListener("hm-range", (event) => {
    const range = event.detail, place = (at) => Math.round((at - data.begin) / data.column);
    state.from = range ? place(range.from) : 0;
    state.to = range ? place(range.to) : data.columns;
    draw();
  });

  const LEFT = 104, WIDTH = 778, TOP = 30, TALL = 220;
  let drag = null;
  function draw() {
    const { low, high, column } = state, svg = holder.querySelector("svg");
    svg.replaceChildren();
    const seen = new Array(data.rows).fill(0);
    for (let at = state.from; at < state.to; at++) counts[at].forEach((count, row) => { seen[row] += count; });
    const mine = column === null ? seen : counts[column];
    const most = Math.max(1, ...mine.slice(low, high));
    const tall = (count, top) => (count ? TALL * (state.log ? (Math.log10(count) + 0.3) / (Math.log10(top) + 0.4) : count / top / 1.03) : 0);
    const total = mine.reduce((a, b) => a + b, 0);
    const label = column === null ? (state.to - state.from < data.columns ? "columns seen" : "all columns") : time(column) + " to " + time(column + 1) + " " + data.time;
    said.textContent = label + ": " + String(total).replace(/\B(?=(\d{3})+$)/g, "\u202f") + " events";
    make("text", { class: "axis", x: 12, y: 17 }, svg, "events a row" + (state.log ? " (log)" : "") + ", " + label);
    make("rect", { class: "plate", x: LEFT, y: TOP, width: WIDTH, height: TALL }, svg);
    const ticks = [];
    if (state.log) for (let p = 0; 10 ** p <= most; p++) ticks.push(10 ** p);
    else ticks.push(most / 2, most);
    for (const tick of ticks) {
      const y = TOP + TALL - tall(tick, most);
      make("path", { class: "rule", d: `M${LEFT} ${y}h${WIDTH}` }, svg);
      make("text", { class: "tick", x: LEFT - 8, y: y + 4.5, "text-anchor": "end" }, svg, short(Math.round(tick)));
    }
    const wide = WIDTH / (high - low), whole = Math.max(1, ...seen.slice(low, high));
    for (let row = low; row < high; row++) {
      const x = LEFT + (row - low) * wide;
      const bar = (name, height) => height && make("rect", { class: name, x, y: TOP + TALL - height, width: Math.max(1, wide - 0.4), height }, svg);
      if (column !== null) bar("ghost", tall(seen[row], whole));
      bar(column === null ? "bar" : "now", tall(mine[row], most));
    }
    let last = -Infinity;
    const room = matchMedia("(max-width: 640px)").matches ? 130 : 70;
    for (let row = Math.max(low, data.first); row <= Math.min(high, data.first + data.edges.length - 1); row++) {
      const x = LEFT + (row - low) * wide;
      if (x - last < room) continue;
      last = x;
      make("path", { class: "tick", d: `M${x} ${TOP + TALL}v5` }, svg);
      make("text", { class: "tick", x, y: TOP + TALL + 21, "text-anchor": "middle" }, svg, String(Number(data.edges[row - data.first].toPrecision(3))));
    }
    make("text", { class: "axis", x: LEFT + WIDTH, y: TOP + TALL + 46, "text-anchor": "end" }, svg,
      data.unit + (data.over !== null && high > data.over ? "; the last bar is all above " + digits(data.edges[data.edges.length - 1]) : ""));
    const over = make("rect", { class: "hm-over", x: LEFT, y: TOP, width: WIDTH, height: TALL }, svg);
    const frame = make("rect", { class: "hm-drag", y: TOP, height: TALL, display: "none" }, svg);
    const at = (event) => {
      const box = over.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    over.addEventListener("pointerdown", (event) => { drag = at(event); over.setPointerCapture(event.pointerId); });
    over.addEventListener("pointermove", (event) => {
      if (drag === null) return;
      const here = at(event);
      frame.setAttribute("display", "inline");
      frame.setAttribute("x", LEFT + WIDTH * Math.min(drag, here));
      frame.setAttribute("width", WIDTH * Math.abs(drag - here));
    });
    over.addEventListener("pointerup", (event) => {
      const from = drag, here = at(event);
      drag = null;
      if (from === null || Math.abs(from - here) < 0.01) return frame.setAttribute("display", "none");
      state.low = low + Math.floor(Math.min(from, here) * (high - low));
      state.high = Math.max(state.low + 1, low + Math.ceil(Math.max(from, here) * (high - low)));
      draw();
    });
    over.addEventListener("dblclick", () => { state.low = 0; state.high = data.rows; draw(); });
  }
  draw();
})();
