//! Codes that answer requests and have no [`Error`](crate::Error).

pub(crate) const OK: u8 = 0;
/// The function of an aggregation failed.
pub(crate) const SERVER: u8 = 1;
pub(crate) const NOT_FOUND: u8 = 2;
pub(crate) const GENERATION: u8 = 3;
pub(crate) const PARAMETER: u8 = 4;
pub(crate) const TIMEOUT: u8 = 9;
pub(crate) const RECORD_TOO_BIG: u8 = 13;
/// A query that was ended.
pub(crate) const ABORTED: u8 = 15;
pub(crate) const UNSUPPORTED: u8 = 16;
/// There is no memory for the answer now: too many large ones at once.
pub(crate) const OVERLOAD: u8 = 18;
pub(crate) const NAMESPACE: u8 = 20;
/// Not allowed here, whoever asks; or too many queries at once.
pub(crate) const FORBIDDEN: u8 = 22;
/// Only the Enterprise Edition supports the request.
pub(crate) const ENTERPRISE_ONLY: u8 = 25;
pub(crate) const FILTERED_OUT: u8 = 27;
/// The end of the rows about users or roles.
pub(crate) const SECURITY_END: u8 = 50;
pub(crate) const SECURITY_NOT_SUPPORTED: u8 = 51;
pub(crate) const SECURITY_SCHEME: u8 = 53;
pub(crate) const SECURITY_COMMAND: u8 = 54;
pub(crate) const SECURITY_FIELD: u8 = 55;
pub(crate) const ILLEGAL_STATE: u8 = 56;
pub(crate) const INVALID_USER: u8 = 60;
pub(crate) const USER_EXISTS: u8 = 61;
pub(crate) const INVALID_PASSWORD: u8 = 62;
pub(crate) const INVALID_CREDENTIAL: u8 = 65;
pub(crate) const SESSION_EXPIRED: u8 = 66;
pub(crate) const INVALID_ROLE: u8 = 70;
pub(crate) const ROLE_EXISTS: u8 = 71;
pub(crate) const INVALID_PRIVILEGE: u8 = 72;
pub(crate) const INVALID_ALLOWLIST: u8 = 73;
pub(crate) const INVALID_QUOTA: u8 = 75;
pub(crate) const NOT_AUTHENTICATED: u8 = 80;
pub(crate) const ROLE_VIOLATION: u8 = 81;
pub(crate) const NOT_ALLOWLISTED: u8 = 82;
pub(crate) const QUOTA_EXCEEDED: u8 = 83;
pub(crate) const UDF: u8 = 100;
/// Another transaction has the record locked.
pub(crate) const MRT_BLOCKED: u8 = 120;
/// The record has changed since the transaction read it.
pub(crate) const MRT_VERSION_MISMATCH: u8 = 121;
/// The transaction's deadline has passed, or no such transaction is open.
pub(crate) const MRT_EXPIRED: u8 = 122;
pub(crate) const MRT_TOO_MANY_WRITES: u8 = 123;
pub(crate) const MRT_COMMITTED: u8 = 124;
pub(crate) const MRT_ABORTED: u8 = 125;
/// The transaction itself has the record locked.
pub(crate) const MRT_ALREADY_LOCKED: u8 = 126;
pub(crate) const MRT_MONITOR_EXISTS: u8 = 127;
/// A batch has more rows than are allowed.
pub(crate) const BATCH_TOO_LARGE: u8 = 151;
/// The name of an index is taken.
pub(crate) const INDEX_FOUND: u8 = 200;
pub(crate) const INDEX_NOT_FOUND: u8 = 201;
/// The index is being built.
pub(crate) const INDEX_NOT_READABLE: u8 = 203;
