// What came from the server, cut into cells: one interval of one trial, with a sample of each host.
// A view is { statistic, by, only: [{ dimension, key, low, high }] }; it asks for rates by key.

export const BANDS = 32; // a decade, as facts.py has it
const UNITS = ["1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"];
const MOST_SAMPLES = 60000; // of one trial: half an hour of 30 hosts; older ones are in the store when the trial is over
const PER_HOST = ["host", "group"];

export const edge = band => 10 ** (band / BANDS);
export const decadeName = decade => `${UNITS[decade] ?? "?"} and more`;
export const viewKey = view => JSON.stringify([view.statistic, view.by, view.only]);

export function duration(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (ns >= size) return `${+(ns / size).toPrecision(3)} ${unit}`;
  return `${+ns.toPrecision(3)} ns`;
}

export class Cells {
  constructor() {
    this.trials = new Map(); // name -> { info, cells: Map(index -> cell), loaded }
    this.statistics = new Map();
    this.changed = 0;
  }

  setStatistics(list) { for (const each of list) this.statistics.set(each.name, each); }

  setTrials(list) {
    for (const info of list) {
      const known = this.trials.get(info.trial);
      if (known) known.info = info; else this.trials.set(info.trial, { info, cells: new Map(), loaded: false });
    }
    this.changed++;
  }

  take(sample) {
    let trial = this.trials.get(sample.trial);
    if (!trial) return;
    let cell = trial.cells.get(sample.index);
    if (!cell) {
      cell = { trial: sample.trial, index: sample.index, window: sample.window, begin: sample.begin_s, end: sample.end_s, samples: new Map(), found: new Map() };
      trial.cells.set(sample.index, cell);
      trial.sorted = null;
    }
    if (cell.samples.has(sample.host)) return; // it came twice, after a lost connection
    cell.samples.set(sample.host, sample);
    cell.begin = Math.min(cell.begin, sample.begin_s);
    cell.end = Math.max(cell.end, sample.end_s);
    cell.found.clear();
    this.changed++;
    trial.count = (trial.count ?? 0) + 1;
    while (trial.count > MOST_SAMPLES && trial.cells.size > 1) {
      const oldest = trial.cells.keys().next().value; // they come in order
      trial.count -= trial.cells.get(oldest).samples.size;
      trial.cells.delete(oldest); trial.sorted = null;
    }
  }

  inOrder() { return [...this.trials.values()].sort((a, b) => a.info.start_s - b.info.start_s); }

  static endOf(trial) {
    let last = trial.info.length_s;
    for (const cell of trial.cells.values()) last = Math.max(last, cell.end);
    return trial.info.start_s + last;
  }

  // The first and the last instant of the campaign, in seconds of the wall clock.
  extent() {
    const trials = this.inOrder();
    return trials.length ? [trials[0].info.start_s, Math.max(...trials.map(Cells.endOf))] : null;
  }

  // Cells that lie in [from, to], in order of time, with their place as seconds of the wall clock in `at` and `until`.
  between(from, to) {
    const found = [];
    for (const trial of this.inOrder()) {
      if (trial.info.start_s > to || Cells.endOf(trial) < from) continue;
      trial.sorted ??= [...trial.cells.values()].sort((a, b) => a.index - b.index);
      for (const cell of trial.sorted) {
        cell.at = trial.info.start_s + cell.begin;
        cell.until = trial.info.start_s + cell.end;
        if (cell.until > from && cell.at < to) found.push(cell);
      }
    }
    return found;
  }

  dimensions(statistic) { return [...(this.statistics.get(statistic)?.dimensions ?? []), ...PER_HOST]; }

  // Rates by key, in the statistic's unit.
  rates(cell, view) {
    const name = viewKey(view);
    let found = cell.found.get(name);
    if (!found) cell.found.set(name, found = this.sum(cell, view, (sum, amount, ns, scale) => sum + amount * scale / ns));
    return found;
  }

  // Counts by latency band.
  bands(cell, view) {
    const name = "bands" + viewKey(view);
    let found = cell.found.get(name);
    if (!found) {
      cell.found.set(name, found = this.sum(cell, { ...view, by: "*band" }, (sum, amount) => sum + amount));
      found.delete("");
    }
    return found;
  }

  sum(cell, view, add) {
    const statistic = this.statistics.get(view.statistic), sums = new Map();
    if (!statistic) return sums;
    const value = (sample, fact, dimension) => {
      if (dimension === "host" || dimension === "group") return sample[dimension];
      if (dimension === "*band") return fact[2];
      const at = statistic.dimensions.indexOf(dimension);
      if (at < 0) return "all";
      const text = fact[at + 1];
      return dimension === "band" ? (text === "" ? "not timed" : decadeName(Math.floor(+text / BANDS))) : text || "all";
    };
    for (const sample of cell.samples.values()) {
      const ns = (sample.end_s - sample.begin_s) * 1e9;
      if (!(ns > 0)) continue;
      for (const fact of sample.facts) {
        if (fact[0] !== view.statistic) continue;
        const wanted = view.only.every(one => one.low !== undefined
          ? fact[2] !== "" && +fact[2] >= one.low && +fact[2] < one.high : value(sample, fact, one.dimension) === one.key);
        if (!wanted) continue;
        const key = value(sample, fact, view.by);
        sums.set(key, add(sums.get(key) ?? 0, fact[3], ns, statistic.scale));
      }
    }
    return sums;
  }

  // Mean rates over some cells, each weighted by its length.
  mean(cells, view) {
    const sums = new Map();
    let length = 0;
    for (const cell of cells) {
      const took = cell.end - cell.begin;
      length += took;
      for (const [key, rate] of this.rates(cell, view)) sums.set(key, (sums.get(key) ?? 0) + rate * took);
    }
    for (const [key, sum] of sums) sums.set(key, length ? sum / length : 0);
    return sums;
  }
}

// The time in ns that a share q of the counts does not exceed; the band is taken to be filled evenly on the logarithm.
export function quantile(bands, q) {
  const ordered = [...bands].map(([band, count]) => [+band, count]).sort((a, b) => a[0] - b[0]);
  const total = ordered.reduce((sum, [, count]) => sum + count, 0);
  let rank = q * total;
  for (const [band, count] of ordered) {
    if (rank <= count) return edge(band + rank / count);
    rank -= count;
  }
  return null;
}
