//! Policies of this crate as the client's.

use std::time::Duration;

use aerospike as theirs;

use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::{Expiration, Result, WritePolicy};

const fn exists(action: RecordExistsAction) -> theirs::RecordExistsAction {
    match action {
        RecordExistsAction::Update => theirs::RecordExistsAction::Update,
        RecordExistsAction::UpdateOnly => theirs::RecordExistsAction::UpdateOnly,
        RecordExistsAction::Replace => theirs::RecordExistsAction::Replace,
        RecordExistsAction::ReplaceOnly => theirs::RecordExistsAction::ReplaceOnly,
        RecordExistsAction::CreateOnly => theirs::RecordExistsAction::CreateOnly,
    }
}

const fn generation(policy: GenerationPolicy) -> (theirs::GenerationPolicy, u32) {
    match policy {
        GenerationPolicy::None => (theirs::GenerationPolicy::None, 0),
        GenerationPolicy::ExpectEqual(expected) => {
            (theirs::GenerationPolicy::ExpectGenEqual, expected)
        }
        GenerationPolicy::ExpectGreater(expected) => {
            (theirs::GenerationPolicy::ExpectGenGreater, expected)
        }
    }
}

fn expiration(expiration: Expiration) -> Result<theirs::Expiration> {
    Ok(match expiration {
        Expiration::NamespaceDefault => theirs::Expiration::NamespaceDefault,
        Expiration::Never => theirs::Expiration::Never,
        Expiration::DontUpdate => theirs::Expiration::DontUpdate,
        Expiration::After(live) => {
            crate::engine::check_time_to_live(live)?;
            theirs::Expiration::Seconds(u32::try_from(live.as_secs()).unwrap_or(u32::MAX))
        }
    })
}

fn filter(policy: &WritePolicy) -> Result<Option<theirs::expressions::Expression>> {
    let filter = policy.filter.as_ref().map(crate::Expression::encoded_bytes);
    let bytes = filter.transpose()?;
    Ok(bytes.map(|bytes| theirs::expressions::from_packed_bytes(bytes.to_vec())))
}

/// A time limit in milliseconds; 0: none.
fn millis(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| {
        u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).max(1)
    })
}

/// Sets the time limit of a call. Else the client's own of 30 s, for each wait for a server, would
/// end calls that may take longer; without a limit it still does.
fn limit(policy: &mut theirs::BasePolicy, limit: Option<Duration>) {
    policy.total_timeout = millis(limit);
    policy.socket_timeout = 0;
}

/// The policy of a call on one record. A write is sent once: its error says whether it was applied.
pub(super) fn single(
    policy: &WritePolicy,
    writes: bool,
    read_retries: usize,
) -> Result<theirs::WritePolicy> {
    let (generation_policy, generation) = generation(policy.generation);
    let mut sent = theirs::WritePolicy {
        record_exists_action: exists(policy.record_exists_action),
        generation_policy,
        generation,
        expiration: expiration(policy.expiration)?,
        send_key: policy.send_key,
        durable_delete: policy.durable_delete,
        ..theirs::WritePolicy::default()
    };
    limit(&mut sent.base_policy, policy.total_timeout);
    sent.base_policy.max_retries = if writes { 0 } else { read_retries };
    sent.base_policy.filter_expression = filter(policy)?;
    Ok(sent)
}

/// The policy of a row of a batch that writes.
pub(super) fn row_write(policy: &WritePolicy) -> Result<theirs::BatchWritePolicy> {
    let (generation_policy, generation) = generation(policy.generation);
    Ok(theirs::BatchWritePolicy {
        record_exists_action: exists(policy.record_exists_action),
        generation_policy,
        generation,
        expiration: expiration(policy.expiration)?,
        send_key: policy.send_key,
        durable_delete: policy.durable_delete,
        filter_expression: filter(policy)?,
        ..theirs::BatchWritePolicy::default()
    })
}

/// The policy of a row of a batch that only reads.
pub(super) fn row_read(policy: &WritePolicy) -> Result<theirs::BatchReadPolicy> {
    Ok(theirs::BatchReadPolicy {
        filter_expression: filter(policy)?,
        ..theirs::BatchReadPolicy::default()
    })
}

/// The policy of a whole batch: its limit is the longest of its rows.
pub(super) fn batch<'a>(
    rows: impl Iterator<Item = &'a WritePolicy>,
    writes: bool,
    read_retries: usize,
) -> theirs::BatchPolicy {
    let mut policy = theirs::BatchPolicy::default();
    let mut limits = rows.map(|row| row.total_timeout);
    let longest = limits.try_fold(Duration::ZERO, |longest, limit| Some(longest.max(limit?)));
    limit(&mut policy.base_policy, longest);
    policy.base_policy.max_retries = if writes { 0 } else { read_retries };
    policy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_take_as_long_as_its_policy_says() {
        let policy = WritePolicy::default().total_timeout(Duration::from_secs(60));
        let one = single(&policy, true, 0).unwrap();
        let many = batch([policy].iter(), true, 0);
        for sent in [&one.base_policy, &many.base_policy] {
            assert_eq!(sent.total_timeout, 60_000);
            // The shorter one holds, and 0 is none.
            assert_eq!(sent.socket_timeout, 0);
        }
    }
}
