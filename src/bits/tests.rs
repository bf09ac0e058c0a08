mod naive;

use proptest::prelude::*;

use super::*;
use crate::call::{CallWriter, Trust};
use crate::value::{EncodePurpose, Value};

const C: u64 = 1;
const U: u64 = 2;
const N: u64 = 4;
const P: u64 = 8;

/// An argument of a call.
#[derive(Clone, Debug)]
enum Arg {
    Int(i64),
    Bool(bool),
    Blob(Vec<u8>),
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Arg {
    fn from(value: u64) -> Self {
        Self::Int(value.cast_signed())
    }
}

impl From<bool> for Arg {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&[u8]> for Arg {
    fn from(value: &[u8]) -> Self {
        Self::Blob(value.to_vec())
    }
}

macro_rules! call {
    ($operation:expr $(, $argument:expr)* $(,)?) => {
        encoded($operation, &[$(Arg::from($argument)),*])
    };
}

fn encoded(operation: u8, arguments: &[Arg]) -> Box<[u8]> {
    let mut call = CallWriter::new(operation);
    for argument in arguments {
        call = match argument {
            Arg::Int(value) => call.int(*value),
            Arg::Bool(value) => call.value(&Value::Bool(*value), EncodePurpose::Storage),
            Arg::Blob(value) => call.value(&Value::Blob(value.clone()), EncodePurpose::Storage),
        };
    }
    call.finish().unwrap()
}

fn number(error: CallError) -> u8 {
    error.in_bin("b").result_code()
}

/// The blob after a modification of `blob`; `None` if it stays as it is.
fn modified(blob: Option<&[u8]>, call: &[u8]) -> Result<Option<Vec<u8>>, u8> {
    let call = PathCall::parse(call, Trust::Foreign).map_err(number)?;
    modify(blob.map(|blob| (ParticleType::Blob, blob)), &call).map_err(number)
}

fn value(blob: &[u8], call: &[u8]) -> Result<Value, u8> {
    let call = PathCall::parse(call, Trust::Foreign).map_err(number)?;
    let reply = read((ParticleType::Blob, blob), &call).map_err(number)?;
    Ok(reply.to_value().unwrap())
}

fn any_blob() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff)];
    prop_oneof![
        prop::collection::vec(byte.clone(), 1..6),
        prop::collection::vec(byte, 1..40),
        (any::<bool>(), 1..40_usize).prop_map(|(bit, len)| vec![if bit { 0xff } else { 0 }; len]),
    ]
}

