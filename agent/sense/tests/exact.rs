use iodyno_core::units::Nanos;
use iodyno_sense::{Panel, Roots, Subject};
use std::time::{Duration, Instant};
#[test]
fn look() {
    for _ in 0..3 {
        let t = Instant::now();
        let mut panel = Panel::new(
            &Roots::default(),
            &Subject { warm_up: Nanos(300_000_000), ..Subject::default() },
            Some(&["cpu_exact".to_owned()]),
        )
        .unwrap();
        eprintln!("open {:?}", t.elapsed());
        panel.baseline();
        let t = Instant::now();
        while t.elapsed() < Duration::from_millis(350) {
            std::fs::metadata("/").unwrap();
        }
        let r = panel.read();
        eprintln!("span {:?} missing {:?} cost {:?}", r[0].span_ns, r[0].missing, r[0].cost_ns);
        for v in &r[0].values {
            eprintln!("{} {} {}", v.0, v.1, v.2);
        }
        let t = Instant::now();
        drop(panel);
        eprintln!("drop {:?}", t.elapsed());
    }
}
