#![no_main]

#[path = "../targets/zone_toml.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| target::run(octets));
