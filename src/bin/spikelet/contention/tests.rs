//! Tests of the whole harness.

mod properties;
