//! Operations of file systems that are served over a network or keep a cache of their own, by what they do: those of the kernel's
//! NFS client and server, of its Ceph client, and reads of ZFS's cache.

use std::fs;
use std::path::Path;

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const MOUNTSTATS: &str = "/proc/self/mountstats";
const OF_MOUNT: &str = "mount=/mnt,operation=read";
const NFS: Metric = counter(
    "nfs.operations",
    "1",
    MOUNTSTATS,
    OF_MOUNT,
    "Operations that the kernel's NFS client has done, by their name in the protocol.",
);
const NFS_TIME: Metric = counter(
    "nfs.operation_ns",
    "ns",
    MOUNTSTATS,
    OF_MOUNT,
    "Time from when they were made to their end, in whole milliseconds each.",
);
const NFS_SERVER_TIME: Metric = counter(
    "nfs.server_ns",
    "ns",
    MOUNTSTATS,
    OF_MOUNT,
    "Time of these from the sending of a request to its answer.",
);
const NFS_FAILED: Metric =
    counter("nfs.failed_operations", "1", MOUNTSTATS, OF_MOUNT, "Those that ended with an error.");
const NFSD: Metric = counter(
    "nfsd.operations",
    "1",
    "/proc/self/net/rpc/nfsd",
    "version=4,operation=read",
    "Operations that the kernel's NFS server has done for all clients; of version 4, each of a compound.",
);
const ZFS: Metric = counter(
    "zfs.operations",
    "1",
    "/proc/spl/kstat/zfs/arcstats",
    "operation=cache_hit",
    "Reads of ZFS by what became of them: found in its cache (`cache_hit`), or not (`cache_miss`).",
);
const CEPH_METRICS: &str = "/sys/kernel/debug/ceph/*/metrics";
const OF_CLIENT: &str = "client=client4267,operation=read";
const CEPH: Metric = counter(
    "ceph.operations",
    "1",
    CEPH_METRICS,
    OF_CLIENT,
    "Requests of the kernel's Ceph client: `read`, `write`, `metadata`.",
);
const CEPH_TIME: Metric = counter(
    "ceph.operation_ns",
    "ns",
    CEPH_METRICS,
    OF_CLIENT,
    "Their time, by the mean in whole microseconds that the kernel tells.",
);

pub(crate) const NFS_OPERATIONS: Entry =
    Entry { name: "nfs_operations", metrics: &[NFS, NFS_TIME, NFS_SERVER_TIME, NFS_FAILED], open: open_nfs };
pub(crate) const NFSD_OPERATIONS: Entry =
    Entry { name: "nfsd_operations", metrics: &[NFSD], open: open_nfsd };
pub(crate) const ZFS_CACHE: Entry = Entry { name: "zfs_cache", metrics: &[ZFS], open: open_zfs };
pub(crate) const CEPH_REQUESTS: Entry =
    Entry { name: "ceph_requests", metrics: &[CEPH, CEPH_TIME], open: open_ceph };

/// A count, what it is of, and how far it has come.
type Count<'a> = (&'a Metric, String, u64);

