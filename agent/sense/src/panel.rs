//! The sensors of one trial, read together.

use iodyno_core::metric::{Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_sys::clock;

use crate::sensor::{Roots, SenseError, Sensor, Subject};
use crate::sensors::{find, NAMED, OF_EACH, OF_STORAGE, SENSORS};

/// Share of a CPU above which a sensor of each thread or connection is read at the ends of windows only. Chosen: a tenth
/// of the project's bound for the whole instrument; with a hundred connections none is above.
const COSTLY: f64 = 0.002;

/// CPU time of sensors on end, after which others have a turn. Chosen: a reading of all of them takes 0.7 to 1.5 ms, by a
/// thread that goes before all others, and who answers a request within 60 us is not to be kept from its CPU for as long. Of
/// requests that took 0.2 ms at the 99th percentile, ten readings a second made 1.1 to 1.3 ms; with turns, 0.3 to 0.7.
const ON_END: Nanos = Nanos(60_000);
/// How long the thread sleeps for that: about as long as the costliest sensors take.
const TURN: Nanos = Nanos(150_000);
/// A turn that took longer is the last one of a reading: others have more to do than they could before the reading ends.
const LONG_TURN: Nanos = Nanos(1_000_000);

/// Interval from which on others need no turns. Chosen: a reading of 1 ms then delays at most a thousandth of what others do, and
/// each turn takes some 30 us of a CPU, as much as a sensor.
const SELDOM: Nanos = Nanos::SECOND;

/// Gives others a turn now and then while the sensors are read.
#[derive(Default)]
struct Turns {
    on_end: Nanos,
    over: bool,
}

impl Turns {
    /// Those of readings that follow each other after an interval.
    fn every(interval: Nanos) -> Turns {
        Turns { over: interval >= SELDOM, ..Turns::default() }
    }

    /// A sensor took so much CPU time.
    fn took(&mut self, cost: Nanos) {
        self.on_end = self.on_end.plus(cost);
        if self.over || self.on_end < ON_END {
            return;
        }
        self.on_end = Nanos(0);
        let asked = clock::monotonic();
        // An absolute sleep fails for a malformed time only, which this is not.
        let _ = clock::sleep_until(asked.plus(TURN));
        self.over = clock::monotonic().minus(asked) > LONG_TURN;
    }
}

/// The sensors of a trial.
pub struct Panel {
    places: Vec<Place>,
}

/// One sensor on the panel.
struct Place {
    name: &'static str,
    /// The sensor, or why the host does not have it.
    sensor: Result<Box<dyn Sensor>, String>,
    /// When it was last read with success: its counters grow from there.
    last: Option<Nanos>,
    costs: Costs,
}

/// CPU time of the last readings of a sensor, the last one first. Some take long: they meet memory that nobody has used, or
/// interrupts, whose time is the thread's, of 15 us to 2 ms where they take 20 by themselves.
struct Costs([Nanos; 4]);

/// Costs of a sensor that was not read yet: readings that were not made do not say that it takes little.
const UNREAD: Costs = Costs([Nanos(u64::MAX); 4]);

impl Costs {
    fn add(&mut self, cost: Nanos) {
        self.0.rotate_right(1);
        self.0[0] = cost;
    }

    /// Whether each of them was too much to be read again after an `interval`.
    fn too_much(&self, interval: Nanos) -> bool {
        self.0.iter().all(|cost| cost.0 as f64 > interval.0 as f64 * COSTLY)
    }
}

impl Panel {
    /// Makes sensors ready: those wanted, or, without a wish, every one that is available and does not have to be named. A
    /// sensor that is wanted and not available gives readings that say why.
    ///
    /// # Errors
    /// [`SenseError::Unknown`] when a wanted name is no sensor's.
    pub fn new(roots: &Roots, subject: &Subject, wanted: Option<&[String]>) -> Result<Panel, SenseError> {
        let entries = match wanted {
            Some(names) => names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?,
            None => {
                let has = |name| !NAMED.contains(name) && (subject.storage || !OF_STORAGE.contains(name));
                SENSORS.iter().filter(|entry| has(&entry.name)).collect()
            }
        };
        // What is named is read, whatever the load is on.
        let subject = &Subject { storage: subject.storage || wanted.is_some(), ..subject.clone() };
        let mut places: Vec<Place> = Vec::with_capacity(entries.len());
        for entry in entries {
            let sensor = (entry.open)(roots, subject).map_err(|error| error.to_string());
            let twice = places.iter().any(|place| place.name == entry.name);
            if !twice && (sensor.is_ok() || wanted.is_some()) {
                places.push(Place { name: entry.name, sensor, last: None, costs: UNREAD });
            }
        }
        Ok(Panel { places })
    }

    /// Names of the sensors, in the order of the readings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.places.iter().map(|place| place.name)
    }

    /// Reads everything and forgets the values: the next reading's growths count from here. What may take long is read twice:
    /// one interrupt in a single reading would leave it out of the whole window.
    pub fn baseline(&mut self) {
        for place in &mut self.places {
            for _ in 0..if OF_EACH.contains(&place.name) { 2 } else { 1 } {
                place.read();
            }
        }
    }

    /// Reads every sensor, one after the other, with turns for others between. Without a baseline the first reading has no
    /// counters.
    pub fn read(&mut self) -> Vec<Reading> {
        let mut turns = Turns::default();
        self.places.iter_mut().map(|place| place.read_among(&mut turns)).collect()
    }

    /// Reads the sensors in the middle of a window, where they are read again and again after an `interval`: without those
    /// that ask for each thread or connection, if these are so many that it would take too much of a CPU. The next reading of
    /// such a sensor covers the whole time since its last one.
    pub fn read_between(&mut self, interval: Nanos) -> Vec<Reading> {
        let mut turns = Turns::every(interval);
        let cheap = self.places.iter_mut().filter(|place| !place.is_costly(interval));
        cheap.map(|place| place.read_among(&mut turns)).collect()
    }
}

