//! Failures of a cluster without an error variant of their own.

use super::RecordId;

/// A cluster refused a call, or could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster: {message}{}{}", self.of_record(), self.doubt())]
pub struct ClusterFailure {
    /// The server's result code; `None` for a failure of the client: no connection, a malformed
    /// reply.
    code: Option<u8>,
    message: Box<str>,
    is_transient: bool,
    in_doubt: bool,
    record: Option<RecordId>,
}

impl ClusterFailure {
    pub(crate) fn new(code: Option<u8>, message: impl Into<Box<str>>) -> Self {
        Self {
            code,
            message: message.into(),
            is_transient: false,
            in_doubt: false,
            record: None,
        }
    }

    pub(crate) const fn transient(mut self, is_transient: bool) -> Self {
        self.is_transient = is_transient;
        self
    }

    pub(crate) const fn doubtful(mut self, in_doubt: bool) -> Self {
        self.in_doubt = in_doubt;
        self
    }

    pub(super) fn set_record(&mut self, record: RecordId) {
        self.record.get_or_insert(record);
    }

    /// Returns the server's result code; `None` for a failure of the client, such as no connection.
    #[must_use]
    pub const fn code(&self) -> Option<u8> {
        self.code
    }

    /// Returns the record of the call, if it had one.
    #[must_use]
    pub const fn record(&self) -> Option<&RecordId> {
        self.record.as_ref()
    }

    pub(super) const fn result_code(&self) -> u8 {
        match self.code {
            Some(code) => code,
            None => 1,
        }
    }

    pub(super) const fn is_transient(&self) -> bool {
        self.is_transient
    }

    pub(super) const fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn of_record(&self) -> String {
        self.record
            .as_ref()
            .map(|record| format!(" ({record})"))
            .unwrap_or_default()
    }

    const fn doubt(&self) -> &'static str {
        if self.in_doubt {
            "; the write may have been applied: read before repeating it"
        } else {
            ""
        }
    }
}