/// A window for a blob of a few bytes; often at its borders, sometimes beyond.
fn any_place(most: u64) -> impl Strategy<Value = (i64, u64)> {
    (-330..330_i64, 1..=most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn reads_match_a_naive_model(
        blob in any_blob(),
        operation in code::GET..=code::GET_INT,
        (offset, size) in any_place(200),
        argument: bool,
    ) {
        let size = if operation == code::GET_INT { size % 64 + 1 } else { size };
        let call = match operation {
            code::GET | code::COUNT => call!(operation, offset, size),
            code::GET_INT => call!(operation, offset, size, u64::from(argument)),
            _ => call!(operation, offset, size, argument),
        };
        prop_assert_eq!(
            value(&blob, &call),
            naive::read(&blob, operation, offset, size, argument)
        );
    }

    #[test]
    fn bits_match_a_naive_model(
        blob in any_blob(),
        operation in code::SET..=code::RSHIFT,
        (offset, size) in any_place(200),
        given in prop::collection::vec(any::<u8>(), 25..30),
        distance in 0..220_i64,
        flags in prop::sample::select(vec![0, U, N, P, N | P]),
    ) {
        let call = match operation {
            code::NOT => call!(operation, offset, size, flags),
            code::LSHIFT | code::RSHIFT => call!(operation, offset, size, distance, flags),
            _ => call!(operation, offset, size, &given[..], flags),
        };
        let naive = naive::modify(&blob, operation, (offset, size), (&given, distance), (flags, 0));
        prop_assert_eq!(modified(Some(&blob), &call), naive);
    }

    #[test]
    fn integers_match_a_naive_model(
        blob in any_blob(),
        operation in code::ADD..=code::SET_INT,
        (offset, size) in any_place(64),
        operand in prop_oneof![-130..130_i64, any::<i64>(), Just(i64::MIN)],
        flags in prop::sample::select(vec![0, U, N]),
        subflags in prop::sample::select(vec![0, 1, 2, 3, 4, 5_u64]),
    ) {
        let call = if operation == code::SET_INT {
            call!(operation, offset, size, operand, flags)
        } else {
            call!(operation, offset, size, operand, flags, subflags)
        };
        let naive = naive::modify(&blob, operation, (offset, size), (&[], operand), (flags, subflags));
        prop_assert_eq!(modified(Some(&blob), &call), naive);
    }

    #[test]
    fn bytes_match_a_naive_model(
        blob in any_blob(),
        len in 0..40_u64,
        at in -45..45_i64,
        given in prop::collection::vec(any::<u8>(), 1..9),
        resize_flags in prop::sample::select(vec![0, 1, 2, 3, 4, 5_u64]),
        flags in prop::sample::select(vec![0, U, N]),
    ) {
        let forgiven = |code| if flags & N == 0 { Err(code) } else { Ok(None) };
        let old = blob.len() as u64;

        let resized = match (len.cmp(&old), resize_flags & 6) {
            (std::cmp::Ordering::Equal, _) => Ok(None),
            (std::cmp::Ordering::Less, 2) | (std::cmp::Ordering::Greater, 4) => forgiven(4),
            _ => {
                let mut padded = blob.clone();
                if resize_flags & 1 == 0 {
                    padded.resize(len as usize, 0);
                } else {
                    padded.splice(0..0, vec![0; len as usize]);
                    padded.drain(..padded.len() - len as usize);
                }
                Ok(Some(padded))
            }
        };
        prop_assert_eq!(modified(Some(&blob), &call!(code::RESIZE, len, flags, resize_flags)), resized);

        let start = if at < 0 { old as i64 + at } else { at };
        let inserted = usize::try_from(start).map_err(|_| 4).map(|start| {
            let mut longer = blob.clone();
            longer.resize(longer.len().max(start), 0);
            longer.splice(start..start, given.clone());
            Some(longer)
        });
        prop_assert_eq!(modified(Some(&blob), &call!(code::INSERT, at, &given[..], flags)), inserted);

        for partial in [0, P] {
            let end = start + len as i64;
            let removed = match start {
                _ if len == 0 => Err(4),
                ..0 => Err(4),
                _ if start >= old as i64 || (end > old as i64 && partial == 0) => forgiven(4),
                _ => {
                    let mut shorter = blob.clone();
                    shorter.drain(start as usize..end.min(old as i64) as usize);
                    Ok(Some(shorter))
                }
            };
            let call = call!(code::REMOVE, at, len, flags | partial);
            prop_assert_eq!(modified(Some(&blob), &call), removed);
        }
    }

    #[test]
    fn no_call_panics(
        blob in prop::collection::vec(any::<u8>(), 0..20),
        operation in prop_oneof![0..13_u8, 50..56_u8, any::<u8>()],
        arguments in prop::collection::vec(any_argument(), 0..6),
        garbage in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        for call in [&encoded(operation, &arguments)[..], &garbage[..]] {
            let _ = value(&blob, call);
            let _ = modified(Some(&blob), call);
            let _ = modified(None, call);
        }
    }
}

fn any_argument() -> impl Strategy<Value = Arg> {
    prop_oneof![
        (-200..200_i64).prop_map(Arg::Int),
        prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 27, 1 << 30, (1 << 30) + 1])
            .prop_map(Arg::Int),
        any::<bool>().prop_map(Arg::Bool),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Arg::Blob),
    ]
}

