//! Estimates of set sizes and similarities from sketches.
//!
//! Counts: O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), the
//! improved raw estimator. Similarity of sketches with min-hash bits: Y. W. Yu and G. M. Weber,
//! "HyperMinHash: MinHash in LogLog space" (2017).

use super::geometry::SketchGeometry;
use super::sketch::{MAX_RANK, Sketch, SketchBuffer};

/// Estimates the number of distinct elements added. O(registers), O(1) if the sketch has a cached
/// count.
///
/// The standard error is about 1.04 / sqrt(registers).
pub(super) fn count(sketch: &Sketch<'_>) -> u64 {
    if let Some(count) = sketch.cached_count() {
        return count;
    }
    let mut with_rank = [0_u32; MAX_RANK as usize + 1];
    for rank in sketch.ranks() {
        if let Some(registers) = with_rank.get_mut(usize::from(rank)) {
            *registers += 1;
        }
    }
    let [unused, used @ ..] = with_rank;
    let registers = sketch.geometry().registers() as f64;
    // The estimator's last term, for the rank beyond the greatest, is left out: no register can
    // hold it.
    let sum = used
        .iter()
        .rev()
        .fold(0.0, |sum, registers| 0.5 * (sum + f64::from(*registers)))
        + registers * sigma(f64::from(unused) / registers);
    (alpha(sketch.geometry()) * registers * registers / sum).round() as u64
}

/// The correction for unused registers.
fn sigma(unused_share: f64) -> f64 {
    if unused_share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (unused_share, 1.0, unused_share);
    loop {
        let before = sum;
        power *= power;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// The bias of the harmonic mean. Aerospike's constants, so that counts agree.
fn alpha(geometry: SketchGeometry) -> f64 {
    match geometry.index_bits() {
        4 => 0.673,
        5 => 0.697,
        6 => 0.709,
        _ => 0.7213 / (1.0 + 1.079 / geometry.registers() as f64),
    }
}

/// Returns the greatest geometry to which all sketches can be folded.
pub(super) fn common_geometry(first: SketchGeometry, sketches: &[Sketch<'_>]) -> SketchGeometry {
    sketches
        .iter()
        .fold(first, |common, sketch| common.common(sketch.geometry()))
}

/// Unites a sketch with others.
pub(super) fn union(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> SketchBuffer {
    let geometry = common_geometry(sketch.geometry(), others);
    SketchBuffer::union(geometry, others.iter().copied().chain([sketch]))
}

/// Estimates the number of distinct elements in any of the sketches.
pub(super) fn union_count(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> u64 {
    count(&union(sketch, others).as_sketch())
}

/// Estimates the number of distinct elements in all of the sketches: by similarity if they share
/// min-hash bits, else by inclusion and exclusion, for two or three sketches.
pub(super) fn intersect_count(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> u64 {
    if common_geometry(sketch.geometry(), others).min_hash_bits() == 0 {
        return by_inclusion(sketch, others);
    }
    // NaN if all sketches are empty; the conversion gives 0.
    (union_count(sketch, others) as f64 * by_min_hash(sketch, others)).round() as u64
}

/// Estimates the share of elements in any sketch that are in all of them, 0 to 1; NaN if all are
/// empty.
pub(super) fn similarity(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> f64 {
    if common_geometry(sketch.geometry(), others).min_hash_bits() == 0 {
        by_inclusion(sketch, others) as f64 / union_count(sketch, others) as f64
    } else {
        by_min_hash(sketch, others)
    }
}

fn by_inclusion(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> u64 {
    let sum = others.iter().fold(count(&sketch), |sum, other| {
        sum.saturating_add(count(other))
    });
    let union = union_count(sketch, others);
    match others {
        [first, second] => [(*first, second), (*second, &sketch), (*first, &sketch)]
            .into_iter()
            .fold(union, |total, (one, other)| {
                total.saturating_add(intersect_count(one, std::slice::from_ref(other)))
            })
            .saturating_sub(sum),
        _ => sum.saturating_sub(union),
    }
}

/// Returns the share of registers on which all sketches agree, among registers used by any of them.
fn by_min_hash(sketch: Sketch<'_>, others: &[Sketch<'_>]) -> f64 {
    let union = union(sketch, others);
    let geometry = union.as_sketch().geometry();
    let used = union
        .as_sketch()
        .registers()
        .filter(|value| *value != 0)
        .count();
    if used == 0 {
        return f64::NAN;
    }
    let folded: Vec<SketchBuffer> = others
        .iter()
        .chain([&sketch])
        .map(|sketch| SketchBuffer::union(geometry, [*sketch]))
        .collect();
    let agree = |at, value| {
        let mut sketches = folded.iter().map(SketchBuffer::as_sketch);
        sketches.all(|sketch| sketch.register(at) == value)
    };
    let agreeing = union
        .as_sketch()
        .registers()
        .enumerate()
        .filter(|(at, value)| *value != 0 && agree(*at, *value))
        .count();
    let by_chance = match others {
        [other] => collisions(geometry, count(other), count(&sketch)),
        _ => 0.0,
    };
    ((agreeing as f64 - by_chance) / used as f64).max(0.0)
}

/// Estimates the number of registers on which two disjoint sets agree by chance.
fn collisions(geometry: SketchGeometry, one: u64, other: u64) -> f64 {
    let registers = geometry.registers() as f64;
    // The chance that a set leaves a register at or below a rank.
    let stays = |elements: u64, beyond: f64| (1.0 - beyond / registers).powf(elements as f64);
    let chance: f64 = (1..=i32::from(MAX_RANK) + 1)
        .map(|rank| {
            let last = rank > i32::from(MAX_RANK);
            let beyond = if last { 0.0 } else { 2_f64.powi(-rank) };
            let from = 2_f64.powi(1 - rank);
            let has = |elements| stays(elements, beyond) - stays(elements, from);
            has(one) * has(other)
        })
        .sum();
    chance * registers / 2_f64.powi(i32::from(geometry.min_hash_bits()))
}
