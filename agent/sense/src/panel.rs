//! The sensors of one trial, read together.

use iodyno_core::metric::{Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_sys::clock;

use crate::sensor::{Roots, SenseError, Sensor, Subject};
use crate::sensors::{find, OF_STORAGE, SENSORS};

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
}

impl Panel {
    /// Makes sensors ready: those wanted, or, without a wish, every one that is available. A sensor that is
    /// wanted and not available gives readings that say why.
    ///
    /// # Errors
    /// [`SenseError::Unknown`] when a wanted name is no sensor's.
    pub fn new(roots: &Roots, subject: &Subject, wanted: Option<&[String]>) -> Result<Panel, SenseError> {
        let entries = match wanted {
            Some(names) => names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?,
            None => {
                let has = |name| subject.storage || !OF_STORAGE.contains(name);
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
                places.push(Place { name: entry.name, sensor, last: None });
            }
        }
        Ok(Panel { places })
    }

    /// Names of the sensors, in the order of the readings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.places.iter().map(|place| place.name)
    }

    /// Reads everything and forgets the values: the next reading's growths count from here.
    pub fn baseline(&mut self) {
        self.read();
    }

    /// Reads every sensor, one after the other. Without a baseline the first reading has no counters.
    pub fn read(&mut self) -> Vec<Reading> {
        self.places.iter_mut().map(Place::read).collect()
    }
}

impl Place {
    fn read(&mut self) -> Reading {
        let read_ns = clock::monotonic();
        let cpu_before = clock::thread_cpu();
        let mut values: Vec<Value> = Vec::new();
        let outcome = match &mut self.sensor {
            Ok(sensor) => sensor.read(&mut values).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        let span_ns = self.last.map_or(Nanos(0), |last| read_ns.minus(last));
        let mut times = Vec::new();
        let missing = match outcome {
            Ok(missing) => {
                self.last = Some(read_ns);
                if let Ok(sensor) = &mut self.sensor {
                    times = sensor.times();
                }
                missing
            }
            Err(reason) => {
                values.clear();
                Some(reason)
            }
        };
        let cost_ns = clock::thread_cpu().minus(cpu_before);
        Reading { sensor: self.name.to_owned(), read_ns, span_ns, cost_ns, values, times, missing }
    }
}
