//! What a query returns of a record.

use crate::engine::RemoteRecord;
use crate::expression::RecordFacts;
use crate::operation::{Checked, Mode, Operation};
use crate::record::BinName;
use crate::server::bytes::UnreadBytes;
use crate::server::fields::Field;
use crate::server::message::{Info1, Message};
use crate::server::operation::{bin_name, operations_of};
use crate::server::ops::code;
use crate::server::reply::MessageReply;
use crate::server::reply::WireResults;
use crate::{Error, Result};

/// Which bins a query returns.
pub(super) enum Projection {
    /// Generation and times only.
    None,
    All,
    Names(Vec<BinName>),
    Operations(Vec<Operation>),
}

/// What `message` asks for of each record.
pub(super) fn projection_of(message: &Message<'_>) -> Result<Projection> {
    let info1 = message.head.info1;
    if info1.contains(Info1::NO_BINS) {
        return Ok(Projection::None);
    }
    if !message.ops.is_empty() {
        if message.ops.iter().all(|op| op.code == code::READ) {
            let names: Result<_> = message.ops.iter().map(|op| bin_name(op.name)).collect();
            return Ok(Projection::Names(names?));
        }
        return operations_of(message).map(Projection::Operations);
    }
    match message.fields.get(Field::Bins) {
        Some(list) => names_of(list).map(Projection::Names),
        None => Ok(Projection::All),
    }
}

/// The list of bins of old clients: how many, then each with its length.
fn names_of(list: &[u8]) -> Result<Vec<BinName>> {
    let cut = || Error::parameter("a list of bins ends before its last name");
    let mut cursor = UnreadBytes(list);
    let count = cursor.u8().ok_or_else(cut)?;
    let mut name = |_| bin_name(cursor.short().ok_or_else(cut)?);
    (0..count).map(&mut name).collect()
}

/// Adds the bins that a query asks for. False if the record has none of them.
pub(super) fn project(
    projection: &Projection,
    mode: Mode,
    record: &RemoteRecord<'_>,
    facts: &RecordFacts<'_>,
    reply: &mut MessageReply<'_, '_>,
) -> Result<bool> {
    match projection {
        Projection::None => return Ok(true),
        Projection::All => reply.bins(record.view()?)?,
        Projection::Names(names) => {
            reply.named_bins(record.view()?, names.iter().copied().map(Ok), mode)?;
        }
        Projection::Operations(operations) => {
            let checked = Checked::new(operations, mode)?.seeing(facts);
            checked.read_into(record.view()?, &mut WireResults::new(reply, None))?;
        }
    }
    Ok(reply.op_count() > 0)
}
