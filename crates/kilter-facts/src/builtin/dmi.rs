//! `dmi`: firmware data of the machine. Only root can read serial numbers.

use kilter_model::Value;

use super::parts;
use crate::system::FactSource;

pub(super) fn dmi(system: &FactSource) -> Option<Value> {
    let of = |name: &str| system.line(&format!("/sys/class/dmi/id/{name}")).map(Value::from);
    parts([
        (
            "bios",
            parts([("release_date", of("bios_date")), ("vendor", of("bios_vendor")), ("version", of("bios_version"))]),
        ),
        (
            "board",
            parts([
                ("asset_tag", of("board_asset_tag")),
                ("manufacturer", of("board_vendor")),
                ("product", of("board_name")),
                ("serial_number", of("board_serial")),
            ]),
        ),
        ("chassis", parts([("asset_tag", of("chassis_asset_tag")), ("type", chassis_type(system))])),
        ("manufacturer", of("sys_vendor")),
        (
            "product",
            parts([
                ("name", of("product_name")),
                ("serial_number", of("product_serial")),
                ("uuid", of("product_uuid")),
                ("version", of("product_version")),
            ]),
        ),
    ])
}

/// Returns the name of the chassis type (SMBIOS specification, section 7.4.1).
fn chassis_type(system: &FactSource) -> Option<Value> {
    const WORDS: [&str; 36] = [
        "Other",
        "Unknown",
        "Desktop",
        "Low Profile Desktop",
        "Pizza Box",
        "Mini Tower",
        "Tower",
        "Portable",
        "Laptop",
        "Notebook",
        "Hand Held",
        "Docking Station",
        "All in One",
        "Sub Notebook",
        "Space-Saving",
        "Lunch Box",
        "Main System Chassis",
        "Expansion Chassis",
        "SubChassis",
        "Bus Expansion Chassis",
        "Peripheral Chassis",
        "Storage Chassis",
        "Rack Mount Chassis",
        "Sealed-Case PC",
        "Multi-system",
        "CompactPCI",
        "AdvancedTCA",
        "Blade",
        "Blade Enclosure",
        "Tablet",
        "Convertible",
        "Detachable",
        "IoT Gateway",
        "Embedded PC",
        "Mini PC",
        "Stick PC",
    ];
    // The highest bit indicates a chassis lock.
    let number = usize::try_from(system.number("/sys/class/dmi/id/chassis_type")? & 0x7f).ok()?;
    WORDS.get(number.checked_sub(1)?).map(|word| Value::from(*word))
}
