//! One request about one record, whether it came alone or as a row of a batch.

use std::time::Duration;

use super::fields::{Field, Fields};
use super::message::{Info1, Info2, Info3, Message, Verb};
use super::operation::{bin_name, operations_of};
use super::ops::code;
use super::reply::WireResults;
use super::reply::{AnswerHeader, MessageReply};
use super::result_code;
use super::served::ServedNamespace;
use super::transaction::part::TransactionPart;
use crate::engine::{DigestAddress, ReadTouch, RemoteRecord, WriteOutcome, WriteRefusal};
use crate::operation::{Checked, Mode};
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::{Metadata, check_set_name};
use crate::{Digest, Error, Expiration, Expression, Result, WritePolicy};

/// How long a writer may wait for others if its client does not say: Aerospike's default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The special values of a time to live.
const TTL_DEFAULT: u32 = 0;
const TTL_NEVER: u32 = u32::MAX;
const TTL_DONT_UPDATE: u32 = u32::MAX - 1;

/// A request about one record.
#[derive(Clone, Copy)]
pub(crate) struct RecordCommand<'a> {
    pub(crate) message: Message<'a>,
    /// The role of the request in a transaction.
    pub(crate) part: TransactionPart,
    pub(crate) digest: Digest,
    /// The filter: an expression that must be true of the record.
    pub(crate) filter: Option<&'a Expression>,
    /// The row of a batch; answers of rows name it.
    pub(crate) row: Option<u32>,
    /// The namespace of the record.
    pub(crate) served: &'a ServedNamespace,
}

/// A request about one record, and how it names the record.
#[derive(Clone, Copy)]
pub(crate) struct RecordRequest<'r> {
    pub(crate) command: &'r RecordCommand<'r>,
    pub(crate) address: DigestAddress<'r>,
}

/// The head of the answer to a request that was executed.
pub(crate) type CommandAnswer = std::result::Result<AnswerHeader, CommandRefusal>;

impl RecordCommand<'_> {
    pub(crate) const fn verb(&self) -> Verb {
        match self.message.head.verb() {
            Verb::Write if self.message.fields.has(Field::UdfPackage) => Verb::Function,
            verb => verb,
        }
    }

    pub(crate) fn set(&self) -> Result<&str> {
        set_of(&self.message.fields)
    }

    /// Returns the user key. A key of an unsupported type is refused with code 16.
    pub(crate) fn key(&self) -> std::result::Result<Option<&[u8]>, CommandRefusal> {
        match self.message.fields.get(Field::Key) {
            Some(key) if !is_key(key) => Err(result_code::UNSUPPORTED.into()),
            key => Ok(key),
        }
    }

    /// How to delete.
    pub(crate) fn delete_policy(&self) -> WritePolicy {
        WritePolicy::default()
            .generation(self.generation())
            .total_timeout(Some(self.timeout()))
    }

    /// Reads among writes must be announced, and so must a read of all bins
    /// (semantics.md#several-operations-together).
    pub(crate) fn check_reads(&self) -> Result<()> {
        let mut ops = self.message.ops.iter();
        if !self.message.head.info1.contains(Info1::READ) && ops.any(|op| code::reads(op.code)) {
            return Err(Error::parameter(
                "an operation that reads in a request that only writes",
            ));
        }
        let reads_all = self
            .message
            .ops
            .iter()
            .any(|op| op.code == code::READ && op.name.is_empty());
        if self.message.head.info1.contains(Info1::GET_ALL) && !reads_all {
            return Err(Error::parameter(
                "a request for all bins among writes needs an operation that says when they are read",
            ));
        }
        Ok(())
    }

    pub(crate) fn mode(&self) -> Mode {
        let replacing = Info3::CREATE_OR_REPLACE | Info3::REPLACE_ONLY;
        let mut mode = self.message.head.mode();
        mode.set(Mode::REPLACE, self.message.head.info3.intersects(replacing));
        mode
    }

    /// Takes results into the answer, each with the code of its operation; in rows of a batch all
    /// of them say "read".
    pub(crate) fn results<'r, 'o, 'b>(
        &'r self,
        reply: &'r mut MessageReply<'o, 'b>,
    ) -> WireResults<'r, 'o, 'b> {
        WireResults::new(reply, self.row.is_none().then(|| self.message.ops.iter()))
    }

    /// How to write.
    pub(crate) fn policy(&self) -> Result<WritePolicy> {
        use RecordExistsAction::{CreateOnly, Replace, ReplaceOnly, Update, UpdateOnly};
        let head = &self.message.head;
        let action = if head.info2.contains(Info2::CREATE_ONLY) {
            CreateOnly
        } else if head.info3.contains(Info3::UPDATE_ONLY) {
            UpdateOnly
        } else if head.info3.contains(Info3::REPLACE_ONLY) {
            ReplaceOnly
        } else if head.info3.contains(Info3::CREATE_OR_REPLACE) {
            Replace
        } else {
            Update
        };
        Ok(WritePolicy::default()
            .record_exists_action(action)
            .generation(self.generation())
            .expiration(expiration(head.ttl, self.served)?)
            .total_timeout(Some(self.timeout())))
    }

    fn generation(&self) -> GenerationPolicy {
        let head = &self.message.head;
        if head.info2.contains(Info2::GENERATION_EQUAL) {
            GenerationPolicy::ExpectEqual(head.generation)
        } else if head.info2.contains(Info2::GENERATION_GREATER) {
            GenerationPolicy::ExpectGreater(head.generation)
        } else {
            GenerationPolicy::None
        }
    }

    /// How long the request may wait for others.
    pub(crate) const fn timeout(&self) -> Duration {
        self.message.head.timeout(DEFAULT_TIMEOUT)
    }
}

