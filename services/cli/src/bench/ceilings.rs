//! What disk and RocksDB give by themselves, in the same run: the ceilings of everything else.

use super::figures::Figures;
use super::rows::{self, KEY_BYTES, VALUE_BYTES};
use anyhow::Context;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rocksdb::{
    BlockBasedOptions, DB, DBCompressionType, IngestExternalFileOptions, Options, SstFileWriter, WriteBatch,
    WriteOptions,
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
/// Different values. Reason: they compress as little as those of the system, and take no time to be made.
const VALUES: usize = 1 << 12;

const _: () = assert!(STRIDE > ROWS_MAX / BATCH, "a divisor of the rows would leave some out");

/// Measures in the folder, which is made and removed, with as many rows, up to a million.
pub fn measure(dir: &Path, rows: u64, concurrency: u32, figures: &mut Figures) -> anyhow::Result<()> {
    let rows = (rows / BATCH * BATCH).clamp(BATCH, ROWS_MAX);
    std::fs::create_dir_all(dir)?;
    syncs(dir, figures).context("cannot sync blocks")?;
    synced_commits(dir, concurrency, figures).context("cannot commit to RocksDB")?;
    let mut random = SmallRng::seed_from_u64(rows);
    let values: Vec<Vec<u8>> = (0..VALUES).map(|_| rows::value(&mut random)).collect();
    let source = unlogged(dir, rows, &values, figures).context("cannot write to RocksDB")?;
    ingest(dir, rows, &values, figures).context("cannot ingest into RocksDB")?;
    copy(dir, &source, rows, figures).context("cannot copy from RocksDB to RocksDB")?;
    drop(source);
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
fn unlogged(dir: &Path, rows: u64, values: &[Vec<u8>], figures: &mut Figures) -> anyhow::Result<DB> {
    let db = DB::open(&options(), dir.join("unlogged"))?;
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let began = Instant::now();
    for first in (0..rows).step_by(BATCH as usize) {
        let mut batch = WriteBatch::default();
        (first..first + BATCH).for_each(|number| batch.put(key(number * STRIDE % rows), value(values, number)));
        db.write_opt(batch, &unlogged)?;
    }
    figures.rate("rocksdb_unlogged_batch_writes_per_sec", rows, began.elapsed());
    db.flush()?;
    let began = Instant::now();
    scan(&db, rows, |_, _| Ok(()))?;
    figures.rate("rocksdb_scan_rows_per_sec", rows, began.elapsed());
    Ok(db)
}

/// Visits every row; there must be so many.
fn scan(db: &DB, rows: u64, mut visit: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut entries = db.raw_iterator();
    entries.seek_to_first();
    let mut scanned = 0;
    while let Some((key, value)) = entries.item() {
        visit(key, value)?;
        scanned += 1;
        entries.next();
    }
    entries.status()?;
    anyhow::ensure!(scanned == rows, "{scanned} rows were scanned, not {rows}");
    Ok(())
}

/// Sorted rows into one file, and the file into a database.
fn ingest(dir: &Path, rows: u64, values: &[Vec<u8>], figures: &mut Figures) -> anyhow::Result<()> {
    let (options, path) = (options(), dir.join("run.sst"));
    let db = DB::open(&options, dir.join("ingested"))?;
    let began = Instant::now();
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path)?;
    (0..rows).try_for_each(|number| writer.put(key(number), value(values, number)))?;
    writer.finish()?;
    take_in(&db, &path)?;
    figures.rate("rocksdb_sst_ingest_rows_per_sec", rows, began.elapsed());
    Ok(())
}

/// What a copy is made of, without digests and checks: a scan into a file, the file taken in, and a scan of it.
fn copy(dir: &Path, source: &DB, rows: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let (options, path) = (options(), dir.join("copied.sst"));
    let db = DB::open(&options, dir.join("copied"))?;
    let began = Instant::now();
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path)?;
    scan(source, rows, |key, value| Ok(writer.put(key, value)?))?;
    writer.finish()?;
    take_in(&db, &path)?;
    scan(&db, rows, |_, _| Ok(()))?;
    figures.rate("rocksdb_copy_rows_per_sec", rows, began.elapsed());
    Ok(())
}

fn take_in(db: &DB, run: &Path) -> Result<(), rocksdb::Error> {
    let mut moved = IngestExternalFileOptions::default();
    moved.set_move_files(true);
    db.ingest_external_file_opts(&moved, vec![run])
}

fn value(values: &[Vec<u8>], number: u64) -> &[u8] {
    &values[number as usize % values.len()]
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
