// Draws the call trees of a report: zoom, search, keyboard. It asks for nothing and stores nothing.
// Trees lie in the page as compressed JSON: names, modules, and per graph in depth-first order f (function), d (depth), k (kind),
// v (cost at the point) and, where two points are compared, a (cost at the first) and c (1 rises, 2 falls). Costs are parts of `total`.
"use strict";
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("flame-data").textContent), (letter) => letter.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(plain).json();
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 19, LETTER = 6.7, LEAST = 0.6, PAPER = 688; // the width of A4 within the margins of the style sheet
  const KINDS = ["", "user code", "kernel", "soft interrupt", "hard interrupt"];

  const element = (name, attributes, parent, text) => {
    const made = name === "svg" || name === "rect" || name === "text" || name === "g" || name === "title"
      ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const number = (value) => String(Number(value.toPrecision(3)));
  const percent = (part) => (100 * part).toFixed(part < 0.0995 ? 1 : 0) + " %";

  // A diverging scale without red and green (PuOr of ColorBrewer): orange rises, purple falls.
  const RISES = ["#fee0b6", "#fdb863", "#e08214", "#b35806"], FALLS = ["#d8daeb", "#b2abd2", "#8073ac", "#542788"];
  const changeColour = (ratio) => {
    const step = Math.min(3, Math.floor(Math.abs(Math.log2(ratio)) / 0.75));
    return { fill: (ratio > 1 ? RISES : FALLS)[step], ink: step > (ratio > 1 ? 2 : 1) ? "#ffffff" : "#16191d" };
  };

  let printing = false;

  class Graph {
    constructor(place, tree) {
      Object.assign(this, { place, tree, two: Boolean(tree.a), side: "v", zoomed: 0, at: 0, query: null });
      const count = tree.f.length;
      this.parent = new Int32Array(count);
      this.end = new Int32Array(count);
      const open = [];
      for (let i = 0; i < count; i++) {
        while (open.length && tree.d[open[open.length - 1]] >= tree.d[i]) this.end[open.pop()] = i;
        this.parent[i] = open.length ? open[open.length - 1] : -1;
        open.push(i);
      }
      while (open.length) this.end[open.pop()] = count;
      this.build();
      this.arrange();
      new ResizeObserver(() => { if (!printing && this.place.clientWidth !== this.width) this.draw(); }).observe(this.place);
      this.draw();
    }

    build() {
      const tools = element("div", { class: "flame-tools no-print" }, this.place);
      const search = element("input", { type: "search", placeholder: "search functions", "aria-label": "search functions" }, tools);
      search.addEventListener("input", () => this.search(search.value));
      this.reset = element("button", { type: "button" }, tools, "whole graph");
      this.reset.addEventListener("click", () => this.zoom(0));
      if (this.two) {
        const turn = element("button", { type: "button" }, tools, "widths of A");
        turn.addEventListener("click", () => {
          this.side = this.side === "v" ? "a" : "v";
          turn.textContent = this.side === "v" ? "widths of A" : "widths of B";
          this.arrange();
          this.draw();
        });
      }
      this.found = element("output", {}, tools);
      const plot = { parent: tools, name: "flame-graph-" + this.place.dataset.graph, svgs: () => [this.svg], rows: () => this.rows() };
      document.dispatchEvent(new CustomEvent("plot", { detail: plot }));
      this.svg = element("svg", { class: "flame-svg", tabindex: "0", role: "application",
        "aria-label": "flame graph, " + this.tree.title + ": arrows walk, Enter zooms, Escape shows all; the table holds the same" }, this.place);
      this.about = element("p", { class: "flame-about", "aria-live": "polite" }, this.place);
      const node = (event) => { const g = event.target.closest("g"); return g ? Number(g.dataset.node) : -1; };
      this.svg.addEventListener("click", (event) => { const i = node(event); if (i >= 0) this.zoom(i); });
      this.svg.addEventListener("pointerover", (event) => { const i = node(event); if (i >= 0) this.tell(i); });
      this.svg.addEventListener("keydown", (event) => this.key(event));
    }

    // Where each node begins, in costs: after its siblings before it.
    arrange() {
      const value = this.tree[this.side], used = new Float64Array(value.length);
      this.begin = new Float64Array(value.length);
      for (let i = 1; i < value.length; i++) {
        const above = this.parent[i];
        this.begin[i] = this.begin[above] + used[above];
        used[above] += value[i];
      }
      if (!value[this.zoomed]) this.zoomed = 0;
      this.tell(this.zoomed);
    }

    zoom(i) {
      this.zoomed = i;
      this.at = i;
      this.draw();
      this.tell(i);
    }

    draw(width = this.place.clientWidth) {
      const { tree, svg } = this, value = tree[this.side];
      this.width = width;
      if (!this.width) return;
      const scale = this.width / value[this.zoomed], left = this.begin[this.zoomed];
      const ancestors = new Set();
      for (let i = this.parent[this.zoomed]; i >= 0; i = this.parent[i]) ancestors.add(i);
      svg.replaceChildren();
      let deepest = 0;
      for (let i = 0; i < value.length; i++) {
        const above = ancestors.has(i);
        if (!above && (i < this.zoomed || i >= this.end[this.zoomed])) continue;
        const width = above ? this.width : value[i] * scale;
        if (width < LEAST) { i = this.end[i] - 1; continue; }
        deepest = Math.max(deepest, tree.d[i]);
        this.box(i, above ? 0 : (this.begin[i] - left) * scale, width, above);
      }
      svg.setAttribute("width", this.width);
      svg.setAttribute("height", (deepest + 1) * ROW);
      svg.setAttribute("viewBox", `0 0 ${this.width} ${(deepest + 1) * ROW}`);
      this.reset.disabled = this.zoomed === 0;
    }

    box(i, x, width, above) {
      const look = this.two ? this.change(i) : null;
      const hit = this.query && this.matches(i);
      const classes = [look ? "" : "k" + this.tree.k[i], above ? "above" : "", this.query ? (hit ? "hit" : "dim") : "", i === this.at ? "at" : ""];
      const group = element("g", { "data-node": i, class: classes.filter(Boolean).join(" ") }, this.svg);
      const shape = { x: x.toFixed(1), y: this.tree.d[i] * ROW, width: Math.max(0.4, width - 0.6).toFixed(1), height: ROW - 1, rx: 2 };
      if (look) shape.fill = look.fill;
      element("rect", shape, group);
      const letters = Math.floor((width - 7) / LETTER);
      if (letters < 3) return;
      const name = (look ? look.mark : "") + this.name(i);
      const text = name.length <= letters ? name : name.slice(0, letters - 1) + "…";
      element("text", { x: (x + 4).toFixed(1), y: this.tree.d[i] * ROW + 13, ...(look ? { fill: look.ink } : {}) }, group, text);
    }

    // The change of a path is coloured only where its interval leaves out 1, as in the table.
    change(i) {
      const { tree } = this, a = tree.a[i], b = tree.v[i], verdict = tree.c[i];
      if (!verdict) return { fill: "#e3e6e8", ink: "#16191d", mark: "" };
      const ratio = verdict === 1 ? (a ? b / a : 1e9) : b / a || 1e-9;
      return { ...changeColour(ratio), mark: verdict === 1 ? "▲ " : "▼ " };
    }

    // A row a path: its functions, and what it costs with all that it calls.
    rows() {
      const { tree } = this, path = [];
      return [["path", ...(this.two ? ["A", "B", "change"] : ["cost"]), "unit"], ...[...tree.f.keys()].map((i) => {
        path.length = tree.d[i];
        path.push(this.name(i));
        return [path.join(";"), ...(this.two ? [this.cost(tree.a[i]), this.cost(tree.v[i]), ["none", "rises", "falls"][tree.c[i]]] : [this.cost(tree.v[i])]), tree.unit];
      })];
    }

    name(i) {
      const f = this.tree.f[i];
      return f < 0 ? (i === 0 ? this.tree.whole : data.owners[-f - 1]) : data.names[f];
    }

    cost(units) { return units * this.tree.total / data.parts; }

    tell(i) {
      const { tree } = this, f = tree.f[i], value = tree[this.side];
      let own = value[i];
      for (let child = i + 1; child < this.end[i]; child = this.end[child]) own -= value[child];
      const parts = [f < 0 ? this.name(i) : `${data.names[f]} (${data.modules[data.places[f]]}, ${KINDS[tree.k[i]]})`];
      if (this.two) {
        const a = this.cost(tree.a[i]), b = this.cost(tree.v[i]);
        parts.push(`A ${number(a)}, B ${number(b)} ${this.tree.unit}` + (a && b ? `, × ${number(b / a)}` : ""));
        parts.push(["within noise", "rises", "falls"][tree.c[i]]);
      } else {
        parts.push(`${number(this.cost(value[i]))} ns/KiB, ${percent(value[i] / value[0])} of the whole`);
        parts.push(`itself ${number(this.cost(Math.max(0, own)))} ${this.tree.unit}`);
        parts.push(`about ${Math.round(value[i] / value[0] * tree.n[0])} samples`);
      }
      this.about.textContent = parts.join("; ");
    }

    matches(i) { return this.tree.f[i] >= 0 && this.query.test(data.names[this.tree.f[i]]); }

    search(text) {
      this.query = null;
      if (text) {
        try { this.query = new RegExp(text, "i"); }
        catch { this.query = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"); }
      }
      const value = this.tree[this.side];
      let sum = 0;
      // Only the outermost match of a stack counts: what it calls is in it.
      if (this.query) for (let i = 0; i < value.length; i++) if (this.matches(i)) { sum += value[i]; i = this.end[i] - 1; }
      this.found.textContent = this.query ? `matched: ${percent(sum / value[0])}, ${number(this.cost(sum))} ${this.tree.unit}` : "";
      this.draw();
    }

    key(event) {
      const shown = [...this.svg.querySelectorAll("g")].map((g) => Number(g.dataset.node));
      const beside = shown.filter((i) => this.parent[i] === this.parent[this.at]);
      const place = beside.indexOf(this.at);
      const next = {
        ArrowDown: shown.find((i) => this.parent[i] === this.at), ArrowUp: this.parent[this.at],
        ArrowLeft: beside[place - 1], ArrowRight: beside[place + 1],
      };
      if (event.key === "Enter") this.zoom(this.at);
      else if (event.key === "Escape") this.zoom(0);
      else if (event.key in next) {
        if (next[event.key] >= 0) { this.at = next[event.key]; this.draw(); this.tell(this.at); }
      } else return;
      event.preventDefault();
    }
  }

  const graphs = [];
  // A graph is drawn when it is first seen: hidden places have no width.
  const show = (place) => {
    // A closed part of the page may have a width all the same.
    if (place.dataset.drawn || !place.clientWidth || place.closest("details:not([open])")) return;
    place.dataset.drawn = "yes";
    place.replaceChildren();
    graphs.push(new Graph(place, data.graphs[place.dataset.graph]));
  };
  const all = () => document.querySelectorAll(".flame[data-graph]").forEach(show);
  all();
  document.addEventListener("toggle", all, true);
  // Parts of the page that lie compressed in it come later.
  document.addEventListener("filled", all);
  // The events of what is opened for paper come only after it was printed.
  document.addEventListener("paper", () => { printing = true; all(); for (const each of graphs) each.draw(PAPER); });
  addEventListener("afterprint", () => { printing = false; for (const each of graphs) each.draw(); });
})();
