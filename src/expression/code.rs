//! The numbers of the operations of expressions, as Aerospike has them, and their names in
//! messages.
#![allow(missing_docs, reason = "the names say it")]

/// Defines the numbers and names of the operations. Operations of a kind, which compile alike, are
/// the variants of one type.
macro_rules! codes {
    (
        $($number:literal $code:ident $name:literal,)*
        $($(#[$doc:meta])* $kind:ident { $($of_kind:literal $const:ident $variant:ident $named:literal,)* })*
    ) => {
        $(pub(super) const $code: i64 = $number;)*
        $($(pub(super) const $const: i64 = $of_kind;)*)*

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(super) enum $kind { $($variant),* }
        )*

        /// An operation of one of the kinds.
        pub(super) enum Operator { $($kind($kind)),* }

        impl Operator {
            pub(super) const fn of(code: i64) -> Option<Self> {
                Some(match code {
                    $($($of_kind => Self::$kind($kind::$variant),)*)*
                    _ => return None,
                })
            }
        }

        /// Returns the name of an operation; `None` if no operation has this number.
        pub(super) const fn name(code: i64) -> Option<&'static str> {
            Some(match code {
                $($number => $name,)*
                $($($of_kind => $named,)*)*
                _ => return None,
            })
        }
    };
}

codes! {
    0 UNKNOWN "unknown",
    7 REGEX "regex_compare",
    8 GEO "geo_compare",
    9 IN_LIST "in_list",
    16 AND "and",
    17 OR "or",
    18 NOT "not",
    19 EXCLUSIVE "xor",
    64 DIGEST_MODULO "digest_modulo",
    80 KEY "key",
    81 BIN "bin",
    82 BIN_TYPE "bin_type",
    100 RESULT_REMOVE "result_remove",
    122 VAR_BUILTIN "loop_var",
    123 COND "cond",
    124 VAR "var",
    125 LET "exp_let",
    126 QUOTE "list_val",
    127 CALL "call",

    ComparisonKind {
        1 EQ Eq "eq",
        2 NE Ne "ne",
        3 GT Gt "gt",
        4 GE Ge "ge",
        5 LT Lt "lt",
        6 LE Le "le",
    }

    /// Operations that take any number of operands from left to right.
    Fold {
        20 ADD Add "num_add",
        21 SUB Sub "num_sub",
        22 MUL Mul "num_mul",
        23 DIV Div "num_div",
        50 MIN Min "min",
        51 MAX Max "max",
        32 INT_AND And "int_and",
        33 INT_OR Or "int_or",
        34 INT_XOR Xor "int_xor",
    }

    Binary {
        24 POW Pow "num_pow",
        25 LOG Log "num_log",
        26 MOD Mod "num_mod",
        36 LSHIFT LeftShift "int_lshift",
        37 RSHIFT RightShift "int_rshift",
        38 ARSHIFT ArithmeticRightShift "int_arshift",
    }

    /// The end from which a bit scan starts.
    Scan {
        40 LSCAN Left "int_lscan",
        41 RSCAN Right "int_rscan",
    }

    Unary {
        27 ABS Abs "num_abs",
        28 FLOOR Floor "num_floor",
        29 CEIL Ceil "num_ceil",
        30 TO_INT ToInt "to_int",
        31 TO_FLOAT ToFloat "to_float",
        35 INT_NOT Not "int_not",
        39 INT_COUNT Count "int_count",
    }

    /// A fact about a record besides key and bins.
    Fact {
        65 DEVICE_SIZE DeviceSize "device_size",
        66 LAST_UPDATE LastUpdate "last_update",
        67 SINCE_UPDATE SinceUpdate "since_update",
        68 VOID_TIME VoidTime "void_time",
        69 TTL TimeToLive "ttl",
        70 SET_NAME SetName "set_name",
        71 KEY_EXISTS KeyExists "key_exists",
        72 IS_TOMBSTONE IsTombstone "is_tombstone",
        73 MEMORY_SIZE MemorySize "memory_size",
        74 RECORD_SIZE RecordSize "record_size",
    }

    MapPart {
        101 MAP_KEYS Keys "map_keys",
        102 MAP_VALUES Values "map_values",
    }
}

/// The bit in the number of a call's system that makes it a modification.
pub(super) const CALL_MODIFIES: i64 = 0x40;