#[test]
fn flags_that_an_operation_does_not_know_are_refused() {
    let blob = [1; 9];
    let table = [
        (code::RESIZE, C | U | N),
        (code::INSERT, C | U | N),
        (code::REMOVE, U | N | P),
        (code::SET, U | N | P),
        (code::OR, U | N | P),
        (code::XOR, U | N | P),
        (code::AND, U | N | P),
        (code::NOT, U | N | P),
        (code::LSHIFT, U | N | P),
        (code::RSHIFT, U | N | P),
        (code::ADD, U | N),
        (code::SUBTRACT, U | N),
        (code::SET_INT, U | N),
    ];
    for (operation, allowed) in table {
        for flags in [0, C, U, N, P, 16, C | U, N | U, 1 << 32] {
            let call = match operation {
                code::RESIZE => call!(operation, 12_u64, flags),
                code::INSERT => call!(operation, 0_i64, &b"x"[..], flags),
                code::REMOVE | code::NOT => call!(operation, 0_i64, 1_u64, flags),
                code::SET..=code::AND => call!(operation, 0_i64, 8_u64, &b"x"[..], flags),
                _ => call!(operation, 0_i64, 8_u64, 1_u64, flags),
            };
            let expected = if flags & !allowed != 0 || flags == C | U {
                Some(4)
            } else if flags & C != 0 {
                Some(6)
            } else {
                None
            };
            let result = modified(Some(&blob), &call);
            assert_eq!(
                result.err(),
                expected,
                "operation {operation}, flags {flags}"
            );
        }
    }
    assert_eq!(
        modified(Some(&blob), &call!(code::RESIZE, 1_u64, 0_u64, 6_u64)),
        Err(4)
    );
    assert_eq!(
        modified(Some(&blob), &call!(code::RESIZE, 1_u64, 0_u64, 8_u64)),
        Err(4)
    );
    assert_eq!(
        modified(
            Some(&blob),
            &call!(code::ADD, 0_i64, 8_u64, 1_u64, 0_u64, 6_u64)
        ),
        Err(4)
    );
    assert_eq!(
        value(&blob, &call!(code::GET_INT, 0_i64, 8_u64, 2_u64)),
        Err(4)
    );
}

