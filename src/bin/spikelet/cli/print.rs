//! Standard output, notes and progress; the page that a command writes beside its output, and the
//! directories that it writes to: seen to before the work begins, so that no work is in vain.
//! [`crate::report`] makes text and pages.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use console::Term;
use indicatif::{
    BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle,
};
use serde::Serialize;
use spikelet::backup::is_within;

use crate::failure::{CommandFailure, Result};
use crate::report::{Report, TEXT_COLUMNS, Terminal, to_json};

/// Writes to standard output. A reader that has seen enough and left is no failure: the exit code
/// still reports the finding.
pub(crate) fn emit(text: &str) -> Result<()> {
    emit_while_read(text).map(drop)
}

/// Writes to standard output. Returns false if its reader has seen enough and left.
pub(crate) fn emit_while_read(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandFailure::Output(error)),
    }
}

/// Text is not made for narrower terminals.
const COLUMNS_MIN: usize = 60;

/// Returns the text of a report: as wide as the terminal, from 60 columns to `columns_max`, and
/// with colours unless `NO_COLOR` is set; without colours where standard output is no terminal.
pub(crate) fn shown(report: &Report, columns_max: usize) -> String {
    if !io::stdout().is_terminal() {
        return report.to_text();
    }
    let mut shown = Terminal::default();
    let size = Term::stdout().size_checked();
    let width = size.map_or(shown.columns, |(_, columns)| columns.into());
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    shown.columns = width.clamp(COLUMNS_MIN, columns_max);
    shown.has_colours = !is_set("NO_COLOR") && std::env::var_os("TERM") != Some("dumb".into());
    report.to_text_for(shown)
}

/// Returns a text that replaces what the terminal shows, cut to its height. `status` is its last
/// line.
pub(crate) fn screen(text: &str, status: &str) -> String {
    let (rows, columns) = Term::stdout().size();
    let lines = text.lines().take(usize::from(rows).saturating_sub(2));
    let lines: String = lines.map(|line| format!("{line}\x1b[K\n")).collect();
    let status: String = status.chars().take(columns.into()).collect();
    // From the top left corner, each line to its end, and the rest of the screen.
    format!("\x1b[H{lines}{status}\x1b[K\x1b[J")
}

/// The version of the objects that [`emit_found`] prints: it grows when a field changes its meaning
/// or goes.
const SCHEMA_VERSION: u32 = 2;

/// Writes the result of a command to standard output: the object, indented, with the version of
/// its form, if it is asked for, or else the report as text.
pub(crate) fn emit_found(
    json: bool,
    kind: &str,
    object: &impl Serialize,
    report: impl FnOnce() -> Report,
) -> Result<()> {
    emit_form(json, (SCHEMA_VERSION, kind), object, report)
}

/// Writes a result in one of its forms: as for [`emit_found`], with a version of its own.
pub(crate) fn emit_form(
    json: bool,
    (version, kind): (u32, &str),
    object: &impl Serialize,
    report: impl FnOnce() -> Report,
) -> Result<()> {
    if !json {
        return emit(&shown(&report(), TEXT_COLUMNS));
    }
    let text = to_json(version, kind, object);
    emit(&text.map_err(|error| CommandFailure::Output(error.into()))?)
}

/// Writes a note that is not part of the result to standard error.
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// Before this time a progress bar shows no rate.
const RATE_FROM: Duration = Duration::from_millis(500);

/// What a progress bar counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgressUnit {
    /// Things of this name, in the plural: records, edges.
    Count(&'static str),
    /// Bytes, shown as KiB, MiB, GiB.
    Bytes,
    /// Rows of a measurement, which take much longer than records.
    Rows,
}

impl ProgressUnit {
    /// Returns the parts of a bar behind its picture: progress, rate and remaining time.
    fn template(self) -> String {
        let parts = match self {
            Self::Count(noun) => format!("{{human_pos}} of {{human_len}} {noun}, {{rate}}/s"),
            Self::Bytes => "{binary_bytes} of {binary_total_bytes}, {rate}/s".to_owned(),
            Self::Rows => "{pos} of {len} rows, {elapsed} so far".to_owned(),
        };
        format!("{{msg}} [{{wide_bar}}] {parts}, {{left}} left")
    }
}

/// Returns a progress bar on standard error, with progress, rate and remaining time.
/// It draws nothing unless that is a terminal.
pub(crate) fn progress(what: &'static str, total: u64, unit: ProgressUnit) -> ProgressBar {
    // The rate since the start: a first rate would be that of a few microseconds.
    let per_s = |state: &ProgressState| {
        let is_known = state.pos() > 0 && state.elapsed() >= RATE_FROM;
        is_known.then(|| state.pos() as f64 / state.elapsed().as_secs_f64())
    };
    let rate = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = match (per_s(state).map(|rate| rate.round() as u64), unit) {
            (None, _) => out.write_str("?"),
            (Some(rate), ProgressUnit::Bytes) => write!(out, "{}", BinaryBytes(rate)),
            (Some(rate), _) => write!(out, "{}", HumanCount(rate)),
        };
    };
    let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let rest = state.len().unwrap_or(0).saturating_sub(state.pos());
        let time = |rate: f64| Duration::try_from_secs_f64(rest as f64 / rate).ok();
        let _ = match per_s(state).and_then(time) {
            Some(time) => write!(out, "{:#}", HumanDuration(time)),
            None => out.write_str("?"),
        };
    };
    let style = ProgressStyle::with_template(&unit.template());
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("rate", rate).with_key("left", left);
    let bar = ProgressBar::new(total).with_message(what);
    bar.with_style(style.progress_chars("=> "))
}

