//! One set of programs for all agents of a machine.
//!
//! Hosts of an experiment may be namespaces of one machine. If each of their agents attached programs of its own, every
//! event of the kernel would pay for all of them: with eighteen clients nineteen times. So the first agent offers what it
//! attached, and the others join: they find its programs, links and maps by their numbers. Each then holds what is
//! attached by descriptors of its own, so that it stays until the last of them has let go, however the first one ends.
//! Where nothing is attached, an agent attaches what another has loaded and does not use: a hundred agents have one set.
//!
//! Whoever may not look for what others loaded (`CAP_SYS_ADMIN`) has programs for itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use aya::maps::{Array, HashMap, Map, MapData, MapInfo, PerCpuArray};
use aya::programs::{loaded_links, loaded_programs, Program, ProgramInfo};
use aya::{Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};

use iodyno_sys::{bpf, file_lock, process};

use super::account::Words;
use super::observer::Order;
use super::refusal::Refusal;
use iodyno_sys::lock::locked;

/// Agents that a set has room for: `MEMBERS` of `bpf/account.h`.
const MEMBERS: u32 = 128;
/// What agents lock while they look for programs and attach them: a folder that all of them see, and that nobody removes.
const LOCKED: &str = "/run";
/// chosen: some times as long as it takes to load the programs; an agent that waited so long has some for itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// `BPF_LINK_TYPE_RAW_TRACEPOINT` of linux/bpf.h.
const RAW_TRACEPOINT: u32 = 1;

/// What a set says of itself: `struct offer` of `bpf/account.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Which object file it was loaded from; 0: it is not for others.
    pub build: u64,
    /// Links of the accounting.
    pub links: u64,
    /// Interrupts that the kernel has no tracepoints of, one a bit.
    pub absent: u64,
}

/// Programs in the kernel with their maps, whoever loaded them.
pub(crate) struct Set {
    programs: BTreeMap<String, (u32, OwnedFd)>,
    pub snapshots: PerCpuArray<MapData, Words>,
    /// By thread: lock, since when, member.
    pub waits: HashMap<MapData, u32, [u64; 3]>,
    pub(super) members: HashMap<MapData, u32, u32>,
    offers: Array<MapData, [u64; 3]>,
    /// What keeps them in the kernel, where this process loaded them.
    _own: Option<Ebpf>,
}

/// What a set has attached already, by the name of the program.
pub(crate) type Links = Vec<(String, OwnedFd)>;

