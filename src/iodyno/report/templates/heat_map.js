// Makes heat maps answer: what is under the pointer, the histogram of a column, zoom, lines on and off. It asks for nothing and stores
// nothing; without it the picture is complete. Data of a map (JSON in its metadata): cells as column, row, count, column, row, count, ...
// with row 0 at the bottom, `edges` of the grid's rows in `unit` (row `first` is the grid's first), begin and column in `time`.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent, text) => {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const whole = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const digits = (value, most = 4) => String(Number(value.toPrecision(most)));
  const percent = (part) => (part === 0 ? "0" : part < 0.001 ? "< 0.1" : (100 * part).toFixed(part < 0.0995 ? 2 : 1)) + " %";
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const steps = (low, high, most) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((each) => each * power >= rough * 0.999999) * power, found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12) + 1e-12; n++) found.push(Number((n * step).toPrecision(10)));
    return found;
  };

  class Map_ {
    constructor(root, data) {
      Object.assign(this, { root, data, chosen: null, at: null, drag: null });
      this.plot = root.querySelector(".hm-plot");
      const number = (name) => Number(this.plot.getAttribute(name));
      this.box = { x: number("x"), y: number("y"), width: number("width"), height: number("height") };
      this.counts = Array.from({ length: data.columns }, () => new Map());
      for (let i = 0; i < data.cells.length; i += 3) this.counts[data.cells[i]].set(data.cells[i + 1], data.cells[i + 2]);
      this.totals = this.counts.map((cells) => [...cells.values()].reduce((a, b) => a + b, 0));
      this.view = this.whole();
      root.setAttribute("role", "group");
      this.back = make("g", { class: "hm-back" }, root);
      this.select = make("rect", { class: "hm-chosen", y: this.box.y, height: this.box.height, display: "none" }, root);
      this.mark = make("rect", { class: "hm-mark", display: "none" }, root);
      this.frame = make("rect", { class: "hm-drag", display: "none" }, root);
      this.over = make("rect", { class: "hm-over hm-focus", tabindex: 0, role: "application", ...this.box,
        "aria-label": "Cells. Arrow keys move, Enter shows the column's histogram, plus and minus zoom, Escape goes back." }, root);
      this.reset = make("g", { class: "hm-reset", role: "button", tabindex: 0, display: "none" }, root);
      make("rect", { class: "hm-hit", x: this.box.x + this.box.width - 94, y: this.box.y - 30, width: 94, height: 24, rx: 4 }, this.reset);
      make("text", { x: this.box.x + this.box.width - 47, y: this.box.y - 13, "text-anchor": "middle" }, this.reset, "whole map");
      this.tip = make("g", { class: "hm-tip", "aria-live": "polite", display: "none" }, root);
      this.listen();
    }

    whole() { return { left: 0, right: this.data.columns, low: 0, high: this.data.rows }; }

    listen() {
      const over = this.over;
      over.addEventListener("pointermove", (event) => this.move(event));
      over.addEventListener("pointerleave", () => { if (!this.drag) this.point(null); });
      over.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        this.drag = this.place(event);
        try { over.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ }
      });
      over.addEventListener("pointerup", (event) => this.release(event));
      over.addEventListener("pointercancel", () => { this.drag = null; this.frame.setAttribute("display", "none"); });
      over.addEventListener("dblclick", () => this.zoom(this.whole()));
      over.addEventListener("blur", () => this.point(null));
      over.addEventListener("keydown", (event) => this.key(event));
      const button = (element, act) => {
        element.addEventListener("click", act);
        element.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
        });
      };
      button(this.reset, () => { this.zoom(this.whole()); over.focus(); });
      for (const toggle of this.root.querySelectorAll(".hm-toggle")) {
        const name = toggle.dataset.overlay;
        // Small multiples have one legend, in the last of them.
        const roots = [...document.querySelectorAll("svg.hm")].filter((each) => each === this.root || !each.querySelector(".hm-toggle"));
        const lines = roots.flatMap((root) => [...root.querySelectorAll(".hm-overlay")]).filter((each) => each.dataset.overlay === name);
        toggle.setAttribute("role", "button");
        toggle.setAttribute("tabindex", "0");
        toggle.setAttribute("aria-label", "line of " + name);
        toggle.setAttribute("aria-pressed", String(!lines[0].classList.contains("hm-off")));
        button(toggle, () => {
          const shown = toggle.getAttribute("aria-pressed") !== "true";
          toggle.setAttribute("aria-pressed", String(shown));
          for (const line of lines) line.classList.toggle("hm-off", !shown);
        });
      }
    }

    // Where a pointer is: in the drawing's units, and in columns and rows (fractions).
    place(event) {
      const box = this.over.getBoundingClientRect(), { left, right, low, high } = this.view;
      const across = clamp((event.clientX - box.left) / box.width, 0, 1), up = clamp(1 - (event.clientY - box.top) / box.height, 0, 1);
      return {
        x: this.box.x + across * this.box.width, y: this.box.y + (1 - up) * this.box.height,
        column: left + across * (right - left), row: low + up * (high - low),
      };
    }

    move(event) {
      const here = this.place(event);
      if (this.drag && this.far(here)) {
        const { x, y } = this.drag;
        const size = { x: Math.min(x, here.x), y: Math.min(y, here.y), width: Math.abs(x - here.x), height: Math.abs(y - here.y) };
        for (const key in size) this.frame.setAttribute(key, size[key]);
        this.frame.removeAttribute("display");
        return this.point(null);
      }
      this.point({ column: this.inside(here.column, "columns"), row: this.inside(here.row, "rows") });
    }

    far(here) { return Math.abs(here.x - this.drag.x) > 6 || Math.abs(here.y - this.drag.y) > 6; }
    inside(at, name) { return clamp(Math.floor(at), 0, this.data[name] - 1); }

    release(event) {
      const from = this.drag, here = this.place(event);
      if (!from) return;
      const dragged = this.far(here);
      this.drag = null;
      this.frame.setAttribute("display", "none");
      if (!dragged) return this.choose(this.inside(here.column, "columns"));
      const flat = Math.abs(from.y - here.y) < 8, narrow = Math.abs(from.x - here.x) < 8;
      this.zoom({
        left: narrow ? this.view.left : Math.floor(Math.min(from.column, here.column)),
        right: narrow ? this.view.right : Math.ceil(Math.max(from.column, here.column)),
        low: flat ? this.view.low : Math.floor(Math.min(from.row, here.row)),
        high: flat ? this.view.high : Math.ceil(Math.max(from.row, here.row)),
      });
    }

    key(event) {
      const at = this.at || { column: Math.floor((this.view.left + this.view.right) / 2), row: Math.floor((this.view.low + this.view.high) / 2) };
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      const wide = this.view.right - this.view.left, tall = this.view.high - this.view.low;
      if (event.key in moves) {
        const [across, up] = moves[event.key], many = event.shiftKey ? 10 : 1;
        this.point({
          column: clamp(at.column + across * many, this.view.left, this.view.right - 1),
          row: clamp(at.row + up * many, this.view.low, this.view.high - 1),
        });
      } else if (event.key === "Home" || event.key === "End") {
        this.point({ column: event.key === "Home" ? this.view.left : this.view.right - 1, row: at.row });
      } else if (event.key === "Enter" || event.key === " ") {
        this.choose(at.column);
      } else if (event.key === "+" || event.key === "=" || event.key === "-") {
        const part = event.key === "-" ? 1 : 0.25;
        const left = clamp(Math.floor(at.column - wide * part), 0, this.data.columns - 1), low = clamp(Math.floor(at.row - tall * part), 0, this.data.rows - 1);
        this.zoom({ left, right: clamp(Math.ceil(at.column + wide * part), left + 1, this.data.columns),
          low, high: clamp(Math.ceil(at.row + tall * part), low + 1, this.data.rows) });
        this.point(at);
      } else if (event.key === "Escape") {
        if (this.chosen !== null) this.choose(this.chosen); else this.zoom(this.whole());
      } else return;
      event.preventDefault();
    }

    time(column) { return Number((this.data.begin + column * this.data.column).toPrecision(10)); }

    range(row) {
      const { edges, unit, first, over, under } = this.data;
      if (row === over) return "above " + digits(edges[edges.length - 1]) + " " + unit;
      if (row === under) return "below " + digits(edges[0]) + " " + unit;
      return digits(edges[row - first]) + " to " + digits(edges[row - first + 1]) + " " + unit;
    }

    // Marks a cell and says what is in it; null: none.
    point(at) {
      this.at = at;
      for (const each of [this.mark, this.tip]) each.setAttribute("display", at ? "inline" : "none");
      if (!at) return;
      const { left, right, low, high } = this.view, { x, y, width, height } = this.box;
      const wide = width / (right - left), tall = height / (high - low);
      const cell = { x: x + (at.column - left) * wide, y: y + (high - 1 - at.row) * tall, width: wide, height: tall };
      for (const key in cell) this.mark.setAttribute(key, cell[key]);
      const cells = this.counts[at.column], count = cells.get(at.row) || 0, total = this.totals[at.column];
      let below = 0;
      for (const [row, many] of cells) if (row <= at.row) below += many;
      this.say([
        this.time(at.column) + " to " + this.time(at.column + 1) + " " + this.data.time + ", " + this.range(at.row),
        whole(count) + (count === 1 ? " event" : " events") + (total ? ", " + percent(count / total) + " of " + whole(total) + " in the column" : ""),
        total ? percent(below / total) + " of the column here or below" : "the column is empty",
      ], cell);
    }

    say(lines, cell) {
      this.tip.replaceChildren();
      const plate = make("rect", { rx: 4 }, this.tip), words = lines.map((line) => make("text", {}, this.tip, line));
      const size = parseFloat(getComputedStyle(words[0]).fontSize) || 13;
      const width = Math.max(...words.map((word) => word.getComputedTextLength())) + 20, height = words.length * size * 1.35 + 12;
      const total = this.root.viewBox.baseVal;
      let x = cell.x + cell.width + 12, y = cell.y - height - 8;
      if (x + width > total.width - 4) x = cell.x - width - 12;
      x = clamp(x, 4, Math.max(4, total.width - width - 4));
      if (y < 4) y = cell.y + cell.height + 10;
      for (const [key, value] of Object.entries({ x, y, width, height })) plate.setAttribute(key, value);
      words.forEach((word, line) => { word.setAttribute("x", x + 10); word.setAttribute("y", y + 4 + size * 1.35 * (line + 0.85)); });
    }

    // The histogram of one column beside the plot; the same once more: of all that is seen.
    choose(column) {
      this.chosen = this.chosen === column ? null : column;
      this.redraw();
      this.root.dispatchEvent(new CustomEvent("hm-column", { bubbles: true, detail: { column: this.chosen } }));
    }

    zoom(view) {
      this.view = view;
      const { left, right, low, high } = view;
      const part = right - left < this.data.columns || high - low < this.data.rows;
      this.plot.setAttribute("viewBox", [left, this.data.rows - high, right - left, high - low].join(" "));
      const strip = this.root.querySelector(".hm-strip");
      if (strip) {
        this.stripBox = this.stripBox || strip.getAttribute("viewBox").split(" ").map(Number);
        const [x, y, width, height] = this.stripBox, each = width / this.data.columns;
        strip.setAttribute("viewBox", [x + left * each, y, (right - left) * each, height].join(" "));
      }
      this.root.classList.toggle("hm-zoomed", part);
      this.reset.setAttribute("display", part ? "inline" : "none");
      this.point(null);
      this.redraw();
      const range = { from: this.data.begin + left * this.data.column, to: this.data.begin + right * this.data.column, unit: this.data.time };
      this.root.dispatchEvent(new CustomEvent("hm-range", { bubbles: true, detail: part ? range : null }));
    }

    redraw() {
      this.back.replaceChildren();
      const { left, right, low, high } = this.view, { x, y, width, height } = this.box;
      const part = this.root.classList.contains("hm-zoomed");
      if (part) this.axes();
      const seen = this.chosen !== null && this.chosen >= left && this.chosen < right;
      this.select.setAttribute("display", seen ? "inline" : "none");
      if (seen) {
        this.select.setAttribute("x", x + (this.chosen - left) * width / (right - left));
        this.select.setAttribute("width", Math.max(2, width / (right - left)));
      }
      const plate = this.root.querySelector(".hm-marginal-plate");
      this.root.classList.toggle("hm-own", Boolean(plate) && (part || this.chosen !== null));
      if (plate && (part || this.chosen !== null)) this.bars(plate);
    }

    bars(plate) {
      const { left, right, low, high } = this.view, { y, height } = this.box;
      const rows = new Array(high - low).fill(0);
      const columns = this.chosen !== null ? [this.chosen] : [...this.counts.keys()].slice(left, right);
      for (const column of columns) for (const [row, count] of this.counts[column]) if (row >= low && row < high) rows[row - low] += count;
      const most = Math.max(...rows, 1), tall = height / rows.length;
      const number = (name) => Number(plate.getAttribute(name)), x = number("x"), room = number("width");
      rows.forEach((count, row) => {
        if (count) make("rect", { class: "bar", x, y: y + height - (row + 1) * tall, width: Math.max(1.5, room * count / most), height: tall }, this.back);
      });
      const label = this.chosen !== null ? this.time(this.chosen) + " " + this.data.time + ": " + whole(this.totals[this.chosen]) : "events seen";
      make("text", { class: "small", x: x + room, y: y - 8, "text-anchor": "end" }, this.back, label);
      make("text", { class: "tick", x: x + room, y: y + height + 21, "text-anchor": "end" }, this.back, whole(most));
    }

    axes() {
      const { left, right, low, high } = this.view, { x, y, width, height } = this.box, { edges, first, over, under, scale, units } = this.data;
      const narrow = matchMedia("(max-width: 640px)").matches ? 2 : 1;
      for (const tick of steps(this.time(left), this.time(right), width / 80 / narrow)) {
        const at = x + width * ((tick - this.data.begin) / this.data.column - left) / (right - left);
        if (at < x - 0.5 || at > x + width + 0.5) continue;
        make("path", { class: "tick", d: `M${at} ${y + height}v5` }, this.back);
        make("text", { class: "tick", x: at, y: y + height + 21, "text-anchor": "middle" }, this.back, digits(tick, 10));
      }
      const bottom = clamp(low - first, 0, edges.length - 1), top = clamp(high - first, 0, edges.length - 1);
      const place = (value) => {
        let row = 0;
        while (row < edges.length - 2 && edges[row + 1] <= value) row++;
        return first + row + (value - edges[row]) / (edges[row + 1] - edges[row]);
      };
      let ticks = top > bottom ? steps(edges[bottom], edges[top], Math.max(2, height / 44)) : [];
      // On a log axis over more than a decade: every edge that is some way from the one before.
      if (scale === "log" && top > bottom && edges[bottom] > 0 && edges[top] / edges[bottom] > 8) {
        ticks = [];
        for (let p = Math.floor(Math.log10(edges[bottom])); p <= Math.log10(edges[top]); p++)
          for (const f of [1, 2, 5]) if (f * 10 ** p >= edges[bottom] && f * 10 ** p <= edges[top]) ticks.push(f * 10 ** p);
      }
      let last = Infinity;
      const label = (row, text) => {
        const at = y + height * (high - row) / (high - low);
        if (at < y - 1 || at > y + height + 1 || last - at < 20 * narrow) return;
        last = at;
        make("path", { class: "tick", d: `M${x - 5} ${at}h5` }, this.back);
        make("text", { class: "tick", x: x - 8, y: at + 4.5, "text-anchor": "end" }, this.back, text);
      };
      if (under !== null && low <= under) label(under + 0.5, "below");
      const named = (tick) => {
        const [factor, unit] = units.find(([each]) => tick >= 0.9995 * each) || units[units.length - 1];
        return digits(tick / factor) + " " + unit;
      };
      for (const tick of ticks) label(place(tick), units ? named(tick) : digits(tick));
      if (over !== null && high > over) { last = Infinity; label(over + 0.5, "above"); }
    }
  }

  for (const root of document.querySelectorAll("svg.hm")) {
    const data = root.querySelector(":scope > .hm-data");
    if (data) new Map_(root, JSON.parse(data.textContent));
  }
})();
