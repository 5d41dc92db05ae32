//! Memory: mimalloc for what is written in Rust, the C library's allocator for RocksDB and librdkafka.

/// Records are many small pieces, made by one thread and dropped by another: the system's allocator took a sixth of the
/// processor time of a load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Free bytes at the end of the heap above which the C library gives them back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_FREE_BYTES: libc::c_int = 8 << 20;

/// Lets the C library give freed memory back. To be called before there is a second thread.
///
/// By itself, glibc learns from the first large block that is freed to take later ones of that size from heaps, and to
/// keep twice as much: after two million rows RocksDB's write buffers had left 70 to 100 MiB behind. A threshold that is
/// set switches that off (mallopt(3), `M_TRIM_THRESHOLD`).
#[allow(unsafe_code)]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call takes two numbers and changes a setting of the allocator, under its own lock. It may fail, which
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    }
}