impl Set {
    /// Loads programs of this process.
    pub fn load(object: &[u8]) -> Result<Set, Refusal> {
        let mut ebpf = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DEBUG).load(object)?;
        let mut programs = BTreeMap::new();
        for (name, program) in ebpf.programs_mut() {
            match program {
                Program::RawTracePoint(program) => program.load()?,
                Program::PerfEvent(program) => program.load()?,
                _ => return Err(Refusal::Defect("a program of another kind")),
            }
            let descriptor = program.fd()?.as_fd().try_clone_to_owned().map_err(Refusal::of_io)?;
            programs.insert(name.to_owned(), (program.info()?.id(), descriptor));
        }
        let mut map = |name| ebpf.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
        let maps = (map("snapshots")?, map("waits")?, map("members")?, map("offers")?);
        Set::new(programs, maps, Some(ebpf))
    }

    fn new(
        programs: BTreeMap<String, (u32, OwnedFd)>,
        (snapshots, waits, members, offers): (Map, Map, Map, Map),
        own: Option<Ebpf>,
    ) -> Result<Set, Refusal> {
        Ok(Set {
            programs,
            snapshots: PerCpuArray::try_from(snapshots).map_err(EbpfError::from)?,
            waits: HashMap::try_from(waits).map_err(EbpfError::from)?,
            members: HashMap::try_from(members).map_err(EbpfError::from)?,
            offers: Array::try_from(offers).map_err(EbpfError::from)?,
            _own: own,
        })
    }

    /// A set of this object file that an agent offered and that is `wanted` by what is attached of it, with that.
    fn find(build: u64, wanted: impl Fn(&Links, &Offer) -> bool) -> Option<(Set, Links, Offer)> {
        // What vanishes meanwhile is left out: then the links are too few.
        let loaded: Vec<ProgramInfo> = loaded_programs().flatten().collect();
        let controls = loaded.iter().filter(|program| program.name() == b"control");
        let mut found = controls.filter_map(|control| Set::of(control, &loaded, build));
        found.find(|(_, attached, offer)| wanted(attached, offer))
    }

    /// The set of this `control`, if it was offered, and what is attached of it.
    fn of(control: &ProgramInfo, loaded: &[ProgramInfo], build: u64) -> Option<(Set, Links, Offer)> {
        let of_control = control.map_ids().ok()??;
        let map = |name, among: &[u32]| MapData::from_id(number_of(name, among)?).ok();
        // Of a hundred agents each may have loaded programs; those of a set that is not offered are not looked at.
        let offers = Map::Array(map("offers", &of_control)?);
        let offers: Array<MapData, [u64; 3]> = Array::try_from(offers).ok()?;
        let [offered, links, absent] = offers.get(&0, 0).ok()?;
        if offered != build {
            return None;
        }
        let accounts = number_of("cpus", &of_control)?;
        let uses = |program: &ProgramInfo| program.map_ids().ok().flatten().unwrap_or_default();
        let mut maps = of_control;
        let mut programs = BTreeMap::new();
        for program in loaded {
            let used = uses(program);
            if used.contains(&accounts) {
                let name = program.name_as_str()?.to_owned();
                programs.insert(name, (program.id(), bpf::program(program.id()).ok()?));
                maps.extend(used);
            }
        }
        let maps = (
            Map::PerCpuArray(map("snapshots", &maps)?),
            Map::HashMap(map("waits", &maps)?),
            Map::HashMap(map("members", &maps)?),
            Map::Array(map("offers", &maps)?),
        );
        let set = Set::new(programs, maps, None).ok()?;
        let offer = Offer { build: offered, links, absent };
        let attached = set.attached();
        Some((set, attached, offer))
    }

    /// What is attached of it now, by whomever.
    pub fn attached(&self) -> Links {
        let links = loaded_links().flatten().filter(|link| link.type_ == RAW_TRACEPOINT);
        let of_set = links.filter_map(|link| {
            let (name, _) = self.programs.iter().find(|(_, (id, _))| *id == link.prog_id)?;
            Some((name.clone(), bpf::link(link.id).ok()?))
        });
        of_set.collect()
    }

    /// Whether it is known that nobody has any of it attached: whoever may not look for others' links knows of none.
    pub fn is_idle(&self) -> bool {
        let may_look =
            loaded_links().all(|link| !link.is_err_and(|error| matches!(error.into(), Refusal::NotAllowed)));
        may_look && self.attached().is_empty()
    }

    /// A program of it.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, Refusal> {
        let program = self.programs.get(name).ok_or(Refusal::Defect("a program is not in the object"))?;
        Ok(program.1.as_fd())
    }

    /// What the kernel keeps count of, for each of its programs.
    pub fn infos(&self) -> Result<Vec<(&str, ProgramInfo)>, Refusal> {
        let name_of = |info: &ProgramInfo| {
            let found = self.programs.iter().find(|(_, (id, _))| *id == info.id());
            found.map(|(name, _)| name.as_str())
        };
        let infos: Vec<_> =
            loaded_programs().flatten().filter_map(|info| Some((name_of(&info)?, info))).collect();
        match infos.len() == self.programs.len() {
            true => Ok(infos),
            false => Err(Refusal::Other("the kernel does not show its programs".to_owned())),
        }
    }

    /// A number that no member has; `None`: there is no room.
    fn free_number(&self) -> Option<u32> {
        let taken: Vec<u32> = self.members.iter().flatten().map(|(_, number)| number).collect();
        (0..MEMBERS).find(|number| !taken.contains(number))
    }

    /// Has no members any longer. To be called where nothing is attached: they were killed.
    pub fn forget_members(&mut self) {
        let gone = self.members.iter().flatten().collect();
        self.remove(gone);
    }

    /// Takes back what members had that were killed: CPUs would be accounted for nobody, and their numbers would be gone, as
    /// long as any agent holds the set.
    fn forget_the_dead(&mut self) {
        // The kernel knows members by the numbers that their processes have at the top; only there can they be asked for.
        if !process::sees_all() {
            return;
        }
        let dead = self.members.iter().flatten().filter(|(process, _)| !process::exists(*process));
        self.remove(dead.collect());
    }

    /// Takes members out, and off all CPUs.
    fn remove(&mut self, gone: Vec<(u32, u32)>) {
        for (process, number) in gone {
            for cpu in aya::util::online_cpus().unwrap_or_default() {
                let order = [Order::End as u64, u64::from(number)];
                // One that went offline meanwhile runs nothing.
                let _ = self
                    .program("control")
                    .and_then(|it| bpf::run_raw_tracepoint(it, &order, Some(cpu)).map_err(Refusal::of_io));
            }
            let _ = self.members.remove(&process);
        }
    }

    /// Says to other agents what is attached, and whether it is for them.
    pub fn offer(&mut self, offer: Offer) -> Result<(), Refusal> {
        let words = [offer.build, offer.links, offer.absent];
        Ok(self.offers.set(0, words, 0).map_err(EbpfError::from)?)
    }
}

