#![no_main]

#[path = "../../tests/properties/message.rs"]
mod message;
#[path = "../targets/query.rs"]
mod target;
#[path = "../targets/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| target::run(octets));
