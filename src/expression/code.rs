//! The numbers of the operations of expressions, as Aerospike has them, and their names in
//! messages.
#![allow(missing_docs, reason = "the names say it")]

macro_rules! codes {
    ($($number:literal $code:ident $name:literal,)*) => {
        $(pub(super) const $code: i64 = $number;)*

        /// Returns the name of an operation; `None` if no operation has this number.
        pub(super) const fn name(code: i64) -> Option<&'static str> {
            Some(match code {
                $($number => $name,)*
                _ => return None,
            })
        }
    };
}

codes! {
    0 UNKNOWN "unknown",
    1 EQ "eq",
    2 NE "ne",
    3 GT "gt",
    4 GE "ge",
    5 LT "lt",
    6 LE "le",
    7 REGEX "regex_compare",
    8 GEO "geo_compare",
    9 IN_LIST "in_list",
    16 AND "and",
    17 OR "or",
    18 NOT "not",
    19 EXCLUSIVE "xor",
    20 ADD "num_add",
    21 SUB "num_sub",
    22 MUL "num_mul",
    23 DIV "num_div",
    24 POW "num_pow",
    25 LOG "num_log",
    26 MOD "num_mod",
    27 ABS "num_abs",
    28 FLOOR "num_floor",
    29 CEIL "num_ceil",
    30 TO_INT "to_int",
    31 TO_FLOAT "to_float",
    32 INT_AND "int_and",
    33 INT_OR "int_or",
    34 INT_XOR "int_xor",
    35 INT_NOT "int_not",
    36 LSHIFT "int_lshift",
    37 RSHIFT "int_rshift",
    38 ARSHIFT "int_arshift",
    39 INT_COUNT "int_count",
    40 LSCAN "int_lscan",
    41 RSCAN "int_rscan",
    50 MIN "min",
    51 MAX "max",
    64 DIGEST_MODULO "digest_modulo",
    65 DEVICE_SIZE "device_size",
    66 LAST_UPDATE "last_update",
    67 SINCE_UPDATE "since_update",
    68 VOID_TIME "void_time",
    69 TTL "ttl",
    70 SET_NAME "set_name",
    71 KEY_EXISTS "key_exists",
    72 IS_TOMBSTONE "is_tombstone",
    73 MEMORY_SIZE "memory_size",
    74 RECORD_SIZE "record_size",
    80 KEY "key",
    81 BIN "bin",
    82 BIN_TYPE "bin_type",
    100 RESULT_REMOVE "result_remove",
    101 MAP_KEYS "map_keys",
    102 MAP_VALUES "map_values",
    122 VAR_BUILTIN "loop_var",
    123 COND "cond",
    124 VAR "var",
    125 LET "exp_let",
    126 QUOTE "list_val",
    127 CALL "call",
}

/// The bit in the number of a call's system that makes it a modification.
pub(super) const CALL_MODIFIES: i64 = 0x40;
