//! Declarations: which relations a store has, kept as records of a set of it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::keys::{is_removed, read_one};
use super::writes::{delete_member, replacing};
use crate::engine::declaration::{BUILT, DECLARATION_BIN, DECLARATION_SET, OnDelete};
use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind};
use crate::operations;
use crate::policy::GenerationPolicy;
use crate::record::{Record, SHARD_OF};
use crate::{
    Error, Expiration, Key, Namespace, RecordSet, RecordStore, Result, Value, WritePolicy,
};

/// What a handle declares beside the relation itself, and whether it has done so.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// The fate of edges when a record is deleted; `None`: the declared one.
    pub(super) rule: Option<OnDelete>,
    /// The number of the store's declarations when the handle last looked; 0: it has to look.
    epoch: AtomicU64,
}

impl Clone for Declared {
    fn clone(&self) -> Self {
        Self {
            rule: self.rule,
            epoch: AtomicU64::new(self.epoch.load(Ordering::Relaxed)),
        }
    }
}

impl Declared {
    /// Has the next call of [`Declared::ensure`] look again.
    pub(super) fn forget(&self) {
        self.epoch.store(0, Ordering::Relaxed);
    }

    /// [`Declared::ensure`] for a handle with a declaration that does not depend on stored ones.
    pub(super) fn ensure_as<S: RecordStore>(
        &self,
        store: &S,
        declaration: impl FnOnce() -> RelationDeclaration,
    ) -> Result<()> {
        self.ensure(store, |store| {
            declaration().declare(store, self.rule, false).map(Some)
        })
    }

    /// Declares a relation; the handle's rule takes the place of another one.
    ///
    /// # Errors
    /// As for [`RelationDeclaration::declare`].
    pub(super) fn declare<S: RecordStore>(
        &self,
        store: &S,
        declaration: &RelationDeclaration,
    ) -> Result<()> {
        declaration.declare(store, self.rule, true).map(drop)
    }

    /// Calls `declare` unless nothing was declared since the last call. `declare` returns the
    /// declaration as it is stored, or `None` if it found rules that cover the handle. Does nothing
    /// in a store that guards no relations. Declares outside of a transaction, so that the rules
    /// hold for the transaction's writes.
    ///
    /// # Errors
    /// The errors of `declare`.
    pub(super) fn ensure<S: RecordStore>(
        &self,
        store: &S,
        declare: impl FnOnce(&Namespace) -> Result<Option<RelationDeclaration>>,
    ) -> Result<()> {
        let Some(guard) = store.relation_guard()? else {
            return Ok(());
        };
        let epoch = guard.epoch();
        if epoch != 0 && self.epoch.load(Ordering::Relaxed) == epoch {
            return Ok(());
        }
        guard.check_takes_writes()?;
        // A writer publishes a declaration before it reads the rules: they may be older than the
        // record.
        if let Some(stored) = declare(guard.namespace())?
            && !guard.declarations().contains(&stored)
        {
            guard.read_declarations();
        }
        // If the rules have changed, the next call looks again.
        self.epoch.store(epoch, Ordering::Relaxed);
        Ok(())
    }
}

/// Calls `write` behind `ensure`, by which a handle declares itself, and then `ensure` again: a
/// truncation of the namespace in between takes the declaration, and not what is written behind it.
pub(super) fn ensured<R>(
    ensure: impl Fn() -> Result<()>,
    write: impl FnOnce() -> Result<R>,
) -> Result<R> {
    ensure()?;
    let written = write()?;
    ensure().map(|()| written)
}

/// The record of a declaration.
pub(super) struct StoredDeclaration {
    /// `None`: it was removed.
    pub(super) declaration: Option<RelationDeclaration>,
    /// Whether the derived records have been built.
    built: bool,
    generation: u16,
}

