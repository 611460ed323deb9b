//! NUMA nodes: which CPUs they have, and which devices are attached to them.

use std::path::Path;

use iodyno_core::message::NumaNode;

use crate::cpu_list;
use crate::sensor::Roots;

/// Nodes that have CPUs, ascending; empty where the kernel knows none.
pub(crate) fn numa_nodes(roots: &Roots) -> Vec<NumaNode> {
    let folder = roots.sys.join("devices/system/node");
    let mut nodes: Vec<NumaNode> = names(&folder)
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .map(|node| {
            let list = std::fs::read_to_string(folder.join(format!("node{node}/cpulist")));
            NumaNode { node, cpus: cpu_list::parse(&list.unwrap_or_default()), devices: Vec::new() }
        })
        .filter(|node| !node.cpus.is_empty())
        .collect();
    nodes.sort_unstable_by_key(|node| node.node);
    for class in ["class/net", "block"] {
        let class = roots.sys.join(class);
        let mut devices: Vec<String> = names(&class).collect();
        devices.sort_unstable();
        for device in devices {
            let own = node_of(&class.join(&device));
            if let Some(node) = nodes.iter_mut().find(|node| Some(node.node) == own) {
                node.devices.push(device);
            }
        }
    }
    nodes
}

/// Node of a device, as the nearest above it in the tree of devices tells it; -1 stands there for none.
fn node_of(device: &Path) -> Option<u32> {
    let place = device.canonicalize().ok()?;
    let told = place.ancestors().find_map(|at| std::fs::read_to_string(at.join("numa_node")).ok())?;
    told.trim().parse().ok()
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_device_is_of_the_node_that_the_nearest_above_it_tells() {
        let folder = std::env::temp_dir().join(format!("iodyno-nodes-{}", std::process::id()));
        let sys = folder.join("sys");
        for (node, cpus) in [("node0", "0-1"), ("node1", "2-3"), ("node2", "")] {
            create_dir_all(sys.join("devices/system/node").join(node)).unwrap();
            write(sys.join("devices/system/node").join(node).join("cpulist"), cpus).unwrap();
        }
        for (class, device, at, node) in [
            ("class/net", "eth0", "devices/pci0/slot/virtio0", "1"),
            ("class/net", "veth0", "devices/virtual", ""),
            ("block", "nvme0n1", "devices/pci1/nvme0", "0"),
            ("block", "vda", "devices/pci2/virtio1", "-1"),
        ] {
            let place = sys.join(at).join(device);
            create_dir_all(&place).unwrap();
            if !node.is_empty() {
                write(place.parent().unwrap().join("numa_node"), node).unwrap();
            }
            create_dir_all(sys.join(class)).unwrap();
            symlink(&place, sys.join(class).join(device)).unwrap();
        }
        let found = numa_nodes(&Roots { sys, ..Roots::default() });
        let of = |node, cpus: &[u32], device: &str| NumaNode {
            node,
            cpus: cpus.to_vec(),
            devices: vec![device.to_owned()],
        };
        assert_eq!(found, [of(0, &[0, 1], "nvme0n1"), of(1, &[2, 3], "eth0")]);
        assert!(numa_nodes(&Roots { sys: folder.join("none"), ..Roots::default() }).is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
