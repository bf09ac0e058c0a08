//! An external search index that follows a set through kills: a process writes documents and
//! indexes them, and is killed again and again. At the end the index agrees with the documents.
//!
//! The index is an inverted one, in a file; a service would use a full-text engine. The rule is the
//! same: apply a batch so that applying it twice does no harm, save it, and only then acknowledge.
//!
//! `cargo run --release --example search_index`

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use spikelet::changes::{Change, ChangeBatch, ChangeOptions, Consumer, Start};
use spikelet::{DEFAULT_NAMESPACE, Record, Store, Value};

const KILLS: usize = 8;
const DOCUMENTS: i64 = 200;
const WORDS: [&str; 8] = ["red", "green", "blue", "fast", "slow", "old", "new", "odd"];

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Word to digests of documents, and back.
#[derive(Default, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
struct SearchIndex {
    documents: BTreeMap<String, BTreeSet<String>>,
    words: BTreeMap<String, BTreeSet<String>>,
}

impl SearchIndex {
    fn load(path: &Path) -> Result<Self, Failure> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(_) => Ok(Self::default()),
        }
    }

    fn save(&self, path: &Path) -> Result<(), Failure> {
        let part = path.with_extension("part");
        std::fs::write(&part, serde_json::to_vec(self)?)?;
        Ok(std::fs::rename(part, path)?)
    }

    /// A document has these words from now on; without any it is gone.
    fn set(&mut self, document: String, words: BTreeSet<String>) {
        for word in self.words.remove(&document).unwrap_or_default() {
            if let Some(documents) = self.documents.get_mut(&word) {
                documents.remove(&document);
                if documents.is_empty() {
                    self.documents.remove(&word);
                }
            }
        }
        for word in &words {
            let documents = self.documents.entry(word.clone()).or_default();
            documents.insert(document.clone());
        }
        if !words.is_empty() {
            self.words.insert(document, words);
        }
    }

    /// Indexes the record as it is now, so a repeated older change does no harm.
    fn apply(&mut self, change: &Change) {
        let words = change.record.as_ref().map(words_of).unwrap_or_default();
        self.set(change.digest.to_string(), words);
    }
}

fn words_of(record: &Record) -> BTreeSet<String> {
    let text = record.get("text");
    let text = text.as_ref().and_then(Value::as_str).unwrap_or_default();
    text.split(' ').map(str::to_owned).collect()
}

fn open(dir: &Path) -> Result<(Store, Consumer), Failure> {
    let store = Store::open(dir.join("store"))?;
    let changes = store.namespace(DEFAULT_NAMESPACE)?.changes();
    changes.enable("documents")?;
    let options = ChangeOptions::default().set("documents").records(true);
    let subscription = changes.subscribe("search", Start::Now, options)?;
    Ok((store, subscription.consumer()?))
}

fn index_batch(
    index: &mut SearchIndex,
    consumer: &mut Consumer,
    batch: &ChangeBatch,
    dir: &Path,
) -> Result<(), Failure> {
    batch.iter().for_each(|change| index.apply(change));
    index.save(&dir.join("index.json"))?;
    Ok(consumer.ack(batch)?)
}

fn write_for_ever(store: &Store) -> Result<(), Failure> {
    let documents = store.set("documents")?;
    let mut random = u64::from(std::process::id());
    loop {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = (random >> 33) as i64;
        let key = number % DOCUMENTS;
        if number % 7 == 0 {
            documents.delete(key)?;
            continue;
        }
        let words = WORDS.iter().zip(0..);
        let words = words.filter(|(_, bit)| number >> bit & 1 == 1);
        let text: Vec<&str> = words.map(|(word, _)| *word).collect();
        documents.put(key, [("text", text.join(" "))])?;
    }
}

/// Writes and indexes until it is killed.
fn work(dir: &Path) -> Result<(), Failure> {
    let (store, mut consumer) = open(dir)?;
    let mut index = SearchIndex::load(&dir.join("index.json"))?;
    std::thread::spawn(move || write_for_ever(&store));
    loop {
        let batch = consumer.next_batch(500, Duration::from_secs(10))?;
        index_batch(&mut index, &mut consumer, &batch, dir)?;
        println!("indexed {}", batch.len());
    }
}

fn main() -> Result<(), Failure> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return work(Path::new(&dir));
    }
    let dir = std::env::temp_dir().join(format!("search-index-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(&dir)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().map(BufReader::new);
        let lines = output.into_iter().flat_map(|output| output.lines());
        let batches = lines.take(3 + 5 * kill).count();
        child.kill()?;
        child.wait()?;
        println!("killed after {batches} batches");
    }

    let (store, mut consumer) = open(&dir)?;
    let mut index = SearchIndex::load(&dir.join("index.json"))?;
    store.namespace(DEFAULT_NAMESPACE)?.sync()?;
    loop {
        let batch = consumer.next_batch(500, Duration::ZERO)?;
        if batch.is_empty() {
            break;
        }
        index_batch(&mut index, &mut consumer, &batch, &dir)?;
    }
    let mut expected = SearchIndex::default();
    let scanned = store.set("documents")?.scan(|record| {
        match record.and_then(|record| Ok((record.digest, record.to_record()?))) {
            Ok((digest, record)) => {
                expected.set(digest.to_string(), words_of(&record));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    });
    if let ControlFlow::Break(error) = scanned {
        return Err(error.into());
    }
    assert_eq!(index, expected, "the index is what the documents say");
    let red = index.documents.get("red").map_or(0, BTreeSet::len);
    println!("{} documents, {red} of them red", index.words.len());
    drop(consumer);
    store.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}
