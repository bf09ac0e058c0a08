//! The setters of options and policies: a field's name, type and meaning are all that differs
//! between them.

/// Makes a method for each of these fields, which sets it and returns the options. After `const`,
/// the methods are `const`; otherwise they take what converts into the field. After `in` or
/// `in const`, each has a name and its arguments, and says where in the options it sets which value.
macro_rules! setters {
    (in const $(
        $(#[$meaning:meta])* $name:ident($($value:ident: $kind:ty),*) => $($place:tt).+ = $set:expr
    ),+ $(,)?) => {$(
        $(#[$meaning])*
        #[must_use = "it returns what it has set: go on with that"]
        pub const fn $name(mut self $(, $value: $kind)*) -> Self {
            self.$($place).+ = $set;
            self
        }
    )+};
    (in $(
        $(#[$meaning:meta])* $name:ident($($value:ident: $kind:ty),*) => $($place:tt).+ = $set:expr
    ),+ $(,)?) => {$(
        $(#[$meaning])*
        #[must_use = "it returns what it has set: go on with that"]
        pub fn $name(mut self $(, $value: $kind)*) -> Self {
            self.$($place).+ = $set;
            self
        }
    )+};
    (const $($(#[$meaning:meta])* $field:ident: $kind:ty),+ $(,)?) => {
        setters! { in const $($(#[$meaning])* $field($field: $kind) => $field = $field),+ }
    };
    ($($(#[$meaning:meta])* $field:ident: $kind:ty),+ $(,)?) => {
        setters! { in $($(#[$meaning])* $field($field: $kind) => $field = $field.into()),+ }
    };
}

pub(crate) use setters;