/// Number of the map of a name, of those with these numbers.
fn number_of(name: &str, among: &[u32]) -> Option<u32> {
    let of_name = |id: &u32| MapInfo::from_id(*id).is_ok_and(|map| map.name() == name.as_bytes());
    among.iter().copied().find(of_name)
}

/// Which object file programs were loaded from.
pub(crate) fn build_of(object: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    hasher.finish() | 1
}

/// Whether a trial of this process is a member of a shared set: the kernel tells agents apart by their process.
static MEMBER: Mutex<bool> = Mutex::new(false);

/// The right to look for programs of others and to attach some; one agent of the machine at a time has it.
pub(crate) struct Turn(File);

impl Turn {
    /// Waits for it; `None`: there is none to be had.
    pub fn take() -> Option<Turn> {
        let file = File::open(LOCKED).ok()?;
        let begun = Instant::now();
        while !file_lock::try_exclusive(&file).ok()? {
            if begun.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Some(Turn(file))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = file_lock::release(&self.0);
    }
}

/// A trial's place in a shared set, as long as this lives.
pub(crate) struct Membership {
    /// By which the programs know its agent.
    pub number: u32,
}

impl Membership {
    /// The one place of this process, if it is free and the set has room.
    pub fn take(set: &Set) -> Option<Membership> {
        let mut taken = locked(&MEMBER);
        let number = set.free_number().filter(|_| !*taken)?;
        *taken = true;
        Some(Membership { number })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        *locked(&MEMBER) = false;
    }
}

/// What an agent gets that joins others.
pub(crate) struct Joined {
    pub set: Set,
    pub membership: Membership,
    pub links: Links,
    pub offer: Offer,
}

/// Joins those who have programs of this object file attached; `None`: nobody has, or there is no room.
pub(crate) fn join(object: &[u8], _turn: &Turn) -> Option<Joined> {
    let whole = |attached: &Links, offer: &Offer| {
        let accounting = attached.iter().filter(|(program, _)| super::observer::is_accounting(program));
        accounting.count() as u64 == offer.links
    };
    let (mut set, links, offer) = Set::find(build_of(object), whole)?;
    set.forget_the_dead();
    let membership = Membership::take(&set)?;
    Some(Joined { set, membership, links, offer })
}

/// Finds programs of this object file that some agent has loaded and nobody has attached.
pub(crate) fn find_idle(object: &[u8], _turn: &Turn) -> Option<Set> {
    // Whoever sees others' programs sees their links, too.
    Set::find(build_of(object), |attached, _| attached.is_empty()).map(|(set, ..)| set)
}
