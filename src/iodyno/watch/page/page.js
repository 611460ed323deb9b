// The page: what is shown, at what time, and what a person does about it.
import { Cells, duration, quantile, viewKey } from "./cells.js";
import { amount, clock, colour, drawCursor, drawHeat, drawMap, drawRates, timeAt, LEFT, RIGHT } from "./charts.js";

const MAP = "map"; // the breakdown that is a heat map
const MOST_KEYS = 7, MOST_ROWS = 12, MOST_LOADED = 150, SILENT_MS = 12000, AGAIN_MS = 2000;
const NAMES = {
  usr: "user", sys: "system", app: "the load, undivided", irq: "hard interrupts", softirq: "soft interrupts", other: "other tasks",
  write: "write", read: "read", none: "none", "": "all", band: "latency band", [MAP]: "heat map",
};
const FIXED = ["usr", "sys", "softirq", "irq", "other", "app"]; // colours, in the order of the report
const PANELS = [
  { statistic: "operations", by: "type" }, { statistic: "operations", by: MAP }, { statistic: "payload", by: "host" },
  { statistic: "cpu", by: "class" }, { statistic: "network", by: "device" }, { statistic: "disk", by: "disk" },
];
const $ = id => document.getElementById(id);
const cells = new Cells();
const panels = [];
const view = { end: null, span: "60", playing: true, cursor: null, pinned: false };
let state = null, skew = 0, drawn = -1, heard = performance.now(), scheduled = false, lastTick = performance.now();
const loading = new Set();

// Time. `view.end` is null while it goes with the newest data.
const isLive = () => state?.phase === "running";
const now = () => Date.now() / 1000 + skew;
function newest() {
  const extent = cells.extent();
  if (!extent) return now();
  return isLive() ? Math.max(extent[1], now() - 0.3) : extent[1];
}
function range() {
  const extent = cells.extent() ?? [now() - 60, now()], end = view.end ?? newest();
  if (view.span === "all") return [extent[0], Math.max(extent[1], extent[0] + 1)];
  if (view.span === "trial") {
    const trial = trialAt(end);
    if (trial) return [trial.info.start_s, Math.max(Cells.endOf(trial), trial.info.start_s + 1)];
  }
  return [end - (+view.span || 60), end];
}
function trialAt(time) {
  let found = null;
  for (const trial of cells.inOrder()) if (trial.info.start_s <= time || !found) found = trial;
  return found;
}
function goTo(time) {
  const extent = cells.extent();
  if (!extent) return;
  view.end = Math.min(Math.max(time, extent[0] + 0.5), newest());
  remember(); redraw();
}
function setPlaying(playing) {
  view.playing = playing;
  if (!playing) view.end = range()[1];
  else if (isLive() && view.end !== null && newest() - view.end < 0.5) view.end = null;
  else if (!isLive() && cells.extent() && (view.end ?? Infinity) >= cells.extent()[1] - 0.1) view.end = cells.extent()[0] + 1;
  remember(); redraw();
}
function goLive() { view.end = null; view.playing = isLive(); view.cursor = null; remember(); redraw(); }

// Playing back: time goes on by itself, `speed` times as fast.
setInterval(() => {
  const at = performance.now(), took = (at - lastTick) / 1000;
  lastTick = at;
  $("phase").classList.toggle("cut", at - heard > SILENT_MS);
  if (at - heard > SILENT_MS) $("phase").textContent = "cut off: `iodyno watch` is gone";
  if (view.playing && view.end !== null && cells.extent()) {
    view.end += took * (isLive() ? Math.max(1, +$("speed").value) : +$("speed").value);
    if (view.end >= newest()) { if (isLive()) view.end = null; else { view.end = newest(); view.playing = false; } }
    redraw();
  } else if (view.end === null && isLive()) redraw();
}, 250);

