//! The modules of user-defined functions: registered, listed, given back, removed.

use super::{Ask, InfoAnswer};
use crate::base64;
use crate::server::lua;

/// The longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 127;

/// `udf-put:filename=F;content=B64;content-len=N;udf-type=LUA`. Errors have a form of their own: `error=..`.
pub(super) fn put(ask: &mut Ask<'_>) -> InfoAnswer {
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
    let Some(text) = base64::decode(content.as_bytes()) else {
        return refused("invalid_base64_content");
    };
    if let Err((line, message)) = lua::check(file, &text) {
        let message = base64::encode(message.as_bytes());
        return refused(&format!(
            "compile_error;file={file};line={line};message={message}"
        ));
    }
    match ask.shared.functions.modules.put(file, content) {
        Ok(true) => Ok("ok".to_owned()),
        Ok(false) => refused("no room for more modules"),
        Err(error) => refused(&error.to_string()),
    }
}

/// `udf-remove:filename=F`.
#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn remove(ask: &mut Ask<'_>) -> InfoAnswer {
    let Some(file) = file_name(ask) else {
        return Ok("error=invalid_filename".to_owned());
    };
    Ok(match ask.shared.functions.modules.remove(file) {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("error={error}"),
    })
}

/// `udf-get:filename=F`.
#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn get(ask: &mut Ask<'_>) -> InfoAnswer {
    let Some(file) = file_name(ask) else {
        return Ok("error=invalid_filename".to_owned());
    };
    Ok(match ask.shared.functions.modules.get(file) {
        Some(module) => format!("type=LUA;content={};", module.content),
        None => "error=not_found".to_owned(),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn list(ask: &mut Ask<'_>) -> InfoAnswer {
    let all = ask.shared.functions.modules.list();
    let each = |(file, hash): (String, String)| format!("filename={file},hash={hash},type=LUA;");
    Ok(all.into_iter().map(each).collect())
}

fn file_name<'a>(ask: &Ask<'a>) -> Option<&'a str> {
    let file = ask.parameter(&["filename"])?;
    let fits = !file.is_empty() && file.len() <= FILE_NAME_BYTES_MAX && !file.contains('/');
    fits.then_some(file)
}
