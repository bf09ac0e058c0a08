//! The floor of single gets: the two loads that depend on each other, and nothing else. The line of
//! an index leads to the record, in a mapped file; there are as many records and bytes as spikelet
//! holds. No lock, no epoch, no checksum, no parsing: a key's own bytes are its hash.

use super::{KEY_BYTES, Key, Metered, PeerStore, VALUE_BYTES, Value};
use crate::Result;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// Bytes of spikelet's log for a record of the record phases.
const ENTRY_BYTES: usize = 192;
/// Bytes of spikelet's index for a record, at 2,000,000 records.
const INDEX_BYTES: usize = 24;
/// Slots of 8 bytes in a line of the index: one line of the processor's cache.
const LINE_SLOTS: usize = 8;
/// A slot is 24 bits of the key above 40 bits: the number of the record, from 1.
const NUMBER_BITS: u32 = 40;

#[derive(Clone, Default)]
#[repr(align(64))]
struct Line([u64; LINE_SLOTS]);
const _: () = assert!(size_of::<Line>() == 64);

/// The state until the first sync.
struct Loading {
    file: BufWriter<File>,
    keys: Vec<Key>,
}

/// The state after the first sync.
struct Loaded {
    index: Vec<Line>,
    records: Mmap,
}

pub struct Floor {
    path: PathBuf,
    loading: Mutex<Loading>,
    loaded: OnceLock<Loaded>,
}

impl Floor {
    pub fn create(dir: &Path) -> Result<Self> {
        let path = dir.join("records");
        let loading = Loading {
            file: BufWriter::new(File::create(&path)?),
            keys: Vec::new(),
        };
        Ok(Self {
            path,
            loading: Mutex::new(loading),
            loaded: OnceLock::new(),
        })
    }
}

fn line_and_tag(key: &Key, lines: usize) -> Option<(usize, u64)> {
    let (line, rest) = key.split_first_chunk()?;
    let line = (u128::from(u64::from_le_bytes(*line)) * lines as u128) >> 64;
    let tag = u64::from_le_bytes(*rest.first_chunk()?) >> NUMBER_BITS;
    Some((line as usize, tag))
}

impl Loaded {
    fn new(path: &Path, keys: &[Key]) -> Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the directory was made for this run alone, and the file is not written after
        // this.
        let records = unsafe { MmapOptions::new().populate().map(&file)? };
        let lines = (keys.len() * INDEX_BYTES).div_ceil(size_of::<Line>()) + 1;
        let mut index = vec![Line::default(); lines];
        for (number, key) in (1..).zip(keys) {
            let (mut line, tag) = line_and_tag(key, lines).ok_or("a key too short")?;
            let free = loop {
                let slots = index.get_mut(line).ok_or("a line outside the index")?;
                if let Some(free) = slots.0.iter_mut().find(|slot| **slot == 0) {
                    break free;
                }
                line = (line + 1) % lines;
            };
            *free = tag << NUMBER_BITS | number;
        }
        Ok(Self { index, records })
    }

    fn find(&self, key: &Key) -> Option<&[u8]> {
        let (mut line, tag) = line_and_tag(key, self.index.len())?;
        loop {
            for slot in self.index.get(line)?.0 {
                if slot == 0 {
                    return None;
                }
                if slot >> NUMBER_BITS == tag {
                    let number = (slot & ((1 << NUMBER_BITS) - 1)) as usize;
                    let entry = self.records.get((number - 1) * ENTRY_BYTES..)?;
                    if entry.starts_with(key) {
                        return entry.get(KEY_BYTES..KEY_BYTES + VALUE_BYTES);
                    }
                }
            }
            line = (line + 1) % self.index.len();
        }
    }
}

impl Metered for Floor {
    /// Ends the load: from here on, there are reads alone.
    fn sync(&self) -> Result<()> {
        let mut loading = self.loading.lock().map_err(|_| "a load has panicked")?;
        if self.loaded.get().is_none() && !loading.keys.is_empty() {
            loading.file.flush()?;
            let keys = std::mem::take(&mut loading.keys);
            let loaded = Loaded::new(&self.path, &keys)?;
            self.loaded
                .set(loaded)
                .map_err(|_| "synced twice at once")?;
        }
        Ok(())
    }
}

impl PeerStore for Floor {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let mut loading = self.loading.lock().map_err(|_| "a load has panicked")?;
        for (key, value) in batch {
            let rest = [0; ENTRY_BYTES - KEY_BYTES - VALUE_BYTES];
            for part in [key.as_slice(), value, &rest] {
                loading.file.write_all(part)?;
            }
            loading.keys.push(*key);
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let loaded = self.loaded.get().ok_or("the floor is not synced yet")?;
        Ok(loaded.find(key).map(<[u8]>::to_vec))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let loaded = self.loaded.get().ok_or("the floor is not synced yet")?;
        Ok(loaded.find(key).map(read).is_some())
    }

    fn put(&self, _: &Key, _: &[u8]) -> Result<()> {
        Err("the floor takes loads alone".into())
    }

    fn add_unique(&self, _: &Key, _: i64) -> Result<bool> {
        Err("the floor takes loads alone".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{is_value_of, record_key};
    use crate::records;
    use crate::stores::spikelet::Spikelet;
    use spikelet::Durability;

    #[test]
    fn every_record_is_found_after_the_sync_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let floor = Floor::create(dir.path()).unwrap();
        records::load(&floor, 20_000, 2).unwrap();
        assert!(floor.get(&record_key(0)).is_err());
        floor.sync().unwrap();
        floor.sync().unwrap();
        for index in 0..20_000 {
            let value = floor.get(&record_key(index)).unwrap().unwrap();
            assert!(is_value_of(index, &value), "{index}");
        }
        for index in 20_000..40_000 {
            assert_eq!(floor.get(&record_key(index)).unwrap(), None, "{index}");
        }
    }

    #[test]
    fn keys_that_share_line_and_tag_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let floor = Floor::create(dir.path()).unwrap();
        let key = |last| {
            let mut key = [0; KEY_BYTES];
            key[KEY_BYTES - 1] = last;
            key
        };
        let batch: Vec<_> = (0..20)
            .map(|last| (key(last), [last; VALUE_BYTES]))
            .collect();
        floor.load(&batch).unwrap();
        floor.sync().unwrap();
        for last in 0..20 {
            let value = floor.get(&key(last)).unwrap().unwrap();
            assert_eq!(value, [last; VALUE_BYTES]);
        }
        assert_eq!(floor.get(&key(20)).unwrap(), None);
    }

    #[test]
    fn a_record_takes_about_as_many_bytes_as_in_spikelet() {
        const RECORDS: u64 = 20_000;
        let dir = tempfile::tempdir().unwrap();
        let store = Spikelet::open(dir.path(), Durability::Process).unwrap();
        records::load(&store, RECORDS, 1).unwrap();
        let entry = store.log_bytes().unwrap().appended as f64 / RECORDS as f64;
        assert!((entry / ENTRY_BYTES as f64 - 1.0).abs() < 0.25, "{entry}");
    }
}
