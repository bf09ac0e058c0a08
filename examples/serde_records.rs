//! Structs as records: their fields are the bins.
//!
//! `cargo run --example serde_records`

use serde::{Deserialize, Serialize};
use spikelet::Store;
use spikelet::operations::add;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Article {
    title: String,
    tags: Vec<String>,
    likes: u64,
    draft: Option<bool>,
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let articles = store.set("articles")?;
    let article = Article {
        title: "Logs".into(),
        tags: vec!["storage".into(), "rust".into()],
        likes: 0,
        draft: None,
    };
    articles.put_as(1, &article)?;

    // A field can be changed in place like any other bin.
    articles.operate(1, &[add("likes", 2)])?;
    let stored: Option<Article> = articles.get_as(1)?;
    println!("{stored:?}");
    assert_eq!(
        stored,
        Some(Article {
            likes: 2,
            ..article
        })
    );
    store.close()
}
