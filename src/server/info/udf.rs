//! The modules of user-defined functions: registered, listed, given back, removed.

use super::{Ask, InfoAnswer, InfoError};
use crate::base64;
use crate::server::lua;

/// The longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 127;

/// `udf-put:filename=F;content=B64;content-len=N;udf-type=LUA`. Errors have a form of their own:
/// `error=..`.
pub(super) fn put(ask: &mut Ask<'_>) -> InfoAnswer {
    let file = file_name(ask)?;
    if ask
        .parameter(&["udf-type"])
        .is_some_and(|kind| !kind.eq_ignore_ascii_case("lua"))
    {
        return Err(refused("invalid_udf_type"));
    }
    let content = ask.parameter(&["content"]).unwrap_or_default();
    if content.is_empty() {
        return Err(refused("invalid_content"));
    }
    let text = base64::decode(content.as_bytes());
    let text = text.ok_or_else(|| refused("invalid_base64_content"))?;
    lua::check(file, &text).map_err(|(line, message)| {
        let message = base64::encode(message.as_bytes());
        refused(format!(
            "compile_error;file={file};line={line};message={message}"
        ))
    })?;
    match ask.shared.functions.modules.put(file, content) {
        Ok(true) => Ok("ok".to_owned()),
        Ok(false) => Err(refused("no room for more modules")),
        Err(error) => Err(refused(error)),
    }
}

/// `udf-remove:filename=F`.
pub(super) fn remove(ask: &mut Ask<'_>) -> InfoAnswer {
    let removed = ask.shared.functions.modules.remove(file_name(ask)?);
    removed.map(|()| "ok".to_owned()).map_err(refused)
}

/// `udf-get:filename=F`.
pub(super) fn get(ask: &mut Ask<'_>) -> InfoAnswer {
    let module = ask.shared.functions.modules.get(file_name(ask)?);
    let module = module.ok_or_else(|| refused("not_found"))?;
    Ok(format!("type=LUA;content={};", module.content))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn list(ask: &mut Ask<'_>) -> InfoAnswer {
    let all = ask.shared.functions.modules.list();
    let each = |(file, hash): (String, String)| format!("filename={file},hash={hash},type=LUA;");
    Ok(all.into_iter().map(each).collect())
}

fn refused(why: impl std::fmt::Display) -> InfoError {
    InfoError(format!("error={why}"))
}

fn file_name<'a>(ask: &Ask<'a>) -> Result<&'a str, InfoError> {
    let fits =
        |file: &&str| !file.is_empty() && file.len() <= FILE_NAME_BYTES_MAX && !file.contains('/');
    let file = ask.parameter(&["filename"]).filter(fits);
    file.ok_or_else(|| refused("invalid_filename"))
}
