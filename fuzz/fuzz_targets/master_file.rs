#![no_main]

#[path = "../targets/master_file.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| target::run(octets));
