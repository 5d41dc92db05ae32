//! Rows of all partition keys, a page at a time.

use super::errors::Refusal;
use super::{Shared, parse, shapes};
use crate::wire::{RowsShape, ScanQuery};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use rehome_keyspace::KeyspaceId;
use rehome_router::{ScanAsk, ScanCursor};
use tokio::sync::oneshot;

/// Rows of a page that asks for no number of them.
const PAGE: usize = 1_000;

pub async fn scan(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<ScanQuery>, QueryRejection>,
) -> Result<Json<RowsShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace(&name)?.id;
    let read = |text: &str| {
        read_cursor(text, keyspace).ok_or_else(|| {
            let message = format!("{text:?} is no cursor of a scan of keyspace {name:?} with id {keyspace}");
            Refusal::new("bad_cursor", message).next(format!("rehome scan {name}"))
        })
    };
    let after = query.after.as_deref().map(read).transpose()?;
    let level = parse::level(query.level.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE);
    let ask = ScanAsk { keyspace, level, limit, after, deadline_ms: state.deadline_ms() };
    let (tell, told) = oneshot::channel();
    state.router()?.scan(ask, Box::new(move |result| drop(tell.send(result))));
    let answer = told.await.map_err(|_| Refusal::stopped())?.map_err(Refusal::router)?;
    Ok(Json(RowsShape {
        rows: answer.rows.iter().map(shapes::row).collect(),
        next: answer.next.map(|cursor| cursor_text(&cursor, keyspace)),
        missing: answer.missing.iter().map(|range| format!("{range:?}")).collect(),
    }))
}

/// A cursor names its keyspace: one of the same name that was made later is another.
fn cursor_text(ScanCursor(position): &ScanCursor, keyspace: KeyspaceId) -> String {
    parse::hex(&[&keyspace.0.to_be_bytes()[..], position].concat())
}

fn read_cursor(text: &str, keyspace: KeyspaceId) -> Option<ScanCursor> {
    let bytes = parse::unhex(text)?;
    let position = bytes.strip_prefix(&keyspace.0.to_be_bytes()[..])?;
    Some(ScanCursor(position.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_for_its_own_keyspace_only() {
        let cursor = ScanCursor(vec![1, 2, 0xff]);
        let text = cursor_text(&cursor, KeyspaceId(7));
        assert_eq!(read_cursor(&text, KeyspaceId(7)), Some(cursor));
        assert_eq!(read_cursor(&text, KeyspaceId(8)), None);
        for bad in ["", "00", "0102ff", "zz"] {
            assert_eq!(read_cursor(bad, KeyspaceId(7)), None, "{bad}");
        }
    }
}
