// Of a report: the theme's button, and in each trial a range of time that all of its panels and its table show.
// Data lie compressed in the page: JSON with `rows` (edges of rows in ns, and which of them are drawn) and `trials` by name with t (ends
// of intervals in ms), w (their windows), maps (which rows and which shape, how many columns), lines; after it the numbers of the cells.
"use strict";
(() => {
  const element = (name, attributes, parent, text) => {
    const svg = name === "rect" || name === "path";
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const digits = (value) => {
    if (value === null || value === undefined || !isFinite(value)) return "–";
    return value === 0 ? "0" : String(Number(value.toPrecision(3)));
  };
  const whole = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, " ");

  const save = (name, blob) => {
    const link = element("a", { download: name, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // ---- theme
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const turn = element("button", { type: "button", class: "theme no-print" });
  const name = () => { turn.textContent = dark() ? "Light" : "Dark"; turn.setAttribute("aria-label", dark() ? "show on light ground" : "show on dark ground"); };
  turn.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  name();
  document.getElementById("contents").append(turn);

  // ---- links into what is closed
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) reveal();
  });

  // ---- what lies compressed in the page
  const unpacked = (text, form) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream(form)));
  };

  // ---- what a pointer resting on a number is told
  let hints = null;
  if (window.DecompressionStream) addEventListener("pointerover", async (event) => {
    const cell = event.target.closest && event.target.closest("[data-hint]");
    if (!cell || cell.title) return;
    hints = hints || unpacked(document.getElementById("hints").textContent, "deflate").json();
    cell.title = (await hints)[Number(cell.dataset.hint)];
  });

  // ---- the JSON lies compressed in the page; the script writes it out as it is, and tables of what is in it or is shown
  const csv = (name, rows) => {
    const quoted = (cell) => { const text = String(cell ?? ""); return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text; };
    save(name, new Blob([rows.map((row) => row.map(quoted).join(",") + "\r\n").join("")], { type: "text/csv" }));
  };
  if (window.DecompressionStream) {
    const link = document.querySelector("a[data-plain]"), plain = () => unpacked(link.href.slice(link.href.indexOf(",") + 1), "gzip");
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      save(link.dataset.plain, await plain().blob());
    });
    // A row for each point and outcome, as `iodyno report --format csv` has them.
    for (const all of document.querySelectorAll("[data-rows]")) all.addEventListener("click", async () => {
      const { points } = await plain().json(), levels = [...new Set(points.flatMap((point) => Object.keys(point.levels)))];
      const told = ["estimate", "low", "high", "n", "unit", "method", "missing", "void"];
      const level = (value) => (value === true ? "on" : value === false ? "off" : value);
      csv(all.dataset.rows, [["point", ...levels, "outcome", ...told], ...points.flatMap((point) => Object.entries(point.outcomes)
        .map(([name, found]) => [point.id, ...levels.map((each) => level(point.levels[each])), name, ...told.map((key) => found[key])]))]);
    });
  }
  // Numbers behind figures and tables, rows under heads.
  const title = document.querySelector(".name-of").textContent;
  let behind = null;
  const numbers = async (name) => {
    behind = behind || unpacked(document.getElementById("numbers").textContent, "deflate").json();
    return (await behind)[name];
  };
  for (const button of document.querySelectorAll("[data-table]")) button.addEventListener("click", async () => {
    csv(`${title}-${button.dataset.table}.csv`, await numbers(button.dataset.table));
  });

  // ---- plots as files: SVG that any program draws alike, its styles written out; the same as PNG; the numbers behind it as CSV
  const INHERITED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-size", "font-weight", "font-family", "text-anchor"];
  const OWN = { opacity: "1", filter: "none", display: "inline", "image-rendering": "auto" };
  const styled = (from, to, above) => {
    const style = getComputedStyle(from), mine = {};
    for (const name of INHERITED) {
      mine[name] = style.getPropertyValue(name);
      if (mine[name] !== above[name]) to.setAttribute(name, mine[name]);
    }
    for (const name in OWN) {
      const value = style.getPropertyValue(name);
      if (value !== OWN[name] && !(name === "display" && value === "block") && !value.startsWith("drop")) to.setAttribute(name, value.replace(/url\(".*#/, 'url("#'));
    }
    to.removeAttribute("class");
    [...from.children].forEach((child, place) => styled(child, to.children[place], mine));
  };
  const drawing = (svgs) => {
    const box = (svg) => svg.viewBox.baseVal && svg.viewBox.baseVal.width ? svg.viewBox.baseVal : { width: svg.width.baseVal.value, height: svg.height.baseVal.value };
    const wide = Math.max(...svgs.map((svg) => box(svg).width)), gap = 16;
    let top = 0;
    const whole = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    element("rect", { width: "100%", height: "100%", fill: getComputedStyle(root).getPropertyValue("--paper") }, whole);
    for (const from of [...(svgs.some((svg) => svg.querySelector("use, .cells")) ? document.querySelectorAll("svg.shared") : []), ...svgs]) {
      const copy = from.cloneNode(true), { width, height } = box(from);
      for (const name of ["style", "tabindex", "role"]) copy.removeAttribute(name);
      styled(from, copy, {});
      whole.append(copy);
      if (!svgs.includes(from)) continue;
      for (const [name, value] of Object.entries({ x: 0, y: top, width, height })) copy.setAttribute(name, value);
      top += height + gap;
    }
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${wide} ${top}`, width: wide, height: top })) whole.setAttribute(name, value);
    return { text: new XMLSerializer().serializeToString(whole), wide, high: top };
  };
  const forms = {
    SVG: (name, svgs) => save(name + ".svg", new Blob([drawing(svgs).text], { type: "image/svg+xml" })),
    PNG: async (name, svgs) => {
      const { text, wide, high } = drawing(svgs), image = new Image(), canvas = element("canvas", { width: 2 * wide, height: 2 * high });
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
      await image.decode();
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name + ".png", blob));
    },
    CSV: async (name, svgs, rows) => csv(name + ".csv", await rows()),
  };
  // Buttons for what a place shows: `svgs()` and `rows()` give it when one is pressed.
  const buttons = (parent, name, svgs, rows) => {
    const group = element("span", { class: "save no-print", role: "group", "aria-label": `save ${name}` }, parent);
    for (const form in forms) {
      const button = element("button", { type: "button", class: "link" }, group, form);
      button.addEventListener("click", (event) => { event.preventDefault(); forms[form](`${title}-${name}`, svgs(), rows); });
    }
  };
  const drawn = (place) => [...place.querySelectorAll("svg.fig")].filter((svg) => !svg.closest("figure figure"));
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    buttons(figure.querySelector("h2, h3"), figure.dataset.plot, () => drawn(figure), () => numbers(figure.dataset.plot));
  }
  document.addEventListener("plot", ({ detail }) => buttons(detail.parent, detail.name, detail.svgs, detail.rows));

  for (const each of document.querySelectorAll(".script-only:not(#trials *)")) each.hidden = false;

  // ---- parts that lie compressed in the page: all of them, as soon as the rest is seen; drawn and escaped when the page was made
  const deferred = document.getElementById("deferred");
  const filled = !deferred || !window.DecompressionStream ? Promise.resolve() : new Promise((done) => addEventListener("load", () => setTimeout(async () => {
    const parts = await unpacked(deferred.textContent, "deflate").json();
    for (const place of document.querySelectorAll("[data-deferred]")) place.outerHTML = parts[place.dataset.deferred];
    document.dispatchEvent(new Event("filled"));
    done();
  })));
  filled.then(reveal);

  // ---- on paper every part is open
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details.part:not([open]), #answer .more:not([open]), #answer .warnings:not([open])")];
    const trials = document.querySelectorAll(".over-time > details");
    if (trials.length <= 3) closed.push(...[...trials].filter((each) => !each.open));
    for (const each of closed) each.open = true;
    document.dispatchEvent(new Event("paper"));
  });
  addEventListener("afterprint", () => { for (const each of closed) each.open = false; });

  // ---- trials
  const packed = document.getElementById("trial-data");
  if (!packed || !window.DecompressionStream) return;
  for (const each of document.querySelectorAll(".script-only")) each.hidden = false;
  let read = null;
  const data = () => {
    read = read || unpacked(packed.textContent, "deflate").arrayBuffer().then((buffer) => decoded(new Uint8Array(buffer)));
    return read;
  };

  // Three lengths, a line each; JSON; then how many cells a column has, steps from row to row, and counts, seven bits a byte.
  const decoded = (bytes) => {
    let at = 0;
    const line = () => { const from = at; while (bytes[at] !== 10) at++; return Number(new TextDecoder().decode(bytes.subarray(from, at++))); };
    const [text, lengths, steps] = [line(), line(), line()];
    const found = JSON.parse(new TextDecoder().decode(bytes.subarray(at, at + text)));
    const numbers = (place) => () => {
      let value = 0, scale = 1;
      for (; bytes[place] > 127; place++) { value += (bytes[place] & 127) * scale; scale *= 128; }
      return value + bytes[place++] * scale;
    };
    const length = numbers(at + text), step = numbers(at + text + lengths), count = numbers(at + text + lengths + steps);
    const cells = () => {
      const each = new Map();
      for (let left = length(), row = 0; left > 0; left--) { row += step(); each.set(row, count()); }
      return each;
    };
    let shapes = 0;
    for (const map of [...Object.values(found.trials).flatMap((trial) => trial.maps), ...Object.values(found.points).flat()]) {
      map.cells = Array.from({ length: map.columns }, cells);
      if ("shape" in map) shapes = Math.max(shapes, map.shape + 1);
    }
    found.shapes = Array.from({ length: shapes }, cells);
    return found;
  };

  // The least value of a bucket of the stored histograms, in ns: one each below 256, then 128 an octave.
  const least = (bucket) => {
    if (bucket < 256) return bucket;
    const shift = Math.floor(bucket / 128) - 1;
    return (bucket - shift * 128) * Math.pow(2, shift);
  };

  // Rows of a CSV: the counts of maps, cell by cell.
  const cells = (maps, rows) => [["map", "begin_s", "end_s", "from_ns", "to_ns", "operations"], ...maps.flatMap((map) => map.cells.flatMap((column, index) =>
    [...column].map(([row, count]) => [map.of, map.t[index][0] / 1e3, map.t[index][1] / 1e3, rows[map.rows].edges[row], rows[map.rows].edges[row + 1], count])))];
  for (const point of document.querySelectorAll(".point-map")) point.addEventListener("toggle", () => {
    if (!point.open || point.querySelector(".save")) return;
    buttons(point.querySelector(".name"), point.id, () => drawn(point), async () => { const found = await data(); return cells(found.points[point.id.slice(5)], found.rows); });
  });

  class Trial {
    constructor(place, found, rows, shapes) {
      Object.assign(this, { place, found, rows, shapes });
      this.ends = found.t;
      this.last = this.ends.length - 2;
      this.first = 0;
      this.until = this.last;
      this.svgs = [...place.querySelectorAll("svg[data-span]")].map((svg) => {
        const [left, right, top, bottom, end] = svg.dataset.span.split(" ").map(Number);
        const veils = [0, 1].map(() => element("rect", { class: "veil", y: top - 1, height: bottom - top + 2, width: 0 }, svg));
        const pane = { svg, left, right, top, bottom, end, veils };
        this.listen(pane);
        return pane;
      });
      this.histograms = [...place.querySelectorAll("svg[data-histogram]")].map((svg) => {
        const [left, right, top, bottom, decades] = svg.dataset.axis.split(" ").map(Number);
        const path = svg.querySelector(".counts");
        const each = { svg, path, label: svg.getAttribute("aria-label"), map: Number(svg.dataset.histogram), left, right, top, bottom, decades };
        if (!path.hasAttribute("d")) {
          const measured = found.w.flatMap((window, index) => (window === "measured" ? [index] : []));
          if (measured.length) this.bars(each, measured[0], measured[measured.length - 1]);
        }
        each.still = path.getAttribute("d") || "";
        return each;
      });
      for (const pane of this.svgs) this.paint(pane);
      const table = place.querySelector(".windows table");
      this.heads = found.heads.map(([kind, of, factor, share]) => ({ kind, of, factor, share }));
      this.body = element("tbody", { class: "chosen" }, table);
      this.tools();
    }

    tools() {
      const tools = this.place.querySelector(".chosen-range");
      tools.hidden = false;
      const group = element("div", { role: "group", "aria-label": "range of time" }, tools);
      this.inputs = ["from", "to"].map((label, which) => {
        const holder = element("label", {}, group, label + " ");
        const input = element("input", { type: "range", min: 0, max: this.last, step: 1 }, holder);
        input.addEventListener("input", () => {
          const at = Number(input.value);
          if (which) this.choose(Math.min(this.first, at), at); else this.choose(at, Math.max(this.until, at));
        });
        return input;
      });
      this.reset = element("button", { type: "button" }, group, "whole trial");
      this.reset.addEventListener("click", () => this.choose(0, this.last));
      this.save = element("button", { type: "button" }, group, "intervals as CSV");
      this.save.addEventListener("click", () => this.download());
      const panels = this.place.querySelector(".panels"), names = [...panels.querySelectorAll("svg[data-histogram]")].map((svg) => svg.getAttribute("aria-label").replace(/^.*?, |: .*/g, ""));
      buttons(group, this.place.closest("details").id, () => drawn(panels), () => cells(this.found.maps.map((map, place) => ({
        ...map, of: names[place], t: map.cells.map((_, index) => [this.ends[index], this.ends[index + 1]]) })), this.rows));
      this.told = element("p", { class: "told", "aria-live": "polite" }, tools);
      this.hint = element("p", { class: "quiet hover" }, tools, "");
      this.place.tabIndex = -1;
      this.place.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && (this.first > 0 || this.until < this.last)) this.choose(0, this.last);
      });
      this.say();
    }

    // Cells of a map that has none yet: a path for each grey, by the logarithm of the rate, as the pictures in the page have them.
    paint(pane) {
      const group = pane.svg.querySelector("g[data-map]");
      if (!group) return;
      const number = Number(group.dataset.map), { drawn } = this.rows[this.found.maps[number].rows];
      const scale = (pane.right - pane.left) / (1e3 * pane.end), high = (pane.bottom - pane.top) / (drawn.length - 1);
      const row_of = new Map();
      for (let row = 0; row + 1 < drawn.length; row++) for (let fine = drawn[row]; fine < drawn[row + 1]; fine++) row_of.set(fine, row);
      const rates = this.found.maps[number].cells.map((cells, index) => {
        const span = (this.ends[index + 1] - this.ends[index]) / 1e3, found = new Map();
        cells.forEach((count, fine) => found.set(row_of.get(fine), (found.get(row_of.get(fine)) || 0) + count / span));
        return found;
      });
      let [low, most] = [Infinity, 0];
      for (const column of rates) column.forEach((rate) => { low = Math.min(low, rate); most = Math.max(most, rate); });
      const paths = {}, x = (ms) => Math.min(pane.right, pane.left + ms * scale).toFixed(1);
      rates.forEach((column, index) => column.forEach((rate, row) => {
        const share = most > low ? Math.log(rate / low) / Math.log(most / low) : 1;
        const grey = Math.round(1 + (254 * Math.round(share * 40)) / 40);
        const top = pane.bottom - (row + 1) * high;
        paths[grey] = (paths[grey] || "") + `M${x(this.ends[index])} ${top.toFixed(1)}H${x(this.ends[index + 1])}v${high.toFixed(1)}H${x(this.ends[index])}z`;
      }));
      for (const grey in paths) element("path", { d: paths[grey], fill: `rgb(${grey},${grey},${grey})`, "shape-rendering": "crispEdges" }, group);
    }

    // Which interval lies under the pointer.
    at(pane, event) {
      const box = pane.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * pane.svg.viewBox.baseVal.width;
      const ms = 1e3 * pane.end * Math.min(1, Math.max(0, (x - pane.left) / (pane.right - pane.left)));
      let index = 0;
      while (index < this.last && this.ends[index + 1] <= ms) index++;
      return index;
    }

    listen(pane) {
      let begun = null;
      pane.svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.pointerType === "touch") return;
        begun = this.at(pane, event);
        this.moved = false;
        pane.svg.setPointerCapture(event.pointerId);
        // So that Escape is heard here afterwards.
        this.place.focus({ preventScroll: true });
        event.preventDefault();
      });
      pane.svg.addEventListener("pointermove", (event) => {
        const index = this.at(pane, event);
        this.hover(pane, event, index);
        if (begun === null) return;
        this.moved = this.moved || index !== begun;
        if (this.moved) this.choose(Math.min(begun, index), Math.max(begun, index));
      });
      pane.svg.addEventListener("pointerup", (event) => {
        if (begun === null) return;
        // A click takes one interval, and a second one on it the whole trial again.
        const index = this.at(pane, event);
        if (!this.moved) {
          if (this.first === index && this.until === index) this.choose(0, this.last); else this.choose(index, index);
        }
        begun = null;
      });
      pane.svg.addEventListener("pointercancel", () => { begun = null; });
    }

    // What lies under the pointer, in words.
    hover(pane, event, index) {
      const span = `${digits(this.ends[index] / 1e3)} to ${digits(this.ends[index + 1] / 1e3)} s`;
      const image = pane.svg.querySelector("[data-map]");
      if (!image) { this.hint.textContent = span; return; }
      const number = Number(image.dataset.map), box = pane.svg.getBoundingClientRect();
      const { edges, drawn } = this.rows[this.found.maps[number].rows];
      const y = ((event.clientY - box.top) / box.height) * pane.svg.viewBox.baseVal.height;
      const row = Math.min(drawn.length - 2, Math.max(0, Math.floor(((pane.bottom - y) / (pane.bottom - pane.top)) * (drawn.length - 1))));
      const counts = this.column(number, index);
      let here = 0, all = 0;
      counts.forEach((count, fine) => { all += count; if (fine >= drawn[row] && fine < drawn[row + 1]) here += count; });
      this.hint.textContent = `${span}, ${time(edges[drawn[row]])} to ${time(edges[drawn[row + 1]])}: ${whole(here)} of ${whole(all)} operations`
        + (all ? ` (${digits((100 * here) / all)} %)` : "");
    }

    // Counts by fine row of one interval.
    column(number, index) { return this.found.maps[number].cells[index] || new Map(); }

    together(number, first, until) {
      const sum = new Map();
      for (let index = first; index <= until; index++) {
        this.column(number, index).forEach((count, row) => sum.set(row, (sum.get(row) || 0) + count));
      }
      return sum;
    }

    // Within its row as the times of all trials of the point lie there, so that the error is less than the row's width, and mostly
    // far less.
    quantile(number, counts, share) {
      const { rows, shape } = this.found.maps[number], edges = this.rows[rows].edges;
      let all = 0;
      counts.forEach((count) => { all += count; });
      if (!all) return null;
      const rank = Math.max(1, Math.ceil(share * all));
      let seen = 0;
      for (const [row, count] of [...counts].sort((a, b) => a[0] - b[0])) {
        if (seen + count >= rank) return this.within(this.shapes[shape], edges[row], edges[row + 1], (rank - seen - 0.5) / count);
        seen += count;
      }
      return null;
    }

    // The value below which a share of a row's times lies.
    within(shape, low, high, share) {
      const inside = [...shape].map(([bucket, part]) => [least(bucket), least(bucket + 1), part]).filter(([from]) => from >= low && from < high);
      let left = share * inside.reduce((sum, [, , part]) => sum + part, 0);
      for (const [from, to, part] of inside) {
        if (left <= part) return from + ((to - from) * left) / part;
        left -= part;
      }
      return Math.sqrt(Math.max(low, 0.5) * high);
    }

    cells(first, until) {
      const maps = this.found.maps.map((_, number) => this.together(number, first, until));
      return this.heads.map((head) => {
        if (head.kind === "mean") {
          const line = this.found.lines[head.of];
          let sum = 0, weight = 0;
          for (let index = first; index <= until; index++) {
            if (line[index] === null || line[index] === undefined) continue;
            const long = this.ends[index + 1] - this.ends[index];
            sum += line[index] * long;
            weight += long;
          }
          return weight ? digits(sum / weight) : "–";
        }
        if (head.kind === "count") {
          let all = 0;
          maps[head.of].forEach((count) => { all += count; });
          return whole(all);
        }
        const value = this.quantile(head.of, maps[head.of], head.share);
        return value === null ? "–" : digits(value / head.factor);
      });
    }

    row(title, first, until, parent) {
      const row = element("tr", {}, parent);
      element("th", { scope: "row" }, row, title);
      for (const text of this.cells(first, until)) element("td", {}, row, text);
    }

    choose(first, until) {
      if (first === this.first && until === this.until) return;
      this.first = first;
      this.until = until;
      this.say();
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => { this.frame = 0; this.show(); });
    }

    say() {
      const [from, to] = [this.ends[this.first] / 1e3, this.ends[this.until + 1] / 1e3];
      this.inputs[0].value = this.first;
      this.inputs[1].value = this.until;
      this.inputs[0].setAttribute("aria-valuetext", digits(from) + " s");
      this.inputs[1].setAttribute("aria-valuetext", digits(to) + " s");
      this.reset.disabled = !this.part;
      this.told.textContent = this.part ? `${digits(from)} to ${digits(to)} s are shown, ${this.until - this.first + 1} of ${this.last + 1} intervals` : `the whole trial is shown, ${this.last + 1} intervals`;
    }

    get part() { return this.first > 0 || this.until < this.last; }

    show() {
      for (const pane of this.svgs) {
        const scale = (pane.right - pane.left) / (1e3 * pane.end);
        const from = pane.left + this.ends[this.first] * scale, to = Math.min(pane.right, pane.left + this.ends[this.until + 1] * scale);
        const set = (veil, x, width) => { veil.setAttribute("x", x); veil.setAttribute("width", Math.max(0, width)); };
        set(pane.veils[0], pane.left, this.part ? from - pane.left : 0);
        set(pane.veils[1], to, this.part ? pane.right - to : 0);
      }
      for (const each of this.histograms) this.histogram(each);
      this.body.replaceChildren();
      if (!this.part) return;
      this.row(this.told.textContent.replace(/ are shown.*/, ""), this.first, this.until, this.body);
      this.body.lastChild.className = "sum";
      if (this.until > this.first) {
        for (let index = this.first; index <= Math.min(this.until, this.first + 99); index++) {
          this.row(`${digits(this.ends[index] / 1e3)} to ${digits(this.ends[index + 1] / 1e3)} s`, index, index, this.body);
        }
      }
    }

    histogram(each) {
      if (!this.part) {
        each.path.setAttribute("d", each.still);
        each.svg.setAttribute("aria-label", each.label);
        return;
      }
      const all = this.bars(each, this.first, this.until);
      each.svg.setAttribute("aria-label", `${each.label.replace(/: .*/, "").replace("the measured window", "the chosen time")}: ${whole(all)} operations`);
    }

    // Draws the bars of a range; how many operations they are.
    bars(each, first, until) {
      const { drawn } = this.rows[this.found.maps[each.map].rows], counts = this.together(each.map, first, until);
      const wide = (each.right - each.left) / (drawn.length - 1), low = Math.log10(0.5), high = each.decades;
      let path = "", all = 0;
      for (let row = 0; row + 1 < drawn.length; row++) {
        let count = 0;
        for (let fine = drawn[row]; fine < drawn[row + 1]; fine++) count += counts.get(fine) || 0;
        all += count;
        if (!count) continue;
        const y = each.bottom - ((Math.min(high, Math.log10(count)) - low) / (high - low)) * (each.bottom - each.top);
        path += `M${(each.left + row * wide).toFixed(1)} ${each.bottom}V${y.toFixed(0)}h${wide.toFixed(1)}V${each.bottom}`;
      }
      each.path.setAttribute("d", path);
      return all;
    }

    download() {
      const [above, below] = [...this.place.querySelectorAll(".windows thead tr")].map((row) => [...row.children].slice(1));
      const groups = above.flatMap((head) => Array(head.colSpan).fill(head.textContent));
      const heads = below.map((head, place) => `${groups[place]}: ${[...head.childNodes].map((node) => node.textContent).filter(Boolean).join(", ")}`);
      const rows = [["begin_s", "end_s", "window", ...heads]];
      for (let index = this.first; index <= this.until; index++) {
        const cells = this.cells(index, index).map((text) => text.replace(/ /g, "").replace("–", ""));
        rows.push([this.ends[index] / 1e3, this.ends[index + 1] / 1e3, this.found.w[index], ...cells]);
      }
      csv(this.place.closest("details").id + ".csv", rows);
    }
  }

  const time = (ns) => {
    for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (ns >= factor) return digits(ns / factor) + " " + unit;
    return digits(ns) + " ns";
  };

  for (const each of document.querySelectorAll(".over-time > details")) {
    const begin = async () => {
      if (!each.open || each.dataset.begun || !each.querySelector(".chosen-range")) return;
      each.dataset.begun = "1";
      await filled;
      const name = each.id.replace("trial-", ""), found = await data(), mine = found.trials[name];
      // Drawn and escaped when the page was made.
      if (found.panels[name]) each.querySelector(".inside > .panels").innerHTML = found.panels[name];
      if (mine && mine.t.length > 1) new Trial(each.querySelector(".inside"), mine, found.rows, found.shapes);
    };
    each.addEventListener("toggle", begin);
    begin();
  }
})();