/// Files of one kind, each with whose it is, and how they are read.
struct FileSystems {
    sources: Vec<(String, Source)>,
    counts: fn(&str, &str) -> Vec<Count<'static>>,
    growths: Growths<(&'static str, String)>,
}

impl Sensor for FileSystems {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let mut found = Vec::new();
        for (owner, source) in &mut self.sources {
            found.extend((self.counts)(&source.text()?, owner));
        }
        self.growths.begin();
        for (metric, label, now) in found {
            let key = (metric.name, label.clone());
            let grown = self.growths.since_last(key, now, Width::Bits64, metric.name, &label);
            // Most operations that a protocol has are never done.
            if let Some(grown) = grown.filter(|grown| *grown > 0) {
                out.push(Value(metric.name.to_owned(), label, grown));
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

fn opened(sources: Vec<(String, Source)>, counts: fn(&str, &str) -> Vec<Count<'static>>) -> Opened {
    Ok(Box::new(FileSystems { sources, counts, growths: Growths::default() }))
}

fn open_nfs(roots: &Roots, _: &Subject) -> Opened {
    let mut source = Source::open(roots.proc.join("self/mountstats"))?;
    if of_nfs(&source.text()?, "").is_empty() {
        return Err(SenseError::Unavailable("nothing is mounted by NFS".to_owned()));
    }
    opened(vec![(String::new(), source)], of_nfs)
}

fn open_nfsd(roots: &Roots, _: &Subject) -> Opened {
    let source = Source::open(roots.proc.join("self/net/rpc/nfsd"))?;
    opened(vec![(String::new(), source)], of_nfsd)
}

fn open_zfs(roots: &Roots, _: &Subject) -> Opened {
    let source = Source::open(roots.proc.join("spl/kstat/zfs/arcstats"))?;
    opened(vec![(String::new(), source)], of_zfs)
}

fn open_ceph(roots: &Roots, _: &Subject) -> Opened {
    let folder = roots.sys.join("kernel/debug/ceph");
    let clients = fs::read_dir(&folder).map_err(|error| SenseError::Read { path: folder.clone(), error })?;
    let mut sources = Vec::new();
    for client in clients.flatten() {
        let name = client.file_name().to_string_lossy().into_owned();
        // Since Linux 5.18 a folder of files.
        let metrics = client.path().join("metrics");
        let place = if metrics.is_dir() { metrics.join("latency") } else { metrics };
        if Path::new(&place).exists() {
            let owner = name.rsplit_once('.').map_or(name.as_str(), |(_, client)| client);
            sources.push((owner.to_owned(), Source::open(place)?));
        }
    }
    if sources.is_empty() {
        return Err(SenseError::Unavailable("nothing is mounted by the kernel's Ceph client".to_owned()));
    }
    opened(sources, of_ceph)
}

const MILLISECOND_NS: u64 = 1_000_000;

/// Of each mount, operations by name. Columns of `_print_rpc_iostats` (net/sunrpc/stats.c): operations, transmissions, timeouts,
/// bytes sent, bytes received, milliseconds in the queue, until the answer, in all; errors since Linux 5.3.
fn of_nfs(text: &str, _: &str) -> Vec<Count<'static>> {
    let (mut found, mut mount, mut by_name) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("device") => {
                let at = words.nth(3).unwrap_or_default();
                mount = format!("mount={}", at.replace([',', '='], "_"));
                by_name = false;
            }
            Some("per-op") => by_name = true,
            Some(name) if by_name && name.ends_with(':') => {
                let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
                let [operations, _, _, _, _, _, server_ms, all_ms, ref failed @ ..] = numbers[..] else {
                    continue;
                };
                let label = format!("{mount},operation={}", name.trim_end_matches(':').to_lowercase());
                found.push((&NFS, label.clone(), operations));
                found.push((&NFS_TIME, label.clone(), all_ms.saturating_mul(MILLISECOND_NS)));
                found.push((&NFS_SERVER_TIME, label.clone(), server_ms.saturating_mul(MILLISECOND_NS)));
                found.extend(failed.first().map(|failed| (&NFS_FAILED, label, *failed)));
            }
            _ => {}
        }
    }
    found
}

/// Procedures of version 3 (RFC 1813), by number.
const OF_3: [&str; 22] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];
/// Operations of version 4 (RFC 7530, 8881, 7862, 8276), by number from 3.
const OF_4: [&str; 73] = [
    "access",
    "close",
    "commit",
    "create",
    "delegpurge",
    "delegreturn",
    "getattr",
    "getfh",
    "link",
    "lock",
    "lockt",
    "locku",
    "lookup",
    "lookupp",
    "nverify",
    "open",
    "openattr",
    "open_confirm",
    "open_downgrade",
    "putfh",
    "putpubfh",
    "putrootfh",
    "read",
    "readdir",
    "readlink",
    "remove",
    "rename",
    "renew",
    "restorefh",
    "savefh",
    "secinfo",
    "setattr",
    "setclientid",
    "setclientid_confirm",
    "verify",
    "write",
    "release_lockowner",
    "backchannel_ctl",
    "bind_conn_to_session",
    "exchange_id",
    "create_session",
    "destroy_session",
    "free_stateid",
    "get_dir_delegation",
    "getdeviceinfo",
    "getdevicelist",
    "layoutcommit",
    "layoutget",
    "layoutreturn",
    "secinfo_no_name",
    "sequence",
    "set_ssv",
    "test_stateid",
    "want_delegation",
    "destroy_clientid",
    "reclaim_complete",
    "allocate",
    "copy",
    "copy_notify",
    "deallocate",
    "io_advise",
    "layouterror",
    "layoutstats",
    "offload_cancel",
    "offload_status",
    "read_plus",
    "seek",
    "write_same",
    "clone",
    "getxattr",
    "setxattr",
    "listxattrs",
    "removexattr",
];

/// Of versions 3 and 4, operations by name: `proc3` and `proc4ops`, each with how many numbers follow, and these.
fn of_nfsd(text: &str, _: &str) -> Vec<Count<'static>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (version, names, skipped) = match words.next() {
            Some("proc3") => (3, &OF_3[..], 1),
            Some("proc4ops") => (4, &OF_4[..], 4),
            _ => continue,
        };
        for (name, number) in names.iter().zip(words.skip(skipped)) {
            if let Ok(count) = number.parse() {
                found.push((&NFSD, format!("version={version},operation={name}"), count));
            }
        }
    }
    found
}

/// Rows of a name, the number of its type, a value.
fn of_zfs(text: &str, _: &str) -> Vec<Count<'static>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let operation = match words.next() {
            Some("hits") => "cache_hit",
            Some("misses") => "cache_miss",
            _ => continue,
        };
        if let Some(count) = words.nth(1).and_then(|word| word.parse().ok()) {
            found.push((&ZFS, format!("operation={operation}"), count));
        }
    }
    found
}