impl Place {
    /// Whether the sensor takes too much to be read each time.
    fn is_costly(&self, interval: Nanos) -> bool {
        OF_EACH.contains(&self.name) && self.costs.too_much(interval)
    }

    fn read_among(&mut self, turns: &mut Turns) -> Reading {
        let reading = self.read();
        turns.took(reading.cost_ns);
        reading
    }

    fn read(&mut self) -> Reading {
        let mut read_ns = clock::monotonic();
        let cpu_before = clock::thread_cpu();
        let mut values: Vec<Value> = Vec::new();
        let outcome = match &mut self.sensor {
            Ok(sensor) => sensor.read(&mut values).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        let mut times = Vec::new();
        if let (Ok(_), Ok(sensor)) = (&outcome, &mut self.sensor) {
            times = sensor.times();
            read_ns = sensor.instant().unwrap_or(read_ns);
        }
        let span_ns = self.last.map_or(Nanos(0), |last| read_ns.minus(last));
        let missing = match outcome {
            Ok(missing) => {
                self.last = Some(read_ns);
                missing
            }
            Err(reason) => {
                values.clear();
                Some(reason)
            }
        };
        let cost_ns = clock::thread_cpu().minus(cpu_before);
        self.costs.add(cost_ns);
        Reading { sensor: self.name.to_owned(), read_ns, span_ns, cost_ns, values, times, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes some time at every reading, and counts one.
    struct Slow;

    impl Sensor for Slow {
        fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
            let begin = clock::thread_cpu();
            while clock::thread_cpu().minus(begin) < Nanos(1_000_000) {}
            out.push(Value("slow.readings".into(), "".into(), 1));
            Ok(None)
        }
    }

    #[test]
    fn others_have_turns_while_sensors_are_read() {
        let place = |name| Place { name, sensor: Ok(Box::new(Slow)), last: None, costs: UNREAD };
        let mut panel = Panel { places: ["softirqs", "interrupts", "memory"].map(place).into() };
        panel.baseline();
        let (begin, cpu) = (clock::monotonic(), clock::thread_cpu());
        assert_eq!(panel.read().len(), 3);
        let (passed, took) = (clock::monotonic().minus(begin), clock::thread_cpu().minus(cpu));
        assert!(passed.minus(took) >= TURN, "{passed:?}, {took:?} of it on a CPU");
        assert!(Turns::every(SELDOM).over && !Turns::every(SELDOM.minus(Nanos(1))).over);
    }

    /// Waits before it counts nanoseconds, as one does that has to wait for its turn, and tells when it counted.
    struct Late {
        wait: Nanos,
        counted: Nanos,
    }

    impl Sensor for Late {
        fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
            let before = self.counted;
            clock::sleep_until(clock::monotonic().plus(self.wait)).unwrap();
            self.wait = self.wait.plus(Nanos(20_000_000));
            self.counted = clock::monotonic();
            out.push(Value("late.ns".into(), "".into(), self.counted.minus(before).0));
            Ok(None)
        }

        fn instant(&self) -> Option<Nanos> {
            Some(self.counted)
        }
    }

    #[test]
    fn the_span_of_a_reading_ends_when_its_sensor_says_that_it_counted() {
        let late = Late { wait: Nanos(0), counted: Nanos(0) };
        let sensor: Result<Box<dyn Sensor>, String> = Ok(Box::new(late));
        let mut panel = Panel { places: vec![Place { name: "late", sensor, last: None, costs: UNREAD }] };
        panel.baseline();
        for _ in 0..3 {
            let reading = panel.read().remove(0);
            assert_eq!(reading.values[0].2, reading.span_ns.0);
        }
    }

    #[test]
    fn readings_that_took_long_say_nothing_of_the_next_and_four_on_end_do() {
        let (mut costs, interval) = (UNREAD, Nanos(10_000_000));
        let (little, much) = (Nanos(19_000), Nanos(1_000_000));
        let mut too_much = |cost| {
            costs.add(cost);
            costs.too_much(interval)
        };
        assert!(too_much(much) && too_much(much), "nothing else is known");
        let told: Vec<bool> =
            [little, much, much, much, little, much, much, much, much, little].map(&mut too_much).into();
        assert_eq!(told.iter().position(|told| *told), Some(8), "{told:?}");
        assert!(!told[9]);
    }

    #[test]
    fn in_the_middle_of_a_window_only_what_asks_for_each_connection_is_left_out_where_it_takes_too_much() {
        let place = |name| Place { name, sensor: Ok(Box::new(Slow)), last: None, costs: UNREAD };
        let mut panel = Panel { places: vec![place("tcp_info"), place("softirqs")] };
        let names = |readings: Vec<Reading>| -> Vec<String> {
            readings.into_iter().map(|reading| reading.sensor).collect()
        };
        panel.baseline();
        let begin = panel.places[0].last.unwrap();
        // A millisecond is 10 % of ten, and 0.01 % of ten seconds; the machine may be busy, the thread's own time is not.
        assert_eq!(names(panel.read_between(Nanos(10_000_000))), ["softirqs"]);
        assert_eq!(names(panel.read_between(Nanos(10_000_000_000))), ["tcp_info", "softirqs"]);
        let between = panel.places[0].last.unwrap();
        assert_eq!(names(panel.read_between(Nanos(10_000_000))), ["softirqs"]);
        let last = panel.read().remove(0);
        assert_eq!((last.sensor.as_str(), last.span_ns), ("tcp_info", last.read_ns.minus(between)));
        assert!(between > begin);
    }
}
