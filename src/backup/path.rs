//! Tests whether one path leads into another, across links.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns whether `path` is `outer`, under any of its names, or is inside it.
/// [`save`](super::save) uses it to refuse writing into the store that it reads. `path` need not
/// exist yet: its nearest existing parent directory counts. A path that cannot be resolved is
/// inside nothing.
#[must_use]
pub fn is_within(path: &Path, outer: &Path) -> bool {
    let Ok(outer) = outer.canonicalize() else {
        return false;
    };
    // A hard link is the same file under another path.
    let file = |path: &Path| {
        let found = path.metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    if file(path).is_some_and(|found| Some(found) == file(&outer)) {
        return true;
    }
    let on_the_way = path.ancestors().map(|part| match part {
        part if part.as_os_str().is_empty() => Path::new("."),
        part => part,
    });
    let mut real = on_the_way.filter_map(|part| part.canonicalize().ok());
    real.next().is_some_and(|real| real.starts_with(&outer))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_dots_lead_to_where_they_lead() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("dir/in")).unwrap();
        fs::create_dir(at("dir2")).unwrap();
        fs::write(at("file"), "a").unwrap();
        fs::write(at("other"), "a").unwrap();
        symlink(at("dir/in"), at("way-in")).unwrap();
        symlink(at("file"), at("alias")).unwrap();
        fs::hard_link(at("file"), at("twin")).unwrap();
        let table = [
            ("dir", "dir", true),
            ("dir/new", "dir", true),
            ("dir/new/newer.asb", "dir", true),
            ("way-in/new", "dir", true),
            ("dir2/../dir/new", "dir", true),
            ("dir/../new", "dir", false),
            ("dir2/new", "dir", false),
            ("dir2", "dir", false),
            ("new", "none", false),
            ("file", "file", true),
            ("alias", "file", true),
            ("file", "alias", true),
            ("twin", "file", true),
            ("dir/../file", "file", true),
            ("other", "file", false),
        ];
        for (path, outer, expected) in table {
            assert_eq!(is_within(&at(path), &at(outer)), expected, "{path} {outer}");
        }
        assert!(is_within(Path::new("new"), Path::new(".")));
    }
}
