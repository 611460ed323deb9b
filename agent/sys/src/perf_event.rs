//! Hardware counters through `perf_event_open`.