// Panels.
function addPanel(spec, focus = "") {
  const node = $("panel").content.firstElementChild.cloneNode(true);
  const panel = { statistic: spec.statistic, by: spec.by, only: spec.only ?? [], node, slots: new Map(), selected: null, drawn: null };
  const pick = name => node.querySelector(name);
  panel.ink = pick(".ink"); panel.over = pick(".over"); panel.legend = pick(".legend"); panel.producers = pick(".producers");
  for (const each of cells.statistics.values()) pick(".statistic").add(new Option(each.title, each.name, false, each.name === panel.statistic));
  pick(".statistic").onchange = event => { panel.statistic = event.target.value; panel.by = cells.dimensions(panel.statistic)[0]; panel.only = []; changed(panel); };
  pick(".by").onchange = event => { panel.by = event.target.value; changed(panel); };
  pick(".remove").onclick = () => { panels.splice(panels.indexOf(panel), 1); node.remove(); remember(); };
  panel.ink.onpointerdown = event => startDrag(event, panel);
  panel.ink.onpointermove = event => { if (!dragging && !view.pinned) { view.cursor = timeAt(event.offsetX, range(), panel.ink.clientWidth); drawCursors(); } };
  panel.ink.onpointerleave = () => { if (!view.pinned) { view.cursor = null; drawCursors(); } };
  panels.push(panel);
  $("panels").append(node);
  changed(panel);
  // Where nothing is left to choose the title is next: a choice would take the keys of the page.
  if (focus) { node.scrollIntoView({ block: "nearest" }); pick("h2").tabIndex = -1; pick(focus).focus(); }
}
function changed(panel) {
  panel.slots.clear(); panel.selected = null; panel.producers.hidden = true; panel.keysText = "";
  const by = panel.node.querySelector(".by"), names = cells.dimensions(panel.statistic);
  by.replaceChildren(...[...names, ...(names.includes("band") ? [MAP] : [])].map(name => new Option(NAMES[name] ?? name, name)));
  if (![...by.options].some(option => option.value === panel.by)) panel.by = by.options[0].value;
  by.value = panel.by;
  panel.node.querySelector(".chips").replaceChildren(...panel.only.map((one, index) => {
    const chip = document.createElement("button");
    chip.textContent = `${NAMES[one.dimension] ?? one.dimension}: ${NAMES[one.key] ?? one.key} ×`;
    chip.title = "Show all again";
    chip.onclick = () => { panel.only.splice(index, 1); changed(panel); };
    return chip;
  }));
  const { title } = cells.statistics.get(panel.statistic);
  panel.node.querySelector("h2").textContent = panel.by === MAP ? `latency of ${title}` : `${title} by ${NAMES[panel.by] ?? panel.by}`;
  remember(); redraw();
}
const specOf = panel => ({ statistic: panel.statistic, by: panel.by, only: panel.only });
// The address holds what is shown: the charts, how much time, and up to when where it is not now.
let remembering = 0;
function remember() { clearTimeout(remembering); remembering = setTimeout(writeAddress, 200); } // a browser allows few changes a second
function writeAddress() {
  if (!panels.length) return;
  const end = view.end === null || view.playing ? null : Math.round(view.end * 1000) / 1000;
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify({ charts: panels.map(specOf), span: view.span, end }))}`);
}
function remembered() {
  try {
    const { charts, span, end } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    if ([...$("span").options].some(option => option.value === span)) $("span").value = view.span = span;
    if (typeof end === "number" && Number.isFinite(end)) { view.end = end; view.playing = false; }
    const fit = charts.filter(one => cells.statistics.has(one.statistic) && typeof one.by === "string" && Array.isArray(one.only ?? []));
    return fit.length ? fit.slice(0, 24) : PANELS;
  } catch { return PANELS; }
}

// A colour belongs to a name in all charts, however often it comes and goes: hosts in the order of the campaign, other names in
// their own order, and what comes later after them.
const colourOf = new Map();
function slotOf(by, key) {
  if (FIXED.includes(key)) return FIXED.indexOf(key);
  if (!colourOf.has(by)) colourOf.set(by, new Map((by === "host" ? state.hosts : []).map((name, place) => [name, place % MOST_KEYS])));
  const known = colourOf.get(by);
  if (!known.has(key)) known.set(key, known.size % MOST_KEYS);
  return known.get(key);
}
function keysOf(panel, shown) {
  const sums = cells.mean(shown, panel), ordered = [...sums].filter(([, rate]) => rate > 0).sort((a, b) => b[1] - a[1]).map(([key]) => key);
  for (const key of [...panel.slots.keys()]) if (!sums.has(key)) panel.slots.delete(key);
  for (const key of [...sums.keys()].sort()) slotOf(panel.by, key);
  for (const key of ordered) {
    if (panel.slots.size >= MOST_KEYS) break;
    if (panel.slots.has(key)) continue;
    const taken = new Set(panel.slots.values());
    let slot = slotOf(panel.by, key);
    while (taken.has(slot)) slot = (slot + 1) % MOST_KEYS; // of more names than colours
    panel.slots.set(key, slot);
  }
  const keys = [...panel.slots].map(([name, slot]) => ({ name, colour: colour(`s${slot}`), rate: sums.get(name) ?? 0, slot }));
  keys.sort(FIXED.includes(keys[0]?.name) ? (a, b) => a.slot - b.slot : (a, b) => a.name < b.name ? -1 : 1);
  if (sums.size > panel.slots.size) {
    const rest = [...sums].filter(([key]) => !panel.slots.has(key)).reduce((sum, [, rate]) => sum + rate, 0);
    if (rest > 0) keys.push({ name: "others", label: `${sums.size - panel.slots.size} others together`, colour: colour("others"), rate: rest, others: true });
  }
  for (const key of keys) key.faint = panel.selected !== null && panel.selected.key !== key.name;
  return keys;
}

function drawPanel(panel, at, shown, trials) {
  const statistic = cells.statistics.get(panel.statistic);
  if (panel.by === MAP) {
    panel.drawn = drawHeat(panel.ink, { range: at, cells: shown, trials, bandsOf: cell => cells.bands(cell, panel) });
  } else {
    panel.keys = keysOf(panel, shown);
    panel.drawn = drawRates(panel.ink, { range: at, cells: shown, trials, keys: panel.keys, stacked: statistic.stacked, unit: statistic.unit, ratesOf: cell => cells.rates(cell, panel) });
  }
  drawLegend(panel, shown);
}

// The legend: at the cursor, else the mean of what is shown.
function drawLegend(panel, shown) {
  const statistic = cells.statistics.get(panel.statistic), cell = cellAt(view.cursor, shown), over = cell ? [cell] : shown;
  if (panel.by === MAP) {
    const bands = new Map();
    let total = 0;
    for (const each of over) for (const [band, count] of cells.bands(each, panel)) { bands.set(band, (bands.get(band) ?? 0) + count); total += count; }
    const parts = total ? [`${total} counted`, ...[0.5, 0.99, 0.999].map(q => `p${+(q * 100).toPrecision(4)} ${duration(quantile(bands, q))}`)] : ["nothing was timed"];
    const note = document.createElement("li");
    note.className = "note";
    note.textContent = `${parts.join(", ")}. Darker or brighter is more, by logarithm${panel.drawn.most ? `, up to ${panel.drawn.most} a cell` : ""}; lines: p50, p99 dashed. Click a cell for who produced it.`;
    panel.legend.replaceChildren(note);
    panel.ink.setAttribute("aria-label", `${statistic.title}, heat map of latency: ${parts.join(", ")}`);
    return;
  }
  const rates = cells.mean(over, panel), text = viewKey(panel) + panel.keys.map(key => (key.label ?? key.name) + key.colour).join();
  const rateOf = key => key.others ? [...rates].filter(([name]) => !panel.slots.has(name)).reduce((sum, [, rate]) => sum + rate, 0) : rates.get(key.name) ?? 0;
  if (panel.keysText !== text) { // buttons stay the same ones, so that a focus is not lost
    panel.keysText = text;
    panel.legend.replaceChildren(...panel.keys.map(key => {
      const item = document.createElement("li"), button = document.createElement("button"), mark = document.createElement("i"), value = document.createElement("b");
      mark.style.background = key.colour;
      button.append(mark, key.label ?? NAMES[key.name] ?? key.name, value);
      button.title = "Who produced it";
      button.onclick = () => showProducers(panel, { key: key.name }, null);
      item.append(button);
      return item;
    }));
    if (!panel.keys.length) {
      const note = document.createElement("li");
      note.className = "note"; note.textContent = shown.length ? "nothing in this time" : "no data in this time";
      panel.legend.append(note);
    }
  }
  panel.keys.forEach((key, index) => {
    const button = panel.legend.children[index].firstChild;
    button.lastChild.textContent = amount(rateOf(key), statistic.unit);
    button.setAttribute("aria-pressed", String(panel.selected?.key === key.name));
  });
  const said = panel.keys.map(key => `${NAMES[key.name] ?? key.name} ${amount(rateOf(key), statistic.unit)}`).join(", ");
  panel.ink.setAttribute("aria-label", `${statistic.title} by ${NAMES[panel.by] ?? panel.by}: ${said || "nothing"}`);
}

const cellAt = (time, shown) => time === null ? null : shown.findLast(cell => cell.at <= time && time < cell.until) ?? null;

// Who produced a band: the same amount, told apart by every other dimension.
function showProducers(panel, selected, cell) {
  const same = panel.selected && panel.selected.key === selected.key && !cell;
  panel.selected = same ? null : selected;
  panel.producers.hidden = same;
  if (!same) {
    const at = range(), over = cell ? [cell] : cells.between(...at), statistic = cells.statistics.get(panel.statistic);
    const only = selected.low !== undefined ? { dimension: "band", ...selected } : { dimension: panel.by, key: selected.key };
    const wanted = selected.key === "others" ? panel.only : [...panel.only, only];
    const fixed = new Set(panel.only.map(one => one.dimension));
    const others = cells.dimensions(panel.statistic).filter(name => !fixed.has(name) && (selected.key === "others" ? name === panel.by : name !== panel.by && name !== only.dimension));
    const head = document.createElement("p"), tables = document.createElement("div");
    tables.className = "tables";
    head.textContent = `${statistic.title}, ${NAMES[selected.key] ?? selected.key}, ${cell ? `at ${clock(cell.at)}, ${cell.window.replace("_", "-")} window` : `mean of ${clock(at[0])} to ${clock(at[1])}`}: who produced it`;
    for (const by of others) {
      const rates = [...cells.mean(over, { statistic: panel.statistic, by, only: wanted })].filter(([key]) => selected.key !== "others" || !panel.slots.has(key)).sort((a, b) => b[1] - a[1]);
      const total = rates.reduce((sum, [, rate]) => sum + rate, 0), table = document.createElement("table");
      table.createCaption().textContent = NAMES[by] ?? by;
      for (const [key, rate] of rates.slice(0, MOST_ROWS)) {
        const row = table.insertRow(), drill = document.createElement("button");
        drill.textContent = NAMES[key] ?? key;
        drill.title = `Show only this, by ${by}`;
        drill.onclick = () => addPanel({ statistic: panel.statistic, by: by === panel.by ? others.find(name => name !== by) ?? "host" : by, only: [...wanted, { dimension: by, key }] }, "h2");
        row.insertCell().append(drill);
        row.insertCell().textContent = amount(rate, statistic.unit);
        row.insertCell().textContent = total ? `${(100 * rate / total).toFixed(1)} %` : "";
      }
      if (rates.length > MOST_ROWS) table.insertRow().insertCell().textContent = `and ${rates.length - MOST_ROWS} more`;
      if (rates.length > (by === "group" ? 1 : 0)) tables.append(table); // one group alone tells nothing
    }
    if (!tables.children.length) head.textContent = head.textContent.replace(/: who produced it$/, ": nothing is there. A click on what is coloured tells who produced it.");
    panel.producers.replaceChildren(head, tables);
  }
  redraw();
}

// Pointer: a click asks who, a drag moves through time.
let dragging = null;
function startDrag(event, panel) {
  if (event.button) return;
  dragging = { panel, x: event.clientX, end: range()[1], moved: false };
  panel.ink.setPointerCapture(event.pointerId);
  panel.ink.onpointerup = done => endDrag(done);
  panel.ink.onpointercancel = () => { dragging = null; };
  panel.ink.addEventListener("pointermove", drag);
}
function drag(event) {
  if (!dragging || Math.abs(event.clientX - dragging.x) < 5 && !dragging.moved) return;
  dragging.moved = true;
  if (view.span === "all" || view.span === "trial") return;
  const width = dragging.panel.ink.clientWidth - LEFT - RIGHT, [from, to] = range();
  view.playing = false;
  goTo(dragging.end - (event.clientX - dragging.x) / width * (to - from));
}
function endDrag(event) {
  const { panel, moved } = dragging;
  dragging = null;
  panel.ink.removeEventListener("pointermove", drag);
  if (moved) return;
  const at = range(), shown = cells.between(...at), cell = cellAt(timeAt(event.offsetX, at, panel.ink.clientWidth), shown);
  if (!cell) return;
  if (panel.by === MAP) {
    const band = panel.drawn.bandAt(event.offsetY);
    if (band) showProducers(panel, { key: `${duration(10 ** (band[0] / 32))} to ${duration(10 ** (band[1] / 32))}`, low: band[0], high: band[1] }, cell);
    return;
  }
  const value = panel.drawn.valueAt(event.offsetY), rates = cells.rates(cell, panel), stacked = cells.statistics.get(panel.statistic).stacked;
  let sum = 0, best = null;
  for (const key of panel.keys) {
    const rate = key.others ? [...rates].filter(([name]) => !panel.slots.has(name)).reduce((all, [, one]) => all + one, 0) : rates.get(key.name) ?? 0;
    if (stacked) { sum += rate; if (value <= sum && !best) best = key; }
    else if (!best || Math.abs(rate - value) < best.off) best = { ...key, off: Math.abs(rate - value) };
  }
  best ??= panel.keys.at(-1);
  if (best) showProducers(panel, { key: best.name }, cell);
}

// The map of the campaign.
const map = $("map");
function fromMap(event) {
  const extent = cells.extent();
  if (!extent) return;
  const time = extent[0] + event.offsetX / map.clientWidth * (extent[1] - extent[0]), [from, to] = range();
  view.playing = false;
  if (view.span === "trial") { const trial = trialAt(time); if (trial) goTo(Math.min(Cells.endOf(trial), trial.info.start_s + 0.6)); }
  else { if (view.span === "all") $("span").value = view.span = "60"; goTo(time + Math.min(to - from, +view.span || 60) / 2); }
}
map.onpointerdown = event => { map.setPointerCapture(event.pointerId); fromMap(event); map.onpointermove = fromMap; };
map.onpointerup = map.onpointercancel = () => { map.onpointermove = null; };

// Stored trials come when they are looked at.
function loadVisible(at) {
  for (const trial of cells.inOrder()) {
    if (loading.size >= 2) return;
    const { trial: name, status, start_s } = trial.info;
    if (trial.loaded || loading.has(name) || !["finished", "failed"].includes(status) || start_s > at[1] || Cells.endOf(trial) < at[0]) continue;
    loading.add(name);
    fetch(`trial/${encodeURIComponent(name)}`).then(answer => answer.ok ? answer.json() : { samples: [] }).then(({ samples }) => {
      trial.loaded = true;
      for (const sample of samples) cells.take(sample);
      const loaded = [...cells.trials.values()].filter(each => each.loaded && each !== trial);
      if (loaded.length > MOST_LOADED) { const far = loaded.sort((a, b) => Math.abs(b.info.start_s - start_s) - Math.abs(a.info.start_s - start_s))[0]; far.cells.clear(); far.count = 0; far.sorted = null; far.loaded = false; }
    }).catch(() => new Promise(later => setTimeout(later, AGAIN_MS))).finally(() => { loading.delete(name); redraw(); if (moveWanted) moveCursor(moveWanted); });
  }
}

// Drawing, at most once a frame.
function redraw() { if (!scheduled) { scheduled = true; requestAnimationFrame(draw); } }
function draw() {
  scheduled = false;
  if (!state) return;
  const at = range(), shown = cells.between(...at), trials = cells.inOrder();
  loadVisible(at);
  for (const panel of panels) drawPanel(panel, at, shown, trials);
  const extent = cells.extent();
  drawMap(map, { extent, trials, endOf: Cells.endOf, range: at });
  if (extent) { map.setAttribute("aria-valuemin", "0"); map.setAttribute("aria-valuemax", String(Math.round(extent[1] - extent[0]))); map.setAttribute("aria-valuenow", String(Math.round(Math.max(0, at[1] - extent[0])))); }
  for (const panel of panels) drawCursor(panel.over, at, view.cursor);
  const trial = trialAt(view.cursor ?? at[1] - 0.01), here = cellAt(view.cursor ?? at[1] - 0.01, shown);
  $("current").textContent = trial ? `trial ${trial.info.order + 1}: ${trial.info.label}, ${trial.info.status}${here ? `; at the cursor its ${here.window.replace("_", "-")} window` : ""}${trial.info.reason ? `: ${trial.info.reason}` : ""}` : "no trial yet";
  $("when").textContent = view.cursor !== null ? `cursor at ${clock(view.cursor)}` : view.end === null && isLive() ? "now" : `up to ${clock(at[1])}`;
  $("play").textContent = view.playing && (view.end !== null || isLive()) ? "Pause" : isLive() ? "Go on" : "Play";
  $("live").hidden = !isLive(); $("live").setAttribute("aria-pressed", String(view.end === null && isLive()));
  $("speed-of").hidden = isLive() && view.end === null;
  drawn = cells.changed;
  document.body.dataset.drawn = String(drawn); document.body.dataset.shown = String(shown.length);
  document.body.dataset.samples = String(shown.reduce((sum, cell) => sum + cell.samples.size, 0));
  document.body.dataset.newest = String(shown.length ? shown.at(-1).until : 0);
}
function drawCursors() { const at = range(), shown = cells.between(...at); for (const panel of panels) { drawCursor(panel.over, at, view.cursor); drawLegend(panel, shown); } }

function minutes(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}
function showState() {
  document.title = `${state.name} · iodyno watch`;
  $("name").textContent = state.name; $("question").textContent = state.question;
  const ends = { finished: "the campaign has ended", killed: "the lab is gone without a word; `iodyno run --resume` goes on" };
  const phases = { waiting: "not finished, and no lab is at work on it", running: state.stage || "running", ended: ends[state.how] ?? `the campaign was ${state.how}`, over: "finished" };
  $("phase").textContent = phases[state.phase];
  const all = Math.max(state.planned, state.finished + state.failed, 1);
  $("progress").max = all; $("progress").value = state.finished + state.failed;
  $("counts").textContent = [`${state.finished} of ${all} trials`, state.failed && `${state.failed} failed`, state.phase === "running" && state.left_s !== null && `${minutes(Math.max(0, state.left_s - (now() - state.now_s)))} left`, state.look, ...state.metrics.map(m => `${m.name} ${m.value.toPrecision(3)} ${m.unit}`), state.lost && `${state.lost} lines of the feed were lost`].filter(Boolean).join(", ");
  $("warnings").hidden = !state.warnings.length;
  $("warnings").firstElementChild.textContent = `${state.warnings.length} warning${state.warnings.length === 1 ? "" : "s"}`;
  $("warnings").lastElementChild.replaceChildren(...state.warnings.map(text => { const item = document.createElement("li"); item.textContent = text; return item; }));
}
setInterval(() => { if (state && performance.now() - heard <= SILENT_MS) showState(); }, 1000);

// From the server.
const events = new EventSource("events");
const hear = () => { heard = performance.now(); };
events.addEventListener("state", event => {
  hear();
  const before = state?.phase;
  state = JSON.parse(event.data);
  if (isLive() && before && before !== "running") goLive(); // a campaign was taken up again
  skew = state.now_s - Date.now() / 1000;
  if (!cells.statistics.size) { cells.setStatistics(state.statistics); for (const spec of remembered()) addPanel(spec); }
  showState(); redraw();
});
events.addEventListener("trials", event => { hear(); cells.setTrials(JSON.parse(event.data)); redraw(); });
events.addEventListener("sample", event => { hear(); cells.take(JSON.parse(event.data)); redraw(); });
events.addEventListener("beat", hear);

// Hands.
$("play").onclick = () => setPlaying(!(view.playing && (view.end !== null || isLive())));
$("live").onclick = goLive;
$("span").onchange = event => { view.span = event.target.value; remember(); redraw(); };
$("add").onclick = () => addPanel({ statistic: "cpu", by: "host" }, ".statistic");
$("help").onclick = () => { $("keys").hidden = !$("keys").hidden; $("help").setAttribute("aria-expanded", String(!$("keys").hidden)); };
let moveWanted = 0;
function moveCursor(by) {
  const shown = cells.between(...range());
  loadVisible(range());
  // What is shown may be on its way yet.
  moveWanted = shown.length || !loading.size ? 0 : by;
  if (!shown.length) return;
  const starts = [...new Set(shown.map(cell => cell.at))], here = view.cursor === null ? (by < 0 ? starts.length : -1) : starts.findLastIndex(at => at <= view.cursor);
  view.cursor = starts[Math.min(starts.length - 1, Math.max(0, here + by))] + 1e-6;
  drawCursors(); redraw();
}
function otherTrial(by) {
  const trials = cells.inOrder(), here = trials.indexOf(trialAt(range()[1] - 0.01)), there = trials[Math.min(trials.length - 1, Math.max(0, here + by))];
  if (there) { view.playing = false; goTo(Cells.endOf(there)); }
}
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("select, input")) return;
  if (event.key === " " && event.target.closest?.("button, summary")) return;
  const [from, to] = range(), spans = [...$("span").options].map(option => option.value);
  const span = by => { $("span").value = view.span = spans[Math.min(spans.length - 1, Math.max(0, spans.indexOf(view.span) + by))]; redraw(); };
  const deeds = {
    " ": () => setPlaying(!(view.playing && (view.end !== null || isLive()))), ArrowLeft: () => moveCursor(-1), ArrowRight: () => moveCursor(1), l: goLive, L: goLive, End: goLive,
    Home: () => { const first = cells.inOrder()[0]; if (first) { view.playing = false; goTo(Cells.endOf(first)); } },
    "[": () => otherTrial(-1), "]": () => otherTrial(1), "-": () => span(1), "+": () => span(-1), "=": () => span(-1), "?": () => $("help").click(),
    Escape: () => { view.cursor = null; view.pinned = false; for (const panel of panels) { panel.selected = null; panel.producers.hidden = true; } redraw(); },
  };
  if (event.shiftKey && event.key === "ArrowLeft") { view.playing = false; goTo(to - (to - from)); }
  else if (event.shiftKey && event.key === "ArrowRight") goTo(to + (to - from));
  else if (deeds[event.key]) deeds[event.key]();
  else return;
  event.preventDefault();
});
new ResizeObserver(redraw).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const panel of panels) panel.keysText = ""; redraw(); });
