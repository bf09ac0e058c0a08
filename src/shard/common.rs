//! The calls that every handle has, beside those of its kind: how it is made, when it is spread, transitions, where it is.

/// What the documentation of every handle says of the root, and of what the handle keeps.
macro_rules! keeping {
    ($handle:literal) => {
        concat!(
            "Other bins of the root record are anybody's. What would take from it the bins that say where the companions are is ",
            "refused ([`Error::ShardRoot`](crate::Error::ShardRoot)), and so is a write to a companion by its own key, unless ",
            "[`WritePolicy::override_shards`](crate::WritePolicy::override_shards) allows it; handles then look at the root again. ",
            "Wire clients are not refused. To delete the whole, call [`",
            $handle,
            "::delete`].\n\n",
            "A handle keeps the key and the filter of each companion that it has met: 2 KB for one, about 700 bytes for each of ",
            "many (2.8 MB for 4,096). The filters, most of that, go when the shards change. Threads may share a handle.",
        )
    };
}

/// Gives a handle its constructors. `$noun`: what it is. `$field`: what it has beside its `handle`.
macro_rules! constructors {
    ($handle:ident, $kind:ident, $noun:literal $(, $field:ident = $value:expr)?) => {
        impl<R: $crate::RecordSet> $handle<R> {
            #[doc = concat!("The ", $noun, " in a bin of the record of this key. Nothing is read or written.")]
            ///
            /// # Errors
            /// [`Error::Parameter`](crate::Error::Parameter) for a name of a set that is not allowed, and for the bins that
            /// describe shards.
            pub fn new<'k, S: $crate::RecordStore<Records = R>>(
                store: &S,
                set: &str,
                key: impl Into<$crate::Key<'k>>,
                bin: &str,
            ) -> $crate::Result<Self> {
                Self::new_with(store, set, key, bin, &$crate::WritePolicy::default())
            }

            #[doc = concat!(
                "The same, by a policy: its timeout and `send_key` count, and its expiration as long as the ", $noun,
                " is in one record."
            )]
            #[doc = concat!("Records of a ", $noun, " that has been spread do not expire.")]
            ///
            /// # Errors
            /// As for [`Self::new`].
            pub fn new_with<'k, S: $crate::RecordStore<Records = R>>(
                store: &S,
                set: &str,
                key: impl Into<$crate::Key<'k>>,
                bin: &str,
                policy: &$crate::WritePolicy,
            ) -> $crate::Result<Self> {
                let (records, key) = (store.records(set)?, key.into().into_owned());
                let kind = $crate::shard::content::Collection::$kind;
                let handle = $crate::shard::handle::Handle::new(records, key, bin, kind, policy)?;
                Ok(Self { handle $(, $field: $value)? })
            }

            #[doc = concat!("When the ", $noun, " is spread without being asked to;")]
            /// [`ShardPolicy::default`](crate::shard::ShardPolicy::default) otherwise.
            #[must_use]
            pub fn policy(mut self, policy: $crate::shard::ShardPolicy) -> Self {
                self.handle.set_policy(policy);
                self
            }
        }
    };
}