/// Shows the progress of some work, which says how much of what it has done; of 0 nothing is known.
pub(crate) fn with_progress<R>(
    what: &'static str,
    unit: ProgressUnit,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> R,
) -> R {
    let bar = progress(what, 0, unit);
    let result = work(&mut |done, total| {
        if total > 0 {
            bar.set_length(total);
            bar.set_position(done);
        }
    });
    bar.finish_and_clear();
    result
}

/// Checks that a page can be written to this place. Files that exist stay as they are, and no new
/// one is left.
///
/// # Errors
/// A place where the page would replace an input of the command, or a file inside a directory among
/// them; one that cannot be written.
pub(crate) fn check_page(page: &Path, inputs: &[&Path]) -> Result<()> {
    if let Some(input) = inputs.iter().find(|input| is_within(page, input)) {
        return Err(CommandFailure::Input(format!(
            "--html {}: this is, or is inside, {}, which is read: name another place",
            page.display(),
            input.display()
        )));
    }
    // `open` also makes the missing target of a link.
    let is_new = !page.exists();
    let mut opened = File::options()
        .append(true)
        .create(true)
        .open(page)
        .map(drop);
    if is_new && opened.is_ok() {
        opened = page.canonicalize().and_then(std::fs::remove_file);
    }
    opened.map_err(|error| unwritable(page, &error))
}

/// Writes the page of a report.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write_page(page: &Path, report: &Report) -> Result<()> {
    std::fs::write(page, report.to_html()).map_err(|error| unwritable(page, &error))
}

/// Returns the failure of a file or directory that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::Output(io::Error::new(
        error.kind(),
        format!("{}: {error}", path.display()),
    ))
}

/// Makes the directory, and sees that a file can be written there.
pub(crate) fn writable(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| {
            let probe = dir.join(".spikelet");
            File::create(&probe)?;
            std::fs::remove_file(&probe)
        })
        .map_err(|error| unwritable(dir, &error))
}

/// Makes the directory of `--dir`, for stores, unless something is in it.
///
/// # Errors
/// Something is in it, or it cannot be made.
pub(crate) fn empty(dir: &Path) -> Result<()> {
    let read = std::fs::create_dir_all(dir).and_then(|()| std::fs::read_dir(dir));
    if read
        .map_err(|error| unwritable(dir, &error))?
        .next()
        .is_some()
    {
        return Err(CommandFailure::Input(format!(
            "--dir {}: something is in it; name a new directory",
            dir.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};
    use parking_lot::Mutex;

    use super::*;

    /// A terminal that keeps all that is written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            60
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.0.lock().push_str(text);
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Shows a bar at its first tick, soon after its first progress, and two seconds later.
    fn shown(unit: ProgressUnit, done: u64) -> [String; 3] {
        let screen = Screen::default();
        let bar = progress("loading", 289_003, unit);
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        bar.tick();
        let begun = screen.0.lock().clone();
        bar.set_position(done);
        bar.tick();
        let early = screen.0.lock().clone();
        let bar = bar.with_elapsed(Duration::from_secs(2));
        bar.tick();
        let later = screen.0.lock().clone();
        [begun, early, later]
    }

    #[test]
    fn progress_is_told_in_units_that_people_read() {
        for (unit, done, expected) in [
            (
                ProgressUnit::Count("edges"),
                120_000,
                "120,000 of 289,003 edges, 60,000/s, ",
            ),
            (
                ProgressUnit::Bytes,
                131_072,
                "128.00 KiB of 282.23 KiB, 64.00 KiB/s, ",
            ),
            (ProgressUnit::Rows, 3, "3 of 289003 rows, 2s so far, "),
        ] {
            let [_, _, later] = shown(unit, done);
            assert!(later.contains(expected), "{later}");
            assert!(later.contains(" left") && !later.contains('?'), "{later}");
            assert!(later.trim_end().chars().count() <= 70, "{later}");
        }
    }

    #[test]
    fn the_first_lines_have_no_rate_of_a_few_microseconds() {
        for unit in [
            ProgressUnit::Count("edges"),
            ProgressUnit::Bytes,
            ProgressUnit::Rows,
        ] {
            let [begun, early, later] = shown(unit, 131_072);
            for line in [&begun, &early] {
                assert!(line.contains("? left"), "{line}");
                assert_eq!(line.contains("?/s"), later.contains("/s"), "{line}");
            }
        }
    }

    #[test]
    fn a_place_that_is_checked_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (new, there) = (dir.path().join("new"), dir.path().join("there"));
        std::fs::write(&there, "earlier").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&new, &link).unwrap();
        for page in [&new, &link, &there, Path::new("/dev/null")] {
            check_page(page, &[]).unwrap();
        }
        assert!(!new.exists() && link.is_symlink());
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "earlier");
        for (page, input) in [
            (dir.path(), "/"),
            (&*there, "/no"),
            (&*there.join("a"), "/no"),
        ] {
            let is_refused = check_page(page, &[Path::new(input)]).is_err();
            assert_eq!(is_refused, page != there, "{page:?}");
        }
        write_page(&there, &Report::new("later")).unwrap();
        write_page(Path::new("/dev/null"), &Report::new("later")).unwrap();
        assert!(
            std::fs::read_to_string(&there)
                .unwrap()
                .ends_with("</html>\n")
        );
    }
}
