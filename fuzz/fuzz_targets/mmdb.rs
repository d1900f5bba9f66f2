#![no_main]

#[path = "../targets/mmdb.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| target::run(octets));