impl RecordRequest<'_> {
    pub(crate) fn read(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let (command, namespace) = (self.command, &self.command.served.namespace);
        let touch = read_touch(command.message.head.ttl);
        let metadata = namespace.read_at(&self.address, touch, |record| {
            self.read_record(record, reply)
        })?;
        Ok(found(&metadata))
    }

    /// Reads what the request asks for. Returns the generation and times of the record.
    pub(crate) fn read_record(
        &self,
        record: &RemoteRecord<'_>,
        reply: &mut MessageReply<'_, '_>,
    ) -> Result<Metadata> {
        if !self.command.message.head.info1.contains(Info1::NO_BINS) {
            self.read_bins(record, reply)?;
        }
        Ok(record.metadata())
    }

    fn read_bins(&self, record: &RemoteRecord<'_>, reply: &mut MessageReply<'_, '_>) -> Result<()> {
        let command = self.command;
        let view = record.view()?;
        if command.message.head.info1.contains(Info1::GET_ALL) {
            return reply.bins(view);
        }
        if command.message.ops.is_empty() {
            return Err(Error::parameter("a read of neither bins nor operations"));
        }
        // Names alone are answered straight from the record.
        if command.message.ops.iter().all(|op| op.code == code::READ) {
            let names = command.message.ops.iter().map(|op| bin_name(op.name));
            return reply.named_bins(view, names, command.mode());
        }
        let operations = operations_of(&command.message)?;
        let namespace = &self.command.served.namespace;
        let set_name = namespace.set_name_or(record.set_id(), self.address.set);
        let facts = namespace.facts(record, &set_name);
        Checked::new(&operations, command.mode())?
            .seeing(&facts)
            .read_into(view, &mut command.results(reply))
    }

    pub(crate) fn write(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let (command, address) = (self.command, &self.address);
        let served = command.served;
        command.check_reads()?;
        let operations = operations_of(&command.message)?;
        let checked = Checked::new(&operations, command.mode())?;
        let policy = command.policy()?;
        served.keeping_deleted(&address.digest, || {
            let namespace = &served.namespace;
            if let Some(community) = &served.community {
                community.check_write(&command.message.head, namespace, address, &checked)?;
            }
            let results = &mut command.results(reply);
            let outcome = namespace.write_at(address, &policy, &checked, results)?;
            Ok(wrote(&outcome))
        })
    }

    pub(crate) fn delete(&self) -> CommandAnswer {
        let (served, policy) = (self.command.served, self.command.delete_policy());
        served.keeping_deleted(&self.address.digest, || {
            served.namespace.delete_at(&self.address, &policy)?;
            Ok(AnswerHeader::code(result_code::OK))
        })
    }
}

