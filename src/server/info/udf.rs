//! The texts of user-defined functions: kept, listed, given back.

use super::{Answer, Ask};
use crate::base64;

/// The longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 127;

/// `udf-put:filename=F;content=B64;content-len=N;udf-type=LUA`. Errors have a form of their own: `error=..`.
pub(super) fn put(ask: &mut Ask<'_>) -> Answer {
    let refused = |why: &str| Ok(format!("error={why}"));
    let Some(file) = file_name(ask) else {
        return refused("invalid_filename");
    };
    if ask
        .parameter(&["udf-type"])
        .is_some_and(|kind| !kind.eq_ignore_ascii_case("lua"))
    {
        return refused("invalid_udf_type");
    }
    let content = ask.parameter(&["content"]).unwrap_or_default();
    if content.is_empty() {
        return refused("invalid_content");
    }
    if base64::decode(content.as_bytes()).is_none() {
        return refused("invalid_base64_content");
    }
    if !ask.shared.modules.put(file, content) {
        return refused("no room for more modules");
    }
    Ok("ok".to_owned())
}

/// `udf-remove:filename=F`.
#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn remove(ask: &mut Ask<'_>) -> Answer {
    let Some(file) = file_name(ask) else {
        return Ok("error=invalid_filename".to_owned());
    };
    ask.shared.modules.remove(file);
    Ok("ok".to_owned())
}

/// `udf-get:filename=F`.
#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn get(ask: &mut Ask<'_>) -> Answer {
    let Some(file) = file_name(ask) else {
        return Ok("error=invalid_filename".to_owned());
    };
    Ok(match ask.shared.modules.get(file) {
        Some(module) => format!("type=LUA;content={};", module.content),
        None => "error=not_found".to_owned(),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn list(ask: &mut Ask<'_>) -> Answer {
    let all = ask.shared.modules.list();
    let each = |(file, hash): (String, String)| format!("filename={file},hash={hash},type=LUA;");
    Ok(all.into_iter().map(each).collect())
}

fn file_name<'a>(ask: &Ask<'a>) -> Option<&'a str> {
    let file = ask.parameter(&["filename"])?;
    let fits = !file.is_empty() && file.len() <= FILE_NAME_BYTES_MAX && !file.contains('/');
    fits.then_some(file)
}