impl RelationDeclaration {
    /// Stores the declaration, or merges it into the stored one of its name; with the handle's
    /// rule, or else the stored one. `replaces`: as for [`RelationDeclaration::over`]; then it takes
    /// the place of a damaged one, too.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, or one of the bins, and where the
    /// stored declaration contradicts this one.
    pub(super) fn declare<S: RecordStore>(
        &self,
        store: &S,
        rule: Option<OnDelete>,
        replaces: bool,
    ) -> Result<Self> {
        self.check_rule(rule)?;
        self.revise_over(store, replaces, |known| self.over(known, rule, replaces))
    }

    /// Does as [`RelationDeclaration::revise`], and where it `replaces` again once a damaged
    /// declaration of this name is removed: that makes no rules, so nothing is lost with it.
    pub(super) fn revise_over<S: RecordStore>(
        &self,
        store: &S,
        replaces: bool,
        change: impl Fn(Option<&Self>) -> Result<Self>,
    ) -> Result<Self> {
        match (self.revise(store, &change), store.relation_guard()?) {
            (Err(error), Some(guard)) if replaces && error.is_damage() => {
                guard.alone(|| match self.stored(guard.namespace()) {
                    Err(damage) if damage.is_damage() => {
                        forget_relation(guard.namespace(), &self.name).map(drop)
                    }
                    stored => stored.map(drop),
                })?;
                self.revise(store, change)
            }
            (revised, _) => revised,
        }
    }

