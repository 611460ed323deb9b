//! Every form of traces, with changes, as itself and as what it is taken for.

#[path = "../../../../agent/core/tests/mutation/mod.rs"]
mod mutation;

use iodyno_heat::formats::FORMS;
use iodyno_heat::pass::Progress;
use iodyno_heat::reduce::{reduce, Request};
use iodyno_heat::source::Source;

use crate::forms::{file_of, request, with_units, written, Truth, TEXT_FORMS};
use crate::packets_and_histograms::{frame, interval_log, pcap, pcapng};

fn seeds(form: &str) -> Vec<Vec<u8>> {
    let truths: Vec<Truth> = (1..6)
        .map(|at| Truth { begin_us: at * 1_700, latency_us: at * at * 90, write: at % 2 == 0 })
        .collect();
    if TEXT_FORMS.contains(&form) {
        return vec![written(form, &truths).0];
    }
    if form == "pcap" {
        let packets: Vec<_> = (1..5).map(|at| (at * 1_000, frame(2_000, at % 2 == 0, 60))).collect();
        return vec![pcap(&packets, true), pcap(&packets, false), pcapng(&packets)];
    }
    vec![interval_log(&[90, 400, 5_000])]
}

#[test]
fn traces_with_changes_are_read_or_refused() {
    for form in FORMS {
        let as_itself = Request { form: Some(form.name.to_owned()), threads: 1, ..with_units(form.name) };
        let recognised = Request { threads: 1, ..request() };
        let mut number = 0;
        mutation::try_all(&format!("trace, {}", form.name), &seeds(form.name), |data| {
            number += 1;
            let source = Source::open("trace", file_of(data)).unwrap();
            let asked = if number % 4 == 0 { &recognised } else { &as_itself };
            reduce(vec![source], asked, &Progress::default()).is_ok()
        });
    }
}
