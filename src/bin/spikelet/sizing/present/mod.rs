//! A sizing as a report: what a person would say of it first, then its sections in their order.
//! `tables` fills tables, `charts` draws histograms.

mod charts;
mod tables;

pub(super) use tables::what_if_table;

use super::bucket;
use super::model::{NamespaceSizing, SetSizing, Sizing, TimeRecommendation};
use super::recommendation::{COPIES, HOLD_MS};
use super::remedy::SizeRemedy;
use super::secondary_index::secondary_indexes_table;
use crate::report::{Report, ReportTable, Section, Verdict, bytes, count, decimal, exact};
use crate::verdict::Word;
use crate::verdict::sizing::rules_table;

/// The most sets with a verdict, charts and tables of their own. The tables of all sets go on.
const SETS_SHOWN: usize = 12;
/// The most rows of the tables over all sets or bins; JSON and CSV have them all.
const ROWS_SHOWN: usize = 60;

impl Sizing {
    /// Builds the report of the sizing.
    pub(crate) fn to_report(&self) -> Report {
        let headline = &self.verdict;
        let rate = self.writes_per_s.map(exact);
        Report::new(format!("Sizing of {}", self.source))
            .lead(
                headline.level.level(),
                headline.level.text(),
                &headline.sentence,
            )
            .fact("Looked at", self.looked_at())
            .fact("A record may have", bytes(self.max_record_bytes))
            .facts(rate.map(|rate| ("Writes a second to the hottest record, as given", rate)))
            .sections([
                self.verdicts(),
                self.sizes(),
                self.distributions(),
                self.bins(),
                self.records(),
                self.advice(),
                self.what_if(),
                self.index(),
                self.rewrites(),
                self.lints(),
                self.rules(),
            ])
    }

    /// Returns a row for each set, as comma-separated values.
    pub(crate) fn to_csv(&self) -> String {
        ReportTable::of("", &self.sets, tables::CSV_COLUMNS).to_csv()
    }

    fn looked_at(&self) -> String {
        let what = match self.source_kind {
            "store" => "a store",
            "cluster" => "a cluster",
            "backup" => "a backup, sized as a store would keep it",
            _ => "JSON lines, sized as a store would keep them",
        };
        let records = format!(
            "{what}; {}",
            records_in_sets(self.records, self.sets.len() as u64)
        );
        self.sample.map_or_else(
            || format!("{records}, every one measured"),
            |sample| {
                format!(
                    "{records}, of which a sample was measured: {} of each set at most, seed {}",
                    count(sample.records as u64),
                    sample.seed
                )
            },
        )
    }

    fn shown(&self) -> &[SetSizing] {
        self.sets.get(..SETS_SHOWN).unwrap_or(&self.sets)
    }

    /// Says how many sets are not shown.
    fn and_more(&self, section: Section, shown: usize) -> Section {
        let more = self.sets.len().saturating_sub(shown);
        let more = (more > 0).then_some(more);
        section.paragraphs(
            more.map(|more| format!("Not shown here, but in the JSON form: sets, {more} more.")),
        )
    }

    fn verdicts(&self) -> Section {
        let keys = tables::records(self, "The keys behind it", &self.verdict.keys);
        let verdict = |set: &SetSizing| {
            let (word, found) = (set.verdict.level, &set.verdict);
            let sentence = format!("{} {}", found.sentence, found.helps);
            Verdict::new(
                word.level(),
                word.text(),
                self.name(set),
                sentence.trim_end(),
            )
        };
        let first = self.sets.first();
        let section = Section::new("Verdict")
            .paragraphs(first.is_none().then_some("There is no record."))
            .table(keys)
            .charts(first.map(|set| charts::histogram(self, set)))
            .verdicts(self.shown().iter().map(verdict));
        self.and_more(section, SETS_SHOWN)
    }

    fn rules(&self) -> Section {
        Section::new("Rules").table(rules_table()).paragraph(
            "SHARD is REMODEL where shards do not help: elements are too large for shards, several bins make the record \
             large, or most of it is no list or map.",
        )
    }

    fn sizes(&self) -> Section {
        let claims = "A sample says nothing about the largest record: the maximum is that of the sample, and more is not claimed.";
        let section = Section::new("Sizes")
            .table(tables::sizes(self))
            .table(tables::shares(self))
            .table(tables::intervals(self))
            .paragraphs(self.sample.map(|_| claims));
        self.and_more(section, ROWS_SHOWN)
    }

    fn distributions(&self) -> Section {
        let section = Section::new("Distribution").paragraph(
            "Each bucket is twice as wide as the one before, and the scale of the numbers is logarithmic, so that single large \
             records show. \"Counted\" is what a record's limit applies to: header, key and bins; \"stored\" is what it takes on \
             the device. The histogram of the first set stands beside the verdict.",
        );
        let others = self.shown().iter().skip(1);
        let section = section.charts(others.map(|set| charts::histogram(self, set)));
        self.and_more(section, SETS_SHOWN)
    }

    fn bins(&self) -> Section {
        let collections = tables::collections(self);
        let bound = if collections.rows.is_empty() {
            "There are no lists or maps."
        } else {
            "A collection may live in one record while its elements take at most 128 KiB (131,072 bytes), at the 99th \
             percentile of all in its bin."
        };
        let section = Section::new("Bins").table(tables::bins(self));
        section.table(collections).paragraph(bound)
    }

