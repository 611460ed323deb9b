//! Container, pod, node and job that the agent runs in, by what engines leave in its environment and its root.

use crate::sensor::Roots;

/// Each absent: there is none, or nothing tells it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Runtime of the container: `podman`, `docker`, `lxc`, `kubernetes` where a pod does not tell it.
    pub container: Option<String>,
    /// Pod of Kubernetes.
    pub pod: Option<String>,
    /// Node, as its scheduler names it.
    pub node: Option<String>,
    /// Job of Slurm.
    pub job: Option<String>,
}

/// Reads them. `container` is what systemd asks engines to set (systemd.io/CONTAINER_INTERFACE); `.containerenv` and
/// `.dockerenv` are files of podman and docker; a pod's host name is its name, unless the downward API gives one.
pub fn placement(roots: &Roots) -> Placement {
    let environment = variables(roots, "self");
    let of = |name: &str| find(&environment, name);
    let has = |file: &str| roots.proc.join("self/root").join(file).exists();
    let in_pod = of("KUBERNETES_SERVICE_HOST").is_some();
    let container = of("container")
        .or_else(|| has("run/.containerenv").then(|| "podman".to_owned()))
        // A machine may have been made from an image of docker, and kept the file.
        .or_else(|| (has(".dockerenv") && !in_first_namespace(roots)).then(|| "docker".to_owned()))
        .or_else(|| in_pod.then(|| "kubernetes".to_owned()))
        .or_else(|| find(&variables(roots, "1"), "container"));
    Placement {
        container,
        pod: of("POD_NAME").or_else(|| of("HOSTNAME")).filter(|_| in_pod),
        node: of("SLURMD_NODENAME").or_else(|| of("NODE_NAME").filter(|_| in_pod)),
        job: of("SLURM_JOB_ID"),
    }
}

/// Whether the process sees the processes of the machine (`PROC_PID_INIT_INO` in Linux's `include/linux/proc_ns.h`).
fn in_first_namespace(roots: &Roots) -> bool {
    let namespace = std::fs::read_link(roots.proc.join("self/ns/pid")).unwrap_or_default();
    namespace.as_os_str() == "pid:[4026531836]"
}

/// Environment of a process; empty where it may not be read.
fn variables(roots: &Roots, process: &str) -> String {
    let bytes = std::fs::read(roots.proc.join(process).join("environ")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn find(environment: &str, name: &str) -> Option<String> {
    let value =
        environment.split('\0').find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))?;
    (!value.is_empty()).then(|| value.to_owned())
}
