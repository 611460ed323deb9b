//! Times that are written as clocks.

use iodyno_heat::reduce::Request;
use iodyno_heat::unit::Unit;

use crate::forms::{request, run};

#[test]
fn a_line_of_two_columns_may_begin_with_a_clock() {
    let seconds = [0, 1, 59, 60, 61, 3_599];
    let plain: String = seconds.iter().map(|at| format!("{at} {}\n", 100 + at)).collect();
    let plain = run(plain.as_bytes(), &Request { value_unit: Some(Unit::US), ..request() }).unwrap();
    type Clock = fn(u64, u64, u64, u64) -> String;
    let clocks: [Clock; 8] = [
        |h, m, s, value| format!("2026-11-26 {h:02}:{m:02}:{s:02}.000 {value}"),
        |h, m, s, value| format!("2026-11-26T{h:02}:{m:02}:{s:02}Z\t{value}"),
        |h, m, s, value| format!("2026/11/26 {h:02}:{m:02}:{s:02} {value}"),
        |h, m, s, value| format!("2026-11-26 {h:02}:{m:02}:{s:02}+01:00, {value}"),
        |h, m, s, value| format!("2026-11-26,{h:02}:{m:02}:{s:02},{value}"),
        |h, m, s, value| format!("[2026-11-26 {h:02}:{m:02}:{s:02}] {value}"),
        |h, m, s, value| format!("{h:02}:{m:02}:{s:02} {value}"),
        |h, m, s, value| format!("{h:02}:{m:02}:{s:02};{value}\r"),
    ];
    for clock in clocks {
        let line = |at: &u64| clock(16 + at / 3600, at / 60 % 60, at % 60, 100 + at);
        let text = seconds.iter().map(line).collect::<Vec<_>>().join("\n");
        let found = run(text.as_bytes(), &Request { value_unit: Some(Unit::US), ..request() }).unwrap();
        assert_eq!((&found.cells, found.column_ns), (&plain.cells, plain.column_ns), "{text}");
        assert_eq!((found.events, found.unreadable), (6, 0), "{text}");
    }
    let wider = b"2026-11-26 16:00:00 7 8\n2026-11-26 16:00:01 7\n2026-11-26 16:00:02 7\n";
    let found = run(wider, &Request { value_unit: Some(Unit::US), ..request() }).unwrap();
    assert!(found.unreadable_first[0].1.contains("--value-column"), "{:?}", found.unreadable_first);
}
