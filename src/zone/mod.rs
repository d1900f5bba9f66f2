//! Zones: what their sources say, and what is found in them.