/// Gives a handle its calls about shards. `$noun`: what it is. `$write`: its plainest write, whose errors are written out
/// there. `$refused`: what of its kind cannot be spread, for the documentation.
macro_rules! transitions {
    ($handle:ident, $noun:literal, $write:ident $(, $refused:literal)?) => {
        impl<R: $crate::RecordSet> $handle<R> {
            #[doc = concat!("Spreads the ", $noun, " over so many companions, a power of two, unless it is spread already.")]
            ///
            /// # Errors
            /// Before anything is changed: [`Error::Parameter`](crate::Error::Parameter) for another number;
            #[doc = concat!("[`Error::IncompatibleType`](crate::Error::IncompatibleType) if the bin holds no ", $noun, ";")]
            /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) if another record has the key of a companion.
            $(#[doc = $refused])?
            ///
            #[doc = concat!("In the midst of it, what [`Self::", stringify!($write), "`] may be told, too. The transition stays")]
            /// under way then: the next writer, or [`Self::help`], goes on with it, and where it cannot be ended,
            /// [`Self::delete`] is the way out. The same goes for one that others have left, which is ended first.
            pub fn activate(&self, shards: u64) -> $crate::Result<$crate::shard::ShardState> {
                self.activate_with(shards, |_| std::ops::ControlFlow::Continue(()))
            }

            /// [`Self::activate`], watched: `observe` is called before each companion, and may stop it there.
            #[doc = concat!("The ", $noun, " stays readable; the next writer, or [`Self::help`], carries on.")]
            ///
            /// # Errors
            /// As for [`Self::activate`].
            pub fn activate_with(
                &self,
                shards: u64,
                observe: impl FnMut($crate::shard::ShardProgress) -> std::ops::ControlFlow<()>,
            ) -> $crate::Result<$crate::shard::ShardState> {
                self.handle.activate(shards, observe)
            }

            $crate::shard::common::change! {
                /// Splits every companion in two.
                ///
                /// # Errors
                /// Before anything is changed: [`Error::OpNotApplicable`](crate::Error::OpNotApplicable)
                #[doc = concat!("for a ", $noun, " in one record, or in 4,096 companions;")]
                #[doc = concat!("[`Error::IncompatibleType`](crate::Error::IncompatibleType) if the companions hold no ", $noun, ";")]
                /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) if another record has the key of a new one.
                ///
                /// In the midst of it, as for [`Self::activate`]: so, too,
                /// [`Error::ShardMissing`](crate::Error::ShardMissing) where a companion is gone.
                split, split_with, Split
            }

            $crate::shard::common::change! {
                /// Merges the companions by twos.
                ///
                /// # Errors
                /// Before anything is changed: [`Error::OpNotApplicable`](crate::Error::OpNotApplicable)
                #[doc = concat!("for a ", $noun, " in one record, or in one companion;")]
                #[doc = concat!("[`Error::IncompatibleType`](crate::Error::IncompatibleType) if the companions hold no ", $noun, ";")]
                /// [`Error::RecordTooBig`](crate::Error::RecordTooBig) if one record cannot hold what two have.
                ///
                /// In the midst of it, as for [`Self::split`], and `RecordTooBig` for what was added meanwhile.
                merge, merge_with, Merge
            }

            $crate::shard::common::change! {
                #[doc = concat!("Brings the ", $noun, " back into one record, unless it is in one.")]
                ///
                /// # Errors
                /// Before anything is changed: [`Error::OpNotApplicable`](crate::Error::OpNotApplicable) if others have
                /// made a bin of its name in the root meanwhile, which would be lost (one that appears while companions
                /// are merged for this stops it when they are);
                #[doc = concat!("[`Error::IncompatibleType`](crate::Error::IncompatibleType) if the companions hold no ", $noun, ";")]
                /// [`Error::RecordTooBig`](crate::Error::RecordTooBig) if one record cannot hold it.
                ///
                /// In the midst of it, as for [`Self::merge`].
                demote, demote_with, Demote
            }

            $crate::shard::common::change! {
                #[doc = concat!("Deletes the ", $noun, " with all its companions.")]
                /// Other bins of the root stay, and so does the number of the last transition where there was one. A bin of
                /// its name, which others may have made in the root, goes with it.
                ///
                /// # Errors
                #[doc = concat!("As for [`Self::", stringify!($write), "`].")]
                delete, delete_with, Delete
            }

            /// Carries a transition that somebody has left to its end. Returns whether there was one.
            ///
            /// # Errors
            #[doc = concat!("As for [`Self::", stringify!($write), "`].")]
            pub fn help(&self) -> $crate::Result<bool> {
                self.handle.help()
            }

            #[doc = concat!("Where the ", $noun, " is. One operation.")]
            ///
            /// # Errors
            #[doc = concat!("As for [`Self::", stringify!($write), "`].")]
            pub fn state(&self) -> $crate::Result<$crate::shard::ShardState> {
                Ok($crate::shard::ShardState::of(&self.handle.root()?))
            }
        }
    };
}

/// One transition: to its end, and watched.
macro_rules! change {
    ($(#[$doc:meta])* $call:ident, $watched:ident, $goal:ident) => {
        $(#[$doc])*
        pub fn $call(&self) -> $crate::Result<$crate::shard::ShardState> {
            self.$watched(|_| std::ops::ControlFlow::Continue(()))
        }

        #[doc = concat!("[`Self::", stringify!($call), "`], watched as [`Self::activate_with`].")]
        ///
        /// # Errors
        #[doc = concat!("As for [`Self::", stringify!($call), "`].")]
        pub fn $watched(
            &self,
            observe: impl FnMut($crate::shard::ShardProgress) -> std::ops::ControlFlow<()>,
        ) -> $crate::Result<$crate::shard::ShardState> {
            self.handle
                .change($crate::shard::protocol::begin::Goal::$goal, observe)
        }
    };
}

pub(super) use {change, constructors, keeping, transitions};