/// Why a request about one record was refused.
pub(crate) enum CommandRefusal {
    Code(u8),
    Refused(WriteRefusal),
    /// A function has failed: the text for the client.
    Function(String),
}

impl CommandRefusal {
    /// Whether another writer has come between a read and the write that relied on it. `was_there`:
    /// the read has met a record.
    pub(crate) fn has_come_late(&self, was_there: bool) -> bool {
        match self {
            Self::Refused(WriteRefusal { error, .. }) => match error {
                Error::Generation { .. } | Error::NotFound { .. } => was_there,
                Error::RecordExists { .. } => !was_there,
                _ => false,
            },
            Self::Code(_) | Self::Function(_) => false,
        }
    }

    /// What the client is told: the code, and generation and expiry of the record that was met.
    pub(crate) fn answer(&self) -> AnswerHeader {
        match self {
            Self::Code(code) => AnswerHeader::code(*code),
            Self::Function(text) => {
                tracing::debug!(%text, "a function has failed");
                AnswerHeader::code(result_code::UDF)
            }
            Self::Refused(WriteRefusal { error, found, .. }) => {
                tracing::debug!(%error, "refused");
                AnswerHeader {
                    code: error.result_code(),
                    ..found.as_ref().map(self::found).unwrap_or_default()
                }
            }
        }
    }
}

impl<E: Into<WriteRefusal>> From<E> for CommandRefusal {
    fn from(refused: E) -> Self {
        Self::Refused(refused.into())
    }
}

impl From<u8> for CommandRefusal {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

/// An answer with a record's generation and expiry.
pub(crate) fn found(metadata: &Metadata) -> AnswerHeader {
    AnswerHeader {
        generation: u32::from(metadata.generation),
        void_time: metadata.void_time,
        ..AnswerHeader::default()
    }
}

impl ServedNamespace {
    /// Runs a write that may delete its record: the generation of its answer is 0 then. The
    /// Community Edition's namespace keeps the version that there was.
    pub(crate) fn keeping_deleted(
        &self,
        digest: &Digest,
        write: impl FnOnce() -> CommandAnswer,
    ) -> CommandAnswer {
        match &self.community {
            Some(community) => community.keeping_deleted(&self.namespace, digest, write),
            None => write(),
        }
    }
}

/// An answer with generation and expiry of what was written.
pub(crate) fn wrote(outcome: &WriteOutcome) -> AnswerHeader {
    AnswerHeader {
        generation: u32::from(outcome.generation),
        void_time: outcome.void_time,
        ..AnswerHeader::default()
    }
}

/// The set that a request names; empty if it names none.
pub(crate) fn set_of<'a>(fields: &Fields<'a>) -> Result<&'a str> {
    let name = fields.get(Field::Set).unwrap_or_default();
    let name = std::str::from_utf8(name)
        .map_err(|_| Error::parameter("the name of a set is not UTF-8"))?;
    check_set_name(name).map_err(Error::parameter)?;
    Ok(name)
}

/// True for a type that a key may have, and a value of it.
fn is_key(key: &[u8]) -> bool {
    match key {
        [1 | 2, value @ ..] => value.len() == size_of::<u64>(),
        [3 | 4 | 7..=12, ..] => true,
        _ => false,
    }
}

/// What a write's time to live says.
pub(crate) fn expiration(ttl: u32, served: &ServedNamespace) -> Result<Expiration> {
    let expiration = match ttl {
        TTL_DEFAULT => Expiration::NamespaceDefault,
        TTL_NEVER => Expiration::Never,
        TTL_DONT_UPDATE => Expiration::DontUpdate,
        seconds => Expiration::After(Duration::from_secs(u64::from(seconds))),
    };
    if matches!(expiration, Expiration::After(live) if live <= crate::policy::MAX_TIME_TO_LIVE)
        && !served.expires
    {
        return Err(Error::Forbidden(
            "the namespace expires no records: set nsup-period".into(),
        ));
    }
    Ok(expiration)
}

/// What a read's time to live says.
fn read_touch(percent: u32) -> ReadTouch {
    match percent {
        0 | u32::MAX => ReadTouch::Never,
        1..=100 => ReadTouch::Percent(percent),
        _ => ReadTouch::Illegal,
    }
}
