//! What the host is.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use iodyno_core::message::HostFacts;
use iodyno_core::units::Bytes;

use crate::cgroup;
use crate::cpu_list;
use crate::numa::numa_nodes;
use crate::placement::placement;
use crate::sensor::Roots;

/// Reads what the host is; whatever cannot be read is absent.
#[must_use]
pub fn host_facts(roots: &Roots) -> HostFacts {
    let proc = |file: &str| line(&roots.proc.join(file));
    let sys = |file: &str| line(&roots.sys.join(file));
    let text = |file: &str| std::fs::read_to_string(roots.proc.join(file)).unwrap_or_default();
    let (status, limits, meminfo, cpuinfo) =
        (text("self/status"), text("self/limits"), text("meminfo"), text("cpuinfo"));
    let user_id = field(&status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    let privileged = user_id == Some(0);
    let congestion_controls =
        if privileged { "tcp_available_congestion_control" } else { "tcp_allowed_congestion_control" };
    let placement = placement(roots);
    HostFacts {
        hostname: proc("sys/kernel/hostname"),
        kernel: proc("sys/kernel/osrelease"),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        boot_id: proc("sys/kernel/random/boot_id"),
        cpu_model: field(&cpuinfo, "model name").map(str::to_owned),
        cpus_online: cpu_list::online(&roots.sys),
        cpus_allowed: field(&status, "Cpus_allowed_list:").map(cpu_list::parse).unwrap_or_default(),
        memory_bytes: memory(&meminfo, "MemTotal:"),
        memory_available_bytes: memory(&meminfo, "MemAvailable:"),
        descriptors_limit: descriptors_limit(roots, &limits),
        threads_limit: threads_limit(roots, &limits, privileged),
        congestion_controls: proc(&format!("sys/net/ipv4/{congestion_controls}"))
            .map(|names| names.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        irq_time_accounting: irq_time_accounting(&text("stat"), configuration(roots).as_deref()),
        governor: sys("devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        smt: sys("devices/system/cpu/smt/active").map(|active| active == "1"),
        hypervisor: hypervisor(roots, &cpuinfo),
        cpu_quota_cpus: cgroup::cpu_quota(roots),
        load_average: proc("loadavg").and_then(|line| line.split_whitespace().next()?.parse().ok()),
        // Unknown is taken for nobody (65534, the kernel's overflow id), so that nobody is taken for root.
        user_id: user_id.unwrap_or(65_534),
        addresses: Vec::new(),
        container: placement.container,
        pod: placement.pod,
        node: placement.node,
        job: placement.job,
        numa_nodes: numa_nodes(roots),
    }
}

/// CPUs online, ascending; empty when it cannot be read.
#[must_use]
pub fn cpus_online(roots: &Roots) -> Vec<u32> {
    cpu_list::online(&roots.sys)
}

/// Clock source of the kernel, such as `tsc`; `None` when it cannot be read.
#[must_use]
pub fn clocksource(roots: &Roots) -> Option<String> {
    line(&roots.sys.join("devices/system/clocksource/clocksource0/current_clocksource"))
}

/// First line of a file, without blanks around it; `None` when there is none.
fn line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// What follows a key at the begin of a line, without the colon that may stand between.
fn field<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(rest.trim_start().trim_start_matches(':').trim())
}

/// A number of kibibytes in `meminfo`.
fn memory(meminfo: &str, key: &str) -> Option<Bytes> {
    let kibibytes: u64 = field(meminfo, key)?.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(kibibytes.saturating_mul(1024)))
}

/// Soft and hard limit of a line of `limits`; `u64::MAX` for unlimited.
fn limit(limits: &str, name: &str) -> Option<(u64, u64)> {
    let mut words = field(limits, name)?.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((next()?, next()?))
}

/// What the soft limit can be raised to: the hard one, or what the kernel allows to any process.
fn descriptors_limit(roots: &Roots, limits: &str) -> Option<u64> {
    let (_, hard) = limit(limits, "Max open files")?;
    let kernel = number(roots, "sys/fs/nr_open").unwrap_or(u64::MAX);
    Some(hard.min(kernel)).filter(|&limit| limit != u64::MAX)
}

/// The smallest of all limits on threads. A thread takes two memory maps (its stack and the guard below it),
/// so the limit on maps is one of them.
fn threads_limit(roots: &Roots, limits: &str, privileged: bool) -> Option<u64> {
    // The kernel does not hold root to the limit of its user.
    let user = limit(limits, "Max processes").filter(|_| !privileged).map(|(soft, _)| soft);
    let maps = number(roots, "sys/vm/max_map_count").map(|maps| maps / 2);
    let all = [
        user,
        maps,
        number(roots, "sys/kernel/threads-max"),
        number(roots, "sys/kernel/pid_max"),
        cgroup::threads_max(roots),
    ];
    all.into_iter().flatten().min().filter(|&limit| limit != u64::MAX)
}

/// A file below `/proc` with one number.
fn number(roots: &Roots, file: &str) -> Option<u64> {
    line(&roots.proc.join(file))?.parse().ok()
}

/// Whether interrupt time is accounted apart.
///
/// A timer tick never lands inside an interrupt handler, so on a kernel that samples at ticks the column of
/// interrupts stays 0 and anything else proves accounting. A column of zeros proves nothing: the machine may just
/// have started. Then the kernel's configuration tells whether it was built without it. If it was built with it,
/// it may still have switched it off (for an unsteady clock), which is not known.
fn irq_time_accounting(stat: &str, configuration: Option<&str>) -> Option<bool> {
    let total = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let irq: u64 = total.split_whitespace().nth(5)?.parse().ok()?;
    if irq > 0 {
        return Some(true);
    }
    // What is no configuration of a kernel says nothing.
    let built =
        |option: &str| configuration?.lines().find_map(|line| Some(line.strip_prefix(option)? == "=y"));
    match (
        built("CONFIG_HZ"),
        built("CONFIG_IRQ_TIME_ACCOUNTING"),
        built("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE"),
    ) {
        (None, ..) | (_, Some(true), _) | (.., Some(true)) => None,
        _ => Some(false),
    }
}

/// The configuration that the running kernel was built with, from where it may be.
fn configuration(roots: &Roots) -> Option<String> {
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open(roots.proc.join("config.gz")) {
        // A configuration has some 300 KiB; what is not compressed text ends in an error.
        let read = GzDecoder::new(file).take(16 << 20).read_to_string(&mut text);
        return read.is_ok().then_some(text);
    }
    let release = line(&roots.proc.join("sys/kernel/osrelease"))?;
    let file = std::fs::File::open(roots.boot.join(format!("config-{release}"))).ok()?;
    file.take(16 << 20).read_to_string(&mut text).is_ok().then_some(text)
}

/// The hypervisor, by what it leaves in `/sys`: its own name, its clock, or its machine. Absent where the CPU
/// does not say that there is one.
fn hypervisor(roots: &Roots, cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags")?;
    flags.split_whitespace().find(|flag| *flag == "hypervisor")?;
    let sys = |file: &str| line(&roots.sys.join(file));
    let clocks = sys("devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    let clock = [("kvm-clock", "KVM"), ("hyperv", "Hyper-V"), ("xen", "Xen")];
    let by_clock = clock.iter().find(|(clock, _)| clocks.contains(clock)).map(|(_, name)| (*name).to_owned());
    sys("hypervisor/type")
        .or(by_clock)
        .or_else(|| sys("class/dmi/id/sys_vendor"))
        .or_else(|| Some("unnamed".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_facts_that_agree() {
        let facts = host_facts(&Roots::default());
        assert!(!facts.cpus_online.is_empty() && !facts.cpus_allowed.is_empty());
        assert!(facts.kernel.is_some() && facts.hostname.is_some() && facts.boot_id.unwrap().len() == 36);
        assert!(facts.memory_available_bytes.unwrap() <= facts.memory_bytes.unwrap());
        assert!(facts.descriptors_limit.unwrap() >= 64);
        assert!(facts.threads_limit.unwrap() >= 16);
        assert!(!facts.congestion_controls.is_empty());
        assert!(facts.load_average.unwrap() >= 0.0);
        assert!(clocksource(&Roots::default()).is_some());
    }

    #[test]
    fn an_unlimited_host_has_no_limit() {
        assert_eq!(limit("Max open files   unlimited   20  files", "Max open files"), Some((u64::MAX, 20)));
        assert_eq!(limit("Max open files   1024", "Max open files"), None);
    }

    #[test]
    fn interrupt_time_proves_its_accounting_and_none_is_looked_up_in_the_configuration() {
        let (some, none) = ("cpu  1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 0 7 8\n");
        let without = Some("CONFIG_HZ=250\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n");
        let with = Some("CONFIG_HZ=250\nCONFIG_IRQ_TIME_ACCOUNTING=y\n");
        assert_eq!(irq_time_accounting(some, without), Some(true));
        assert_eq!(irq_time_accounting(none, without), Some(false));
        assert_eq!(irq_time_accounting(none, with), None, "it may be switched off");
        assert_eq!(irq_time_accounting(none, None), None);
        assert_eq!(irq_time_accounting(none, Some("garbage")), None);
        assert_eq!(irq_time_accounting("cpu0 1", without), None);
    }

    #[test]
    fn the_configuration_is_read_from_proc_or_from_boot() {
        let folder = std::env::temp_dir().join(format!("iodyno-configuration-{}", std::process::id()));
        let roots = Roots { proc: folder.join("proc"), sys: folder.join("sys"), boot: folder.join("boot") };
        std::fs::create_dir_all(roots.proc.join("sys/kernel")).unwrap();
        std::fs::create_dir_all(&roots.boot).unwrap();
        assert_eq!(configuration(&roots), None);
        std::fs::write(roots.proc.join("sys/kernel/osrelease"), "6.1\n").unwrap();
        std::fs::write(roots.boot.join("config-6.1"), "CONFIG_HZ=100\n").unwrap();
        assert_eq!(configuration(&roots).as_deref(), Some("CONFIG_HZ=100\n"));
        let packed = std::fs::File::create(roots.proc.join("config.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, b"CONFIG_HZ=250\n").unwrap();
        packed.finish().unwrap();
        assert_eq!(configuration(&roots).as_deref(), Some("CONFIG_HZ=250\n"));
        std::fs::write(roots.proc.join("config.gz"), "garbage").unwrap();
        assert_eq!(configuration(&roots), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
