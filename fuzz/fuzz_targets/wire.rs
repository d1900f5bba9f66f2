#![no_main]

#[path = "../targets/wire.rs"]
mod target;
#[path = "../targets/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| target::run(octets));
