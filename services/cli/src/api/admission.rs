//! How much of requests and answers is held in memory at once, over all connections.
//!
//! A body is held from its first byte until its answer: read, parsed, appended. So the room is taken before the body is
//! read, by the length that the client tells.

use super::BODY_BYTES_MAX;
use super::errors::Refusal;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bytes of all bodies that are being worked on. Reason: each is held up to four times on its way to the log; one import
/// of the largest size fits beside single writes.
const BODIES_BYTES_MAX: usize = 48 << 20;
/// Answers with many rows that are made at once. Reason: each takes some megabytes.
const PAGES_AT_ONCE: usize = 16;
/// How long a page waits for another one to be done.
const PAGE_WAIT_MAX: Duration = Duration::from_secs(1);
/// When a client that was turned away should come back, in milliseconds.
const RETRY_AFTER_MS: u64 = 100;
/// How long a body is read that nobody wants.
const THROW_AWAY_MAX: Duration = Duration::from_secs(10);

/// The room that is left.
#[derive(Clone)]
pub struct Admission {
    /// A permit for each KiB.
    bodies: Arc<Semaphore>,
    pages: Arc<Semaphore>,
}

impl Default for Admission {
    fn default() -> Admission {
        let bodies = Arc::new(Semaphore::new(BODIES_BYTES_MAX >> 10));
        Admission { bodies, pages: Arc::new(Semaphore::new(PAGES_AT_ONCE)) }
    }
}

impl Admission {
    /// Handles the request as soon as there is room for it, else says when to come back.
    pub async fn admit(self, request: Request, next: Next) -> Response {
        if told_bytes(&request).is_some_and(|bytes| bytes > BODY_BYTES_MAX as u64) {
            return refuse_unread(request);
        }
        let room = if is_page(&request) { self.page().await } else { self.body(&request) };
        let Some(_room) = room else {
            throw_away(request.into_body()).await;
            return Refusal::overloaded(RETRY_AFTER_MS).into_response();
        };
        next.run(request).await
    }

    fn body(&self, request: &Request) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(body_bytes(request).min(BODY_BYTES_MAX).div_ceil(1 << 10)).ok()?;
        Arc::clone(&self.bodies).try_acquire_many_owned(kib).ok()
    }

    async fn page(&self) -> Option<OwnedSemaphorePermit> {
        timeout(PAGE_WAIT_MAX, Arc::clone(&self.pages).acquire_owned()).await.ok()?.ok()
    }
}

/// Answers at once, by what the client tells of its body alone. A client that sends it all the same is listened to for a
/// while beside the answer, so that it gets to see it.
fn refuse_unread(request: Request) -> Response {
    // Who asks first does not send.
    if !request.headers().contains_key(header::EXPECT) {
        tokio::spawn(timeout(THROW_AWAY_MAX, throw_away(request.into_body())));
    }
    let message = format!("a body has at most {BODY_BYTES_MAX} bytes; send fewer rows at once");
    Refusal::new("body_too_large", message).next("rehome import --help").into_response()
}

/// Reads the body and keeps nothing of it: a client that still sends when its connection ends never sees the answer.
async fn throw_away(mut body: Body) {
    let mut left = BODY_BYTES_MAX;
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
        if left == 0 {
            return;
        }
    }
}

/// Tells whether the answer may have many rows: a scan, or a list of one partition key.
fn is_page(request: &Request) -> bool {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let is_one_row = || query.split('&').any(|pair| pair.starts_with("sort="));
    request.method() == Method::GET && (path.ends_with("/scan") || (path.ends_with("/rows") && !is_one_row()))
}

/// Returns how long the body is; one that does not say may be as long as any.
fn body_bytes(request: &Request) -> usize {
    match told_bytes(request) {
        Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
        None if request.headers().contains_key(header::TRANSFER_ENCODING) => BODY_BYTES_MAX,
        None => 0,
    }
}

/// Returns how long the client says that the body is, if it does.
fn told_bytes(request: &Request) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(length: usize) -> Request {
        let request = Request::post("/v1/keyspaces/k/rows").header(header::CONTENT_LENGTH, length);
        request.body(Body::empty()).expect("a request")
    }

    #[test]
    fn bodies_are_let_in_up_to_their_bytes_and_again_once_others_are_done() {
        let admission = Admission::default();
        let held: Vec<_> = (0..BODIES_BYTES_MAX >> 20).map(|_| admission.body(&post(1 << 20))).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(admission.body(&post(1)).is_none(), "there is no room for another byte");
        let empty = Request::get("/v1/status").body(Body::empty()).expect("a request");
        assert!(admission.body(&empty).is_some(), "what brings nothing is always let in");
        drop(held);
        assert!(admission.body(&post(usize::MAX)).is_some(), "the largest body is as large as bodies may be");
        let chunked = Request::post("/x").header(header::TRANSFER_ENCODING, "chunked");
        assert_eq!(body_bytes(&chunked.body(Body::empty()).expect("a request")), BODY_BYTES_MAX);
    }

    #[test]
    fn scans_and_lists_are_pages_and_single_rows_are_not() {
        let page = |uri: &str| is_page(&Request::get(uri).body(Body::empty()).expect("a request"));
        assert!(page("/v1/keyspaces/k/scan?limit=5") && page("/v1/keyspaces/k/rows?key=a"));
        assert!(!page("/v1/keyspaces/k/rows?key=a&sort=b") && !page("/v1/status") && !is_page(&post(5)));
    }
}