    /// Refuses a rule that makes no sense for the relation.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub(super) fn check_rule(&self, rule: Option<OnDelete>) -> Result<()> {
        let why = match (self.kind, rule) {
            (RelationKind::OneToMany, Some(OnDelete::Detach)) => {
                "children belong to their parent, and nothing would lead to them: delete them by OnDelete::Cascade, or put them to another parent first"
            }
            (
                RelationKind::ManyToMany | RelationKind::Links | RelationKind::Graph,
                Some(OnDelete::Cascade),
            ) => "no record belongs to another, so a delete does not cascade: use OnDelete::Detach",
            _ => return Ok(()),
        };
        Err(Error::parameter(format!("relation {:?}: {why}", self.name)))
    }

    /// Returns the stored declaration with what a handle of this one, with this rule, adds.
    /// `replaces`: whether the handle's rule and words take the place of others; a rule that
    /// differs is an error otherwise.
    pub(super) fn over(
        &self,
        known: Option<&Self>,
        rule: Option<OnDelete>,
        replaces: bool,
    ) -> Result<Self> {
        let is_of_any_sets = self.kind == RelationKind::Links;
        let has_other_sets = known.is_some_and(|known| known.sets() != self.sets());
        self.check_same(known, !is_of_any_sets && has_other_sets)?;
        // A copy of fields that is declared anew owns no bins, so nothing is lost with the old
        // declaration.
        let Some(known) = known.filter(|_| self.kind.owns_bins()) else {
            return Ok(self.with_rule(rule, known));
        };
        let mut wanted = known.clone();
        match rule {
            Some(rule) if replaces => wanted.on_delete = rule,
            Some(rule) if rule != known.on_delete => {
                return Err(Error::parameter(format!(
                    "relation {:?} is declared with OnDelete::{:?}, and this handle says OnDelete::{rule:?}: leave that out, or call declare to change the rule",
                    self.name, known.on_delete,
                )));
            }
            _ => {}
        }
        for side in &self.sides {
            let is_place =
                |found: &&DeclaredSide| (&found.role, &found.set) == (&side.role, &side.set);
            match known.sides.iter().find(is_place) {
                Some(found) if found == side => {}
                None if is_of_any_sets => wanted.sides.push(side.clone()),
                found => {
                    return Err(Error::parameter(format!(
                        "relation {:?} is declared with {found:?}, and this handle has {side:?}: it would not find the edges that are there; make it as declared, or call forget_relation and declare",
                        self.name
                    )));
                }
            }
        }
        let lacking = known.sides.iter().find(|side| !self.sides.contains(side));
        if let (false, Some(lacking)) = (is_of_any_sets, lacking) {
            return Err(Error::parameter(format!(
                "relation {:?} is declared with {lacking:?}, which this handle would not keep up to date: make it as declared, or call forget_relation and declare",
                self.name
            )));
        }
        for (tag, back) in &self.reciprocal {
            let mut tags = known.reciprocal.iter();
            if let Some((_, declared)) = tags.find(|(known, other)| known == tag && other != back) {
                return Err(self.other_reciprocal(tag, declared));
            }
        }
        add_missing(&mut wanted.reciprocal, &self.reciprocal);
        add_missing(&mut wanted.beside, &self.beside);
        // Another handle knows them, and edges of these types are there.
        add_missing(&mut wanted.edge_types, &self.edge_types);
        if replaces && !is_of_any_sets {
            wanted.details.clone_from(&self.details);
        } else {
            add_missing(&mut wanted.details, &self.details);
        }
        Ok(wanted)
    }

    /// The refusal of a handle of links that has another link back for a tag than this declaration,
    /// or none.
    pub(super) fn other_reciprocal(&self, tag: &str, declared: &str) -> Error {
        Error::parameter(format!(
            "relation {:?} is declared with links {tag:?} that have links {declared:?} back, which this handle would not write: call reciprocal({tag:?}, {declared:?}), or forget_relation and declare",
            self.name
        ))
    }

    /// Refuses bins that another relation of the store owns.
    fn check_bins<S: RecordStore>(&self, store: &S) -> Result<()> {
        match store.relation_guard()? {
            Some(guard) => self.check_beside(&guard.declarations()),
            None => Ok(()),
        }
    }

    /// Returns the declaration with the handle's rule, or else the rule of the stored one.
    pub(super) fn with_rule(&self, rule: Option<OnDelete>, known: Option<&Self>) -> Self {
        let mut wanted = self.clone();
        wanted.on_delete = rule.or(known.map(|it| it.on_delete)).unwrap_or_default();
        wanted
    }

    /// Returns whether a relation of this name and kind is declared.
    pub(super) fn is_declared<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let stored = self.stored(store)?;
        let declaration = stored.and_then(|stored| stored.declaration);
        Ok(declaration.is_some_and(|declaration| declaration.kind == self.kind))
    }

    /// Stores a declaration of derived records, in the place of an earlier one of this kind and of
    /// the same set, and returns whether they have been built as declared.
    pub(super) fn declare_derived<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let stored = self.stored(store)?;
        self.revise(store, |known| {
            let is_of_other = known.is_some_and(|it| it.first_set() != self.first_set());
            self.check_same(known, is_of_other)?;
            Ok(self.clone())
        })?;
        Ok(stored.is_some_and(|stored| stored.built && stored.declaration.as_ref() == Some(self)))
    }

    /// Refuses to take the place of another relation's declaration.
    fn check_same(&self, known: Option<&Self>, has_other_sets: bool) -> Result<()> {
        match known {
            Some(known) if known.kind != self.kind || has_other_sets => {
                Err(Error::parameter(format!(
                    "relation {:?} is declared as {:?} of sets {:?}, and this is {:?} of sets {:?}: give it another name, or remove the declaration by forget_relation",
                    self.name,
                    known.kind,
                    known.sets(),
                    self.kind,
                    self.sets()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Changes the stored declaration of this name by `change`, and returns it. A store that guards
    /// relations has one handle at a time declare itself, and outside of transactions, so that no
    /// two are given one bin.
    pub(super) fn revise<S: RecordStore>(
        &self,
        store: &S,
        change: impl Fn(Option<&Self>) -> Result<Self>,
    ) -> Result<Self> {
        match store.relation_guard()? {
            Some(guard) => {
                guard.check_takes_writes()?;
                guard.alone(|| self.revise_in(guard.namespace(), change))
            }
            None => self.revise_in(store, change),
        }
    }

    /// Reads the declaration and calls `change` again if another writer has stored one meanwhile,
    /// so that neither write is lost.
    fn revise_in<S: RecordStore>(
        &self,
        store: &S,
        change: impl Fn(Option<&Self>) -> Result<Self>,
    ) -> Result<Self> {
        loop {
            let stored = self.stored(store)?;
            let known = stored
                .as_ref()
                .and_then(|stored| stored.declaration.as_ref());
            let wanted = change(known)?;
            if known == Some(&wanted) {
                return Ok(wanted);
            }
            self.check_bins(store)?;
            let generation = stored.as_ref().map_or(0, |stored| stored.generation.into());
            let only = replacing().generation(GenerationPolicy::ExpectEqual(generation));
            match wanted.write(store, only, false) {
                Err(Error::Generation { .. }) => {}
                written => return written.map(|()| wanted),
            }
        }
    }

    /// Notes whether the derived records have been built.
    pub(super) fn store<S: RecordStore>(&self, store: &S, built: bool) -> Result<()> {
        self.write(store, replacing(), built)
    }

    fn write<S: RecordStore>(&self, store: &S, policy: WritePolicy, built: bool) -> Result<()> {
        let json = serde_json::to_string(self).map_err(Error::serde)?;
        let puts = [
            operations::put(DECLARATION_BIN, json),
            operations::put(BUILT, built),
        ];
        let records = store.records(DECLARATION_SET)?;
        let policy = policy.expiration(Expiration::Never);
        records.operate_on(&policy, &(&*self.name).into(), &puts)?;
        Ok(())
    }

    pub(super) fn stored<S: RecordStore>(&self, store: &S) -> Result<Option<StoredDeclaration>> {
        let records = store.records(DECLARATION_SET)?;
        let found = read_one(&records, &Key::from(&*self.name), None)?;
        found
            .map(|record| {
                Ok(StoredDeclaration {
                    declaration: (!is_removed(&record))
                        .then(|| decode(&record))
                        .transpose()?,
                    built: record.get(BUILT) == Some(Value::Bool(true)),
                    generation: record.metadata().generation,
                })
            })
            .transpose()
    }

    fn first_set(&self) -> Option<&str> {
        self.sides.first().map(|side| &*side.set)
    }

    pub(super) fn sets(&self) -> Vec<&str> {
        let sides = self.sides.iter();
        let both = sides.flat_map(|side| [Some(&*side.set), side.to.as_deref()]);
        let mut sets: Vec<&str> = both.flatten().collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}

/// Adds the items that a list lacks.
fn add_missing<T: Clone + PartialEq>(to: &mut Vec<T>, wanted: &[T]) {
    for item in wanted {
        if !to.contains(item) {
            to.push(item.clone());
        }
    }
}

fn decode(record: &Record) -> Result<RelationDeclaration> {
    match record.get(DECLARATION_BIN) {
        Some(Value::String(json)) => RelationDeclaration::from_json(&json),
        other => Err(Error::parameter(format!(
            "bin \"{DECLARATION_BIN}\" of {} in set \"{DECLARATION_SET}\" holds {}, which is no declaration: another program has written it",
            record
                .key()
                .map_or_else(|| "a record without a key".into(), |key| key.to_string()),
            other.unwrap_or(Value::Nil)
        ))),
    }
}

/// Returns the relations that were declared in a store, by their names. One scan of
/// [`DECLARATION_SET`].
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::{ManyToMany, declared_relations};
///
/// let store = spikelet::Store::in_memory()?;
/// ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers")).declare()?;
/// let declared = declared_relations(&store)?;
/// assert_eq!(&*declared[0].name, "follows");
/// let stats = declared[0].stats(&store)?;
/// assert_eq!(stats.iter().map(|side| side.elements).sum::<u64>(), 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of a scan; [`Error::Parameter`] and [`Error::Serde`] for a record with another
/// content than a declaration of this version.
pub fn declared_relations<S: RecordStore>(store: &S) -> Result<Vec<RelationDeclaration>> {
    let mut found = Vec::new();
    let mut failed = None;
    store.records(DECLARATION_SET)?.scan_each(&mut |record| {
        match record {
            Ok(record) if record.view().bin(SHARD_OF).is_some() || is_removed(&record) => {}
            record => match record.and_then(|record| decode(&record)) {
                Ok(declaration) => found.push(declaration),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            },
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(()), Err)?;
    found.sort_by(|a: &RelationDeclaration, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Removes the declaration of a relation, and its rules with it; its records stay. Returns whether
/// there was one, damaged or not. One write, two on a cluster. A handle of it that writes
/// afterwards declares it again. In a transaction it is removed at once, as handles declare
/// themselves at once.
///
/// # Errors
/// The errors of a write.
pub fn forget_relation<S: RecordStore>(store: &S, name: &str) -> Result<bool> {
    if let Some(guard) = store.relation_guard()? {
        guard.check_takes_writes()?;
        // By a delete, which damage does not refuse.
        let declarations = guard.namespace().set(DECLARATION_SET)?;
        return Ok(declarations.delete(name)?.is_some());
    }
    let records = store.records(DECLARATION_SET)?;
    delete_member(&records, &WritePolicy::default(), &name.into(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::declaration::{DeclaredSide, SideForm};
    use crate::relation::OneToMany;
    use crate::relation::{Address, EdgeType, Graph, Layout, Links, ManyToMany, Members, NodeId};
    use crate::{Store, bins};

    /// Makes the same write ten times, and returns how often the rules were read for the last
    /// eight.
    fn readings(store: &Store, write: impl Fn() -> crate::Result<bool>) -> u64 {
        let readings = || store.relation_guard().unwrap().unwrap().epoch();
        write().unwrap();
        write().unwrap();
        let before = readings();
        for _ in 0..8 {
            write().unwrap();
        }
        readings() - before
    }

    #[test]
    fn a_handle_looks_at_the_declarations_before_its_first_writes_alone() {
        let store = Store::in_memory().unwrap();
        let links = Links::new(&store, "links").reciprocal("likes", "liked");
        let (ann, bob) = (Address::new("users", "ann"), Address::new("users", "bob"));
        links.declare("social", ["users"]).unwrap();
        let follows = ManyToMany::new(&store, "follows", ("a", "out"), ("a", "in"));
        let members = Members::new(&store, "a", ("lists", "all", "a"));
        let layout = Layout::key_list("notes");
        let notes = OneToMany::new(&store, "notes", ("a", "notes"), layout).unwrap();
        let graph = Graph::new(&store, "g", ["N"], [EdgeType::new("E")]).unwrap();
        let (from, to) = (NodeId::new("N", "1"), NodeId::new("N", "2"));
        let bins = serde_json::json!({ "n": 1 });
        let writes: [(&str, &dyn Fn() -> crate::Result<bool>); 6] = [
            ("links", &|| links.link(&ann, "likes", &bob)),
            ("links without a reciprocal", &|| {
                links.link(&ann, "sees", &Address::new("things", 1))
            }),
            ("pairs", &|| follows.link(1, 2)),
            ("members", &|| members.put(1, bins! { "n" => 1 })),
            ("children", &|| notes.put(1, 1, &bins).map(|()| true)),
            ("edges", &|| {
                graph.link(&from, "E", &to, &bins).map(|_| true)
            }),
        ];
        for (what, write) in writes {
            assert_eq!(readings(&store, write), 0, "{what}");
        }
    }

    #[test]
    fn declarations_of_one_name_at_one_moment_lose_nothing() {
        let store = Store::in_memory().unwrap();
        let side = |set: &str| DeclaredSide::new("links", (set, "links"), SideForm::List, "");
        let of = |set| RelationDeclaration::new("links", RelationKind::Links, vec![side(set)]);
        let first = of("a");
        first.declare(&store, None, false).unwrap();
        let raced = std::cell::Cell::new(false);
        let both = of("b")
            .revise(&store, |known| {
                if !raced.replace(true) {
                    // A handle of another process, as wire clients are.
                    let both = of("c").over(known, None, false)?;
                    both.store(&store, false)?;
                }
                of("b").over(known, None, false)
            })
            .unwrap();
        assert_eq!(both.sets(), ["", "a", "b", "c"]);
        assert_eq!(declared_relations(&store).unwrap(), [both]);
    }
}