    fn records(&self) -> Section {
        let records = |caption, records| tables::records(self, caption, records);
        let written = records("The records written most often", &self.most_written);
        let by_generation = "By generation: the writes since a record was created. After 65,535 it begins again at 1.";
        let by_generation = (!written.rows.is_empty()).then_some(by_generation);
        let sharded = tables::sharded(self);
        let as_one = "A sharded collection is judged as one, by the largest of its shards.";
        let as_one = (!sharded.rows.is_empty()).then_some(as_one);
        Section::new("Records")
            .table(records("The largest records", &self.largest))
            .table(written)
            .paragraphs(by_generation)
            .table(records(
                "The records that writers fought over",
                &self.contended,
            ))
            .table(sharded)
            .paragraphs(as_one)
    }

    fn advice(&self) -> Section {
        let mut section = Section::new("Shard advice")
            .paragraph(
                "For the largest record of each set; where most of that is no list or map, for the largest list or map of the \
                 set, since nothing else is sharded.",
            )
            .table(tables::advice(self));
        for set in self
            .shown()
            .iter()
            .filter(|set| set.advice.remedy != SizeRemedy::Nothing)
        {
            section = section.paragraph(format!("{}: {}", self.name(set), set.advice.sentence));
            if let Some(time) = &set.advice.time {
                section = section.paragraph(format!("{}: {}", self.name(set), time_sentence(time)));
            }
            if let Some(seconds) = set.advice.time_to_live_s_p50 {
                section = section.paragraph(format!(
                    "{}: half of the records that expire live for {} hours or less; a bucket of time should expire that long \
                     after its end.",
                    self.name(set),
                    decimal(seconds as f64 / 3600.0, 1)
                ));
            }
        }
        section
    }

    fn what_if(&self) -> Section {
        let mut section = Section::new("What if").paragraph(format!(
            "What the advice is for each number of shards. Lambda is how many writes fall into one hold of {HOLD_MS} ms on \
             average, P2 the chance that two or more do. Aerospike's index is for {COPIES} copies."
        ));
        let has_rows = |set: &&SetSizing| !set.what_if.is_empty();
        let interesting = |set: &&SetSizing| set.verdict.level != Word::Ok;
        let shown = self.shown().iter().filter(has_rows);
        let mut sets: Vec<&SetSizing> = shown.clone().filter(interesting).collect();
        if sets.is_empty() {
            sets.extend(shown.take(1));
        }
        if sets.is_empty() {
            return section.paragraph("Shards do not help here: see the verdict.");
        }
        for set in sets {
            section = section.table(what_if_table(&self.name(set), &set.what_if));
        }
        section
    }

    fn index(&self) -> Section {
        let section = Section::new("Index memory").table(tables::index(self)).paragraph(
            "A secondary index of Aerospike's takes 14 bytes for each element of the largest lists or maps, and half as much \
             again, since its nodes are not full.",
        );
        let section = match self.source_kind {
            "store" => section.table(tables::namespaces(self)),
            _ => section.paragraph(
                "What spikelet's own index takes is measured where a store is sized; a file or a cluster has none.",
            ),
        };
        let secondary = self.namespaces.iter().map(|namespace| {
            let caption = format!("Secondary indexes of {}", namespace.namespace);
            secondary_indexes_table(&caption, &namespace.secondary_indexes)
        });
        let entries_a_key = "Entries a key is how many entries a query for one value finds in the mean, and selectivity the part of all entries \
             that is: the lower, the more the index narrows. The memory of secondary indexes is beside that of the index of keys.";
        let has_any = |namespace: &NamespaceSizing| !namespace.secondary_indexes.is_empty();
        let entries_a_key = self.namespaces.iter().any(has_any).then_some(entries_a_key);
        let section = secondary.fold(section, Section::table);
        section.paragraphs(entries_a_key)
    }

    fn rewrites(&self) -> Section {
        Section::new("Write amplification")
            .paragraph(
                "Where a change of one element writes the whole record anew, as an Aerospike server does, the factor is the record's \
                 bytes for each byte changed: adding 8 bytes to a record of 26 KiB has a factor of 3,328. spikelet writes the edit \
                 alone in records of 1 KiB and more.",
            )
            .table(tables::rewrites(self))
    }

    fn lints(&self) -> Section {
        let section = Section::new("Lints");
        if self.lints.is_empty() {
            return section.paragraph("Nothing else was noticed.");
        }
        section.table(tables::lints(self))
    }

    /// Returns the name of a set, with its namespace if there are several.
    fn name(&self, set: &SetSizing) -> String {
        self.name_of(&set.namespace, &set.set)
    }

    fn name_of(&self, namespace: &str, set: &str) -> String {
        let set = if set.is_empty() { "(no set)" } else { set };
        let first = self.sets.first().map(|set| &set.namespace);
        if self.sets.iter().all(|set| Some(&set.namespace) == first) {
            set.to_owned()
        } else {
            format!("{namespace}.{set}")
        }
    }
}

/// Writes `1 record in 1 set`, `7 records in 2 sets`.
fn records_in_sets(records: u64, sets: u64) -> String {
    let plural = |number: u64| if number == 1 { "" } else { "s" };
    format!(
        "{} record{} in {sets} set{}",
        count(records),
        plural(records),
        plural(sets)
    )
}

/// Says what buckets of time would come to.
pub(super) fn time_sentence(time: &TimeRecommendation) -> String {
    format!(
        "By time instead, if every write adds an element: {}.",
        bucket::sentence(time)
    )
}
