//! Codes that answer requests and have no [`Error`](crate::Error).

pub(crate) const OK: u8 = 0;
pub(crate) const NOT_FOUND: u8 = 2;
pub(crate) const PARAMETER: u8 = 4;
pub(crate) const TIMEOUT: u8 = 9;
pub(crate) const KEY_BUSY: u8 = 14;
pub(crate) const UNSUPPORTED: u8 = 16;
/// There is no memory for the answer now: too many large ones at once.
pub(crate) const OVERLOAD: u8 = 18;
pub(crate) const NAMESPACE: u8 = 20;
pub(crate) const ENTERPRISE_ONLY: u8 = 25;
pub(crate) const FILTERED_OUT: u8 = 27;
pub(crate) const SECURITY_NOT_SUPPORTED: u8 = 51;
pub(crate) const UDF: u8 = 100;
pub(crate) const INDEX_NOT_FOUND: u8 = 201;
