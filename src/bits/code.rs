//! The bit operations, as rows. Their numbers here, and the functions of `operations` and of
//! `expressions`, are generated from them.

use std::ops::RangeInclusive;

/// Calls a macro with the bit operations. A row has: whether it reads or writes, the function, the
/// number, the type of the result in an expression, the arguments, the settings behind the policy,
/// and the docs of the operation and of the expression.
macro_rules! bit_operations {
    ($generate:ident) => {
        $generate! {
            write resize RESIZE 0 Blob (bytes: size) (flags: BitResizeFlags)
            "Gives the blob a length in bytes, and fills with 0. Creates a missing bin, unless the length is 0."
            "Returns the blob resized to a length in bytes, padded with 0.";

            write insert INSERT 1 Blob (byte_offset: int, bytes: blob) ()
            "Inserts bytes before the one at `byte_offset`; a gap behind the end is filled with 0. Creates a missing bin."
            "Returns the blob with bytes inserted before `byte_offset`.";

            write remove REMOVE 2 Blob (byte_offset: int, bytes: size) ()
            "Removes `bytes` bytes from `byte_offset` on; the blob becomes shorter."
            "Returns the blob with a range of bytes removed.";

            write set SET 3 Blob (offset: int, size: size, bytes: blob) ()
            "Overwrites `size` bits with the first ones of `bytes`, which must have as many."
            "Returns the blob with a range of bits overwritten.";

            write or OR 4 Blob (offset: int, size: size, bytes: blob) ()
            "Sets the bits of the window that are 1 in `bytes`, which must have `size` bits or more."
            "Returns the blob with a range of bits combined with `bytes` by OR.";

            write xor XOR 5 Blob (offset: int, size: size, bytes: blob) ()
            "Inverts the bits of the window that are 1 in `bytes`, which must have `size` bits or more."
            "Returns the blob with a range of bits combined with `bytes` by XOR.";

            write and AND 6 Blob (offset: int, size: size, bytes: blob) ()
            "Clears the bits of the window that are 0 in `bytes`, which must have `size` bits or more."
            "Returns the blob with a range of bits combined with `bytes` by AND.";

            write not NOT 7 Blob (offset: int, size: size) ()
            "Inverts `size` bits."
            "Returns the blob with a range of bits inverted.";

            write lshift LSHIFT 8 Blob (offset: int, size: size, by: size) ()
            "Moves `size` bits by `by` places towards the front, and fills with 0."
            "Returns the blob with a range of bits shifted towards the front.";

            write rshift RSHIFT 9 Blob (offset: int, size: size, by: size) ()
            "Moves `size` bits by `by` places towards the end, and fills with 0."
            "Returns the blob with a range of bits shifted towards the end.";

            write add ADD 10 Blob (offset: int, size: size, value: int) (sign: BitSign, overflow: BitOverflow)
            "Adds to an integer of `size` bits, at most 64. Only as many low bits of `value` count."
            "Returns the blob with a number added to an integer in it.";

            write subtract SUBTRACT 11 Blob (offset: int, size: size, value: int) (sign: BitSign, overflow: BitOverflow)
            "Subtracts from an integer of `size` bits, at most 64. Only as many low bits of `value` count."
            "Returns the blob with a number subtracted from an integer in it.";

            write set_int SET_INT 12 Blob (offset: int, size: size, value: int) ()
            "Overwrites an integer of `size` bits, at most 64, with the low bits of `value`."
            "Returns the blob with an integer in it overwritten.";

            read get GET 50 Blob (offset: int, size: size) ()
            "Reads `size` bits. Result: a blob that begins with them; the rest of its last byte is 0."
            "Returns a range of bits, padded with 0 to whole bytes.";

            read count COUNT 51 Int (offset: int, size: size) ()
            "How many of `size` bits are 1."
            "Counts the bits that are 1.";

            read lscan LSCAN 52 Int (offset: int, size: size, bit: bit) ()
            "Looks for the first of `size` bits that equals `bit`. Result: its distance from `offset`; -1 if there is none."
            "Returns the position of the first bit equal to `bit`, relative to the offset; -1 if there is none.";

            read rscan RSCAN 53 Int (offset: int, size: size, bit: bit) ()
            "Looks for the last of `size` bits that equals `bit`. Result: its distance from `offset`; -1 if there is none."
            "Returns the position of the last bit equal to `bit`, relative to the offset; -1 if there is none.";

            read get_int GET_INT 54 Int (offset: int, size: size) (sign: BitSign)
            "Reads an integer of `size` bits, at most 64. All 64 are read as signed in any case."
            "Returns a range of bits as an integer.";
        }
    };
}

pub(crate) use bit_operations;

macro_rules! numbers {
    ($($access:ident $name:ident $code:ident $number:literal $kind:ident $arguments:tt $settings:tt $bin:literal $value:literal;)*) => {
        $(pub(crate) const $code: u8 = $number;)*
    };
}

bit_operations!(numbers);

macro_rules! argument_counts {
    ($($access:ident $name:ident $code:ident $number:literal $kind:ident ($($argument:ident: $form:ident),*) ($($setting:ident: $flags:ident),*) $bin:literal $value:literal;)*) => {
        /// Returns the numbers of arguments that an operation takes; `None` if none that reads or
        /// `writes` has this number.
        pub(super) fn argument_counts(operation: u8, writes: bool) -> Option<RangeInclusive<u32>> {
            let rows: &[(u8, &str, &[&str], &[&str])] = &[$((
                $number,
                stringify!($access),
                &[$(stringify!($argument)),*],
                &[$(stringify!($setting)),*],
            )),*];
            let access = if writes { "write" } else { "read" };
            let is_it = |row: &&(u8, &str, _, _)| row.0 == operation && row.1 == access;
            let (_, _, arguments, settings) = rows.iter().find(is_it)?;
            let required = arguments.len() as u32;
            // Behind them the flags of a write's policy, and all settings in one number.
            Some(required..=required + u32::from(writes) + u32::from(!settings.is_empty()))
        }
    };
}

bit_operations!(argument_counts);
