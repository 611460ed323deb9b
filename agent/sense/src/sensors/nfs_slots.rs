//! Requests that the kernel's NFS client sent, and how many waited for a slot of their transport meanwhile.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const MOUNTSTATS: &str = "/proc/self/mountstats";
const LABEL: &str = "mount=/mnt";

const SENT: Metric = counter("nfs.requests", "1", MOUNTSTATS, LABEL, "Requests sent to the server.");
const WAITED: Metric = counter(
    "nfs.waiting_for_slots",
    "1",
    MOUNTSTATS,
    LABEL,
    "Sum over the requests, when each was sent, of those that waited for a slot.",
);
const SLOTS: Metric =
    gauge("nfs.slots", "1", MOUNTSTATS, LABEL, "Most slots that were in use at a time since the mount.");

pub(crate) const ENTRY: Entry = Entry { name: "nfs_slots", metrics: &[SENT, WAITED, SLOTS], open };

struct NfsSlots {
    mountstats: Source,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let mut mountstats = Source::open(roots.proc.join("self/mountstats"))?;
    if of_mounts(&mountstats.text()?).is_empty() {
        return Err(SenseError::Unavailable("nothing is mounted by NFS".to_owned()));
    }
    Ok(Box::new(NfsSlots { mountstats, growths: Growths::default() }))
}

impl Sensor for NfsSlots {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.mountstats.text()?;
        self.growths.begin();
        for (mount, [sent, waited, slots]) in of_mounts(&text) {
            let label = format!("mount={}", mount.replace([',', '='], "_"));
            self.growths.put(out, &SENT, &label, sent, Width::Bits64);
            self.growths.put(out, &WAITED, &label, waited, Width::Bits64);
            put(out, &SLOTS, label, slots);
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Of each mount: requests sent, the sum of those that waited, most slots; over all transports (`nconnect`).
fn of_mounts(text: &str) -> Vec<(&str, [u64; 3])> {
    let mut found: Vec<(&str, [u64; 3])> = Vec::new();
    let mut mount = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["device", _, "mounted", "on", at, ..] => mount = Some(at),
            ["xprt:", transport, ref numbers @ ..] => {
                // Columns of xs_tcp_print_stats and xs_udp_print_stats (net/sunrpc/xprtsock.c), which has no three of connecting.
                let first = if transport == "udp" { 2 } else { 5 };
                let number = |column: usize| numbers.get(column)?.parse::<u64>().ok();
                let columns = [first, first + 4, first + 5].map(number);
                let (Some(at), [Some(sent), Some(waited), Some(slots)]) = (mount, columns) else { continue };
                let place = found.iter().position(|(known, _)| *known == at).unwrap_or_else(|| {
                    found.push((at, [0; 3]));
                    found.len() - 1
                });
                for (sum, number) in found[place].1.iter_mut().zip([sent, waited, slots]) {
                    *sum = sum.saturating_add(number);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_of_a_mount_counts() {
        let text = "device rootfs mounted on / with fstype rootfs\n\
            device filer:/export mounted on /mnt with fstype nfs4 statvers=1.1\n\
            \topts:\trw,vers=4.2\n\
            \txprt:\ttcp 780 1 1 0 12 9000 8999 0 64000 70000 128 500 600\n\
            \txprt:\ttcp 781 1 1 0 12 1000 1000 0 64000 5000 64 500 600\n";
        assert_eq!(of_mounts(text), [("/mnt", [10_000, 75_000, 192])]);
        assert!(of_mounts("device proc mounted on /proc with fstype proc\n").is_empty());
    }
}
