//! Interrupts that each CPU took.

use iodyno_core::metric::{Metric, Value};

use crate::cpu_table::CpuTable;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const COUNT: Metric = counter(
    "interrupts.count",
    "1",
    "/proc/interrupts",
    "cpu=0,irq=LOC",
    "Interrupts taken; those that did not move are left out. A device's is named number:device, as irq=38:eth0-rx.",
);

pub(crate) const ENTRY: Entry = Entry { name: "interrupts", metrics: &[COUNT], open };

struct Interrupts {
    file: Source,
    table: CpuTable,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = Source::open(roots.proc.join("interrupts"))?;
    Ok(Box::new(Interrupts { file, table: CpuTable::default() }))
}

impl Sensor for Interrupts {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.file.text()?;
        let Some(moved) = self.table.advance(&text, &mut missing) else {
            drop(text);
            return Err(self.file.nonsense("has no heading CPU0 CPU1 ..."));
        };
        for row in moved {
            let irq = interrupt_name(row.name, row.remark);
            for (cpu, grown) in row.growth {
                put(out, &COUNT, format!("cpu={cpu},irq={irq}"), grown);
            }
        }
        Ok(missing.sentence())
    }
}

/// `LOC` for an interrupt of the architecture; `38:eth0-rx` for a device's, whose number alone says nothing
/// to people and changes from boot to boot. The device is the last word of the row.
fn interrupt_name(name: &str, remark: &str) -> String {
    let device = remark.split_whitespace().last().filter(|_| name.bytes().all(|byte| byte.is_ascii_digit()));
    match device {
        // A comma would end the label's part.
        Some(device) => format!("{name}:{}", device.replace([',', '='], "_")),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::interrupt_name;

    #[test]
    fn a_device_has_its_number_and_its_name() {
        assert_eq!(interrupt_name("LOC", "Local timer interrupts"), "LOC");
        assert_eq!(
            interrupt_name("38", "PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0"),
            "38:virtio2-input.0"
        );
        assert_eq!(interrupt_name("16", "IO-APIC 16-fasteoi a,b=c"), "16:a_b_c");
        assert_eq!(interrupt_name("7", ""), "7");
    }
}