/// The table whose second and third columns are how many and the mean in microseconds.
fn of_ceph(text: &str, client: &str) -> Vec<Count<'static>> {
    let (mut found, mut mean) = (Vec::new(), None);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"item") {
            mean = words.iter().position(|word| *word == "avg_lat(us)");
        }
        let [operation @ ("read" | "write" | "metadata"), total, ..] = words[..] else { continue };
        let Some(us) = mean.and_then(|column| words.get(column)) else { continue };
        if let (Ok(total), Ok(us)) = (total.parse::<u64>(), us.parse::<u64>()) {
            let label = format!("client={},operation={operation}", client.replace([',', '='], "_"));
            found.push((&CEPH, label.clone(), total));
            found.push((&CEPH_TIME, label, total.saturating_mul(us).saturating_mul(1000)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: &[Count<'_>]) -> Vec<String> {
        found.iter().map(|(metric, label, count)| format!("{} {label} {count}", metric.name)).collect()
    }

    #[test]
    fn operations_of_each_mount_have_their_times() {
        let text = "device proc mounted on /proc with fstype proc\n\
            device filer:/export mounted on /mnt/a=b with fstype nfs4 statvers=1.1\n\
            \topts:\trw,vers=4.2\n\
            \txprt:\ttcp 780 1 1 0 12 9000 8999 0 64000 70000 128 500 600\n\
            \tper-op statistics\n\
            \t        NULL: 1 1 0 44 24 0 0 0 0\n\
            \t        READ: 90 90 0 14400 380000 40 900 1000 2\n\
            device old:/export mounted on /old with fstype nfs statvers=1.0\n\
            \tper-op statistics\n\
            \t       WRITE: 7 7 0 100 100 1 2 3\n\n";
        let found = shown(&of_nfs(text, ""));
        let read = "mount=/mnt/a_b,operation=read";
        for expected in [
            format!("nfs.operations {read} 90"),
            format!("nfs.operation_ns {read} 1000000000"),
            format!("nfs.server_ns {read} 900000000"),
            format!("nfs.failed_operations {read} 2"),
            "nfs.operations mount=/old,operation=write 7".to_owned(),
            "nfs.operation_ns mount=/old,operation=write 3000000".to_owned(),
        ] {
            assert!(found.contains(&expected), "{expected}: {found:?}");
        }
        assert_eq!(found.len(), 4 + 4 + 3);
        assert!(of_nfs("device proc mounted on /proc with fstype proc\n", "").is_empty());
    }

    #[test]
    fn what_a_server_did_is_told_by_the_names_of_the_protocol() {
        let numbers = |count: u64| (0..count).map(|number| format!(" {}", 100 + number)).collect::<String>();
        let text = format!(
            "rc 0 0 9\nio 4096 8192\nth 8 0\nproc3 22{}\nproc4 2 1 5\nproc4ops 76{}\n",
            numbers(22),
            numbers(76)
        );
        let found = shown(&of_nfsd(&text, ""));
        // Numbers of RFC 1813: read 6, commit 21. Of RFC 7530, 8881 and 8276: access 3, read 25, write 38, sequence 53, removexattr 75.
        for expected in [
            "version=3,operation=read 106",
            "version=3,operation=commit 121",
            "version=4,operation=access 103",
            "version=4,operation=read 125",
            "version=4,operation=write 138",
            "version=4,operation=sequence 153",
            "version=4,operation=removexattr 175",
        ] {
            assert!(found.contains(&format!("nfsd.operations {expected}")), "{expected}: {found:?}");
        }
        assert_eq!(found.len(), 22 + 73);
    }

    #[test]
    fn reads_of_zfs_are_those_that_its_cache_had_and_those_that_it_had_not() {
        let text = "13 1 0x01 147 39984 4010133 9\nname                            type data\n\
            hits                            4    1000\nmisses                          4    30\ndemand_data_hits  4 900\n";
        assert_eq!(
            shown(&of_zfs(text, "")),
            ["zfs.operations operation=cache_hit 1000", "zfs.operations operation=cache_miss 30"]
        );
    }

    #[test]
    fn requests_of_a_ceph_client_are_told_by_old_and_new_kernels() {
        let read = "item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)\n\
            ---------------------------------------------------\n\
            read          798         32000           4000            196000          560.3\n\
            metadata      7           116000          2000            707000          8282.8\n\n\
            item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)\n\
            read          798         4096            1               2              3268608\n";
        let older = "item          total       sum_lat(us)     avg_lat(us)\nwrite         42          131205000       3123928\n";
        assert_eq!(
            shown(&of_ceph(read, "client4")),
            [
                "ceph.operations client=client4,operation=read 798",
                "ceph.operation_ns client=client4,operation=read 25536000000",
                "ceph.operations client=client4,operation=metadata 7",
                "ceph.operation_ns client=client4,operation=metadata 812000000"
            ]
        );
        assert_eq!(
            shown(&of_ceph(older, "c")),
            [
                "ceph.operations client=c,operation=write 42",
                "ceph.operation_ns client=c,operation=write 131204976000"
            ]
        );
    }
}
