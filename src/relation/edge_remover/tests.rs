//! What a step meets that the transaction before it has not seen.

use super::*;
use crate::relation::ManyToMany;
use crate::{RecordStore, Store};

#[test]
fn a_step_removes_no_edge_that_has_come_under_restrict() {
    let store = Store::in_memory().unwrap();
    let sides = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", sides.0, sides.1);
    follows.link("ann", "bob").unwrap();
    let guard = store.relation_guard().unwrap().unwrap();
    let digest = guard.namespace().key_hash().digest("users", &"ann".into());
    let mut steps = DeleteSteps::new(Some((Address::new("users", "ann"), digest)));
    let observe: ProgressObserver<'_> = &mut |_| ControlFlow::Continue(());
    let step = Deletion::new(&guard).remove_some(0, &mut steps, observe);
    assert!(matches!(step, Err(Error::HasEdges { .. })), "{step:?}");
    assert!(follows.contains("ann", "bob").unwrap());
}
