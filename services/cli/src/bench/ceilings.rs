//! What disk and RocksDB give by themselves, in the same run: the ceilings of everything else.

use super::figures::Figures;
use super::rows::{KEY_BYTES, VALUE_BYTES};
use anyhow::Context;
use hdrhistogram::Histogram;
use rocksdb::{
    BlockBasedOptions, DB, DBCompressionType, IngestExternalFileOptions, IteratorMode, Options, SstFileWriter,
    WriteBatch, WriteOptions,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a block that is written over and synced, and of the file that holds them.
const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: u64 = 16 << 20;
const SYNCS: u64 = 500;
const COMMITS_FOR: Duration = Duration::from_secs(3);
const ROWS_MAX: u64 = 1_000_000;
const BATCH: u64 = 1_000;
/// A prime above the number of batches, so no divisor of the rows: visits each row once, in a scattered order.
const STRIDE: u64 = 7_919;
const STACK_BYTES: usize = 128 << 10;

const _: () = assert!(STRIDE > ROWS_MAX / BATCH, "a divisor of the rows would leave some out");

/// Measures in the folder, which is made and removed, with as many rows, up to a million.
pub fn measure(dir: &Path, rows: u64, concurrency: u32, figures: &mut Figures) -> anyhow::Result<()> {
    let rows = (rows / BATCH * BATCH).clamp(BATCH, ROWS_MAX);
    std::fs::create_dir_all(dir)?;
    syncs(dir, figures).context("cannot sync blocks")?;
    synced_commits(dir, concurrency, figures).context("cannot commit to RocksDB")?;
    unlogged(dir, rows, figures).context("cannot write to RocksDB")?;
    ingest(dir, rows, figures).context("cannot ingest into RocksDB")?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

/// Writes blocks of a file over, each followed by fdatasync, as a log does whose files are made ahead.
fn syncs(dir: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    let path = dir.join("blocks");
    let file = File::create(&path)?;
    let block = [7u8; BLOCK_BYTES];
    for at in (0..FILE_BYTES).step_by(BLOCK_BYTES) {
        file.write_all_at(&block, at)?;
    }
    file.sync_all()?;
    let mut times = Histogram::<u64>::new(3)?;
    for number in 0..SYNCS {
        let began = Instant::now();
        file.write_all_at(&block, number * BLOCK_BYTES as u64 % FILE_BYTES)?;
        file.sync_data()?;
        times.record(began.elapsed().as_micros() as u64)?;
    }
    figures.latency("fdatasync", &times);
    Ok(())
}

/// Closed-loop writers of one record each, logged and synced: RocksDB gathers them into groups.
fn synced_commits(dir: &Path, writers: u32, figures: &mut Figures) -> anyhow::Result<()> {
    let mut options = options();
    options.set_recycle_log_file_num(2);
    let db = DB::open(&options, dir.join("synced"))?;
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = |writer: u32| {
            let (db, stop, written) = (&db, &stop, &written);
            move || {
                let mut synced = WriteOptions::default();
                synced.set_sync(true);
                let mut number = u64::from(writer) << 32;
                while !stop.load(Ordering::Relaxed) {
                    db.put_opt(key(number), [b'v'; VALUE_BYTES], &synced)?;
                    written.fetch_add(1, Ordering::Relaxed);
                    number += 1;
                }
                Ok::<(), rocksdb::Error>(())
            }
        };
        let threads = (0..writers)
            .map(|writer| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work(writer)));
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        crate::workload::run_for(COMMITS_FOR);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a writer does not panic")?;
        }
        anyhow::Ok(())
    })?;
    figures.rate("rocksdb_synced_commits_per_sec", written.into_inner(), began.elapsed());
    Ok(())
}

/// Batches without a log, in a scattered order, then one scan of everything.
fn unlogged(dir: &Path, rows: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let db = DB::open(&options(), dir.join("unlogged"))?;
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let began = Instant::now();
    for first in (0..rows).step_by(BATCH as usize) {
        let mut batch = WriteBatch::default();
        (first..first + BATCH).for_each(|number| batch.put(key(number * STRIDE % rows), [b'v'; VALUE_BYTES]));
        db.write_opt(batch, &unlogged)?;
    }
    figures.rate("rocksdb_unlogged_batch_writes_per_sec", rows, began.elapsed());
    db.flush()?;
    let began = Instant::now();
    let mut scanned = 0;
    for row in db.iterator(IteratorMode::Start) {
        row?;
        scanned += 1;
    }
    anyhow::ensure!(scanned == rows, "{scanned} rows were scanned, not {rows}");
    figures.rate("rocksdb_scan_rows_per_sec", scanned, began.elapsed());
    Ok(())
}

/// Sorted rows into one file, and the file into a database.
fn ingest(dir: &Path, rows: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let options = options();
    let db = DB::open(&options, dir.join("ingested"))?;
    let path = dir.join("run.sst");
    let began = Instant::now();
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path)?;
    (0..rows).try_for_each(|number| writer.put(key(number), [b'v'; VALUE_BYTES]))?;
    writer.finish()?;
    let mut moved = IngestExternalFileOptions::default();
    moved.set_move_files(true);
    db.ingest_external_file_opts(&moved, vec![&path])?;
    figures.rate("rocksdb_sst_ingest_rows_per_sec", rows, began.elapsed());
    Ok(())
}

fn options() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    key[KEY_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    key
}
