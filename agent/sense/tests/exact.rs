use iodyno_sense::{Panel, Roots, Subject};
use std::time::{Duration, Instant};

#[test]
fn look() {
    for _ in 0..3 {
        let t = Instant::now();
        let mut panel =
            Panel::new(&Roots::default(), &Subject::default(), Some(&["cpu_exact".to_owned()])).unwrap();
        eprintln!("open {:?}", t.elapsed());
        panel.baseline();
        std::thread::sleep(Duration::from_millis(500));
        let r = panel.read();
        eprintln!(
            "{:#?} sum {}",
            r,
            r[0].values
                .iter()
                .filter(|v| v.0.ends_with("_ns") && v.1.starts_with("cpu=0"))
                .map(|v| v.2)
                .sum::<u64>()
        );
        let t = Instant::now();
        drop(panel);
        eprintln!("drop {:?}", t.elapsed());
    }
}