#[test]
fn errors_come_in_the_order_of_the_server() {
    let text = Some((ParticleType::String, &b"text"[..]));
    let blob = Some((ParticleType::Blob, &b"blob"[..]));
    let set = |flags| call!(code::SET, 0_i64, 8_u64, &b"x"[..], flags);
    let insert = |flags| call!(code::INSERT, 0_i64, &b"x"[..], flags);
    let same = Ok(None);
    let table = [
        (
            "arguments before the type",
            text,
            call!(code::SET, 0_i64, 0_u64),
            Err(4),
        ),
        ("CREATE_ONLY before the type", text, insert(C), Err(6)),
        (
            "CREATE_ONLY, forgiven, before the type",
            text,
            insert(C | N),
            same.clone(),
        ),
        ("the type", text, insert(0), Err(12)),
        ("the type is not forgiven", text, set(N), Err(12)),
        ("a bin that exists", blob, insert(C), Err(6)),
        ("a missing bin", None, set(0), Err(17)),
        ("a missing bin, forgiven", None, set(N), same.clone()),
        ("a missing bin, not to be created", None, insert(U), Err(17)),
        ("the same, forgiven", None, insert(U | N), same.clone()),
        (
            "a missing bin has no end",
            None,
            call!(code::INSERT, -1_i64, &b"x"[..], N),
            Err(4),
        ),
        (
            "before the front",
            blob,
            call!(code::INSERT, -5_i64, &b"x"[..], N),
            Err(4),
        ),
        (
            "before the front",
            blob,
            call!(code::NOT, -33_i64, 1_u64, N),
            Err(4),
        ),
        (
            "fewer bits than said",
            blob,
            call!(code::SET, 0_i64, 9_u64, &b"x"[..]),
            Err(4),
        ),
        (
            "an empty blob",
            blob,
            call!(code::INSERT, 0_i64, &b""[..]),
            Err(4),
        ),
        ("no size", blob, call!(code::NOT, 0_i64, 0_u64), Err(4)),
        ("no bytes", blob, call!(code::REMOVE, 0_i64, 0_u64), Err(4)),
        (
            "65 bits",
            blob,
            call!(code::SET_INT, 0_i64, 65_u64, 1_u64),
            Err(4),
        ),
        (
            "a huge offset",
            blob,
            call!(code::NOT, (1_i64 << 30) + 1, 1_u64, N),
            Err(4),
        ),
        (
            "a great offset",
            blob,
            call!(code::NOT, 1_i64 << 30, 1_u64),
            Err(26),
        ),
        ("too few arguments", blob, call!(code::NOT, 0_i64), Err(4)),
        (
            "too many arguments",
            blob,
            call!(code::NOT, 0_i64, 1_u64, 0_u64, 0_u64),
            Err(4),
        ),
        (
            "a number of a read",
            blob,
            call!(code::COUNT, 0_i64, 1_u64),
            Err(4),
        ),
        ("no number", blob, call!(13, 0_i64, 1_u64), Err(4)),
        (
            "resized to nothing, nothing is created",
            None,
            call!(code::RESIZE, 0_u64),
            same,
        ),
    ];
    for (what, current, call, expected) in table {
        let call = PathCall::parse(&call, Trust::Foreign).unwrap();
        assert_eq!(modify(current, &call).map_err(number), expected, "{what}");
    }
    assert_eq!(value(b"blob", &call!(code::NOT, 0_i64, 1_u64)), Err(4));
    assert_eq!(value(b"blob", &call!(code::GET, 32_i64, 1_u64)), Err(26));
    assert_eq!(value(b"blob", &call!(code::GET, 31_i64, 2_u64)), Err(26));
    let get = call!(code::GET, 99_i64, 2_u64);
    let get = PathCall::parse(&get, Trust::Foreign).unwrap();
    assert_eq!(
        read((ParticleType::Hll, b"blob"), &get).map_err(number),
        Err(12)
    );
}

#[test]
fn a_missing_bin_is_created_by_insert_and_resize() {
    assert_eq!(
        modified(None, &call!(code::INSERT, 2_i64, &b"x"[..])),
        Ok(Some(b"\0\0x".to_vec()))
    );
    assert_eq!(
        modified(None, &call!(code::RESIZE, 3_u64, C)),
        Ok(Some(vec![0; 3]))
    );
}

#[test]
fn a_few_bytes_cannot_ask_for_a_huge_blob() {
    let most = MAX_BLOB_BYTES;
    for (bytes, possible) in [
        (most, true),
        (most + 1, false),
        (128 << 20, false),
        (u64::MAX, false),
    ] {
        let result = modified(None, &call!(code::RESIZE, bytes));
        assert_eq!(
            result.map(|blob| blob.unwrap().len() as u64),
            if possible { Ok(bytes) } else { Err(4) }
        );
    }
    for (at, possible) in [(most - 1, true), (most, false), (128 << 20, false)] {
        let result = modified(Some(b""), &call!(code::INSERT, at, &b"x"[..]));
        assert_eq!(result.is_ok(), possible, "{at}");
    }
}

#[test]
fn the_path_of_a_context_is_refused() {
    let below = crate::call::below(&[0x92, 0x22, 7], &call!(code::COUNT, 0_i64, 8_u64));
    assert_eq!(value(b"blob", &below), Err(4));
}

#[test]
fn whole_bytes_are_read_without_a_copy() {
    let call = call!(code::GET, 8_i64, 16_u64);
    let call = PathCall::parse(&call, Trust::Normal).unwrap();
    let reply = read((ParticleType::Blob, b"abcd"), &call).unwrap();
    let CallReply::Stored(ParticleType::Blob, std::borrow::Cow::Borrowed(bytes)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(bytes, b"bc");
}
