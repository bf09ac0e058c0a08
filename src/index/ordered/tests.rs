use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn bound(kind: u8, bytes: Vec<u8>) -> Bound<Box<[u8]>> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(bytes.into()),
        _ => Bound::Excluded(bytes.into()),
    }
}

/// Long enough that a leaf holds only a few.
fn entry(seed: &[u8]) -> Vec<u8> {
    [seed, &[7; 300]].concat()
}

#[test]
fn a_group_stays_in_one_leaf_unless_it_fills_several() {
    let entries = OrderedEntries::in_groups(|_| 302);
    // 40 groups of 5 entries, which come in any order, and a group of 6,000.
    for number in (0..200_u8).map(|number| number.wrapping_mul(77) % 200) {
        let entry = [&[1, number / 5], &[7; 300][..], &[number]].concat();
        entries.insert(&entry);
    }
    for number in 0..6_000_u16 {
        let entry = [&[2, 0], &[7; 300][..], &number.to_be_bytes()].concat();
        assert!(entries.insert(&entry));
    }
    let (mut leaves_of, mut leaves) = ([0_usize; 41], 0);
    entries.visit(
        &EntryRange::with_prefix(&[]),
        false,
        |leaf, first, behind| {
            leaves += 1;
            let groups: BTreeSet<usize> = (first..behind)
                .map(|at| {
                    let mut entry = Vec::new();
                    leaf.write(at, &mut entry);
                    if entry[0] == 2 {
                        40
                    } else {
                        usize::from(entry[1])
                    }
                })
                .collect();
            groups.into_iter().for_each(|group| leaves_of[group] += 1);
            true
        },
    );
    let (small, large) = leaves_of.split_at(40);
    assert_eq!(small, [1; 40]);
    assert!(
        large[0] > 1 && leaves > 10,
        "{leaves_of:?} in {leaves} leaves"
    );
}

#[test]
fn a_long_common_prefix_ends_at_an_entry_of_another_one() {
    for in_groups in [false, true] {
        for other in [4, 6] {
            let of_group: GroupLen = if in_groups { |_| 1 } else { <[u8]>::len };
            let entries = OrderedEntries::in_groups(of_group);
            let numbered = |number: u8| [&[5; 1_500][..], &[number; 4]].concat();
            let mut model: BTreeSet<Vec<u8>> = (0..120).map(numbered).collect();
            for entry in &model {
                assert!(entries.insert(entry));
            }
            for number in [0, 1] {
                let entry = vec![other, number];
                assert!(entries.insert(&entry) && !entries.insert(&entry));
                model.insert(entry);
            }
            // Small leaves are joined with their neighbours, of another prefix.
            for gone in 0..60 {
                assert!(entries.remove(&numbered(gone)) && model.remove(&numbered(gone)));
            }
            let mut found = EntryList::default();
            entries.copy(&EntryRange::with_prefix(&[]), false, 200, &mut found);
            assert!(found.iter().eq(model.iter().map(Vec::as_slice)));
            assert_eq!(entries.len(), model.len() as u64);
        }
    }
}

proptest! {
    #[test]
    fn leaves_are_one_order(
        edits in prop::collection::vec((0_u8..4, prop::collection::vec(0_u8..6, 0..4)), 0..400),
        ranges in prop::collection::vec(
            (0_u8..3, prop::collection::vec(0_u8..6, 0..3), 0_u8..3, prop::collection::vec(0_u8..6, 0..3)), 8),
        most in 0_usize..40,
    ) {
        let (entries, mut model) = (OrderedEntries::new(), BTreeSet::new());
        for (kind, seed) in edits {
            let entry = entry(&seed);
            if kind > 0 {
                prop_assert_eq!(entries.insert(&entry), model.insert(entry));
            } else {
                prop_assert_eq!(entries.remove(&entry), model.remove(&entry));
            }
        }
        prop_assert_eq!(entries.len(), model.len() as u64);
        for (start_kind, start, end_kind, end) in ranges {
            let range = EntryRange { start: bound(start_kind, start), end: bound(end_kind, end) };
            let wanted: Vec<&Vec<u8>> = model.iter().filter(|entry| range.contains(entry)).collect();
            prop_assert_eq!(entries.count(&range), wanted.len() as u64);
            let mut found = EntryList::default();
            entries.copy(&range, false, most, &mut found);
            prop_assert!(found.iter().eq(wanted.iter().take(most).map(|entry| entry.as_slice())));
            found.clear();
            entries.copy(&range, true, most, &mut found);
            prop_assert!(found.iter().eq(wanted.iter().rev().take(most).map(|entry| entry.as_slice())));
        }
        for entry in &model {
            prop_assert!(entries.remove(entry));
        }
        prop_assert_eq!(entries.len(), 0);
        prop_assert!(entries.leaves.read().len() <= 2);
    }

    #[test]
    fn different_keys_are_counted_where_all_leaves_are_read_and_estimated_elsewhere(
        pairs in prop::collection::btree_set((0_u8..9, 0_u8..40), 0..120),
    ) {
        let entries = OrderedEntries::new();
        for (key, number) in &pairs {
            prop_assert!(entries.insert(&[&[*key][..], &[*number], &[7; 300]].concat()));
        }
        let keys: BTreeSet<u8> = pairs.iter().map(|(key, _)| *key).collect();
        prop_assert_eq!(entries.distinct_keys(|entry| entry.len() - 301), keys.len() as u64);
        let estimate = entries.distinct_keys_in(3, |entry| entry.len() - 301);
        prop_assert!(estimate <= pairs.len() as u64 && (estimate > 0) != pairs.is_empty());
    }
}
