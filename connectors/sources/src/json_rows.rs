//! Rows of a file with one JSON object a line. The value is the line as it stands.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::errors::{OpenError, RowError};
use crate::exported;
use crate::reader::{Layout, Place, ROW_BYTES_MAX, ReadRow};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[derive(Debug)]
pub(crate) struct JsonRows {
    reader: BufReader<File>,
    file_bytes: u64,
    layout: Layout,
    line: Vec<u8>,
    /// Bytes and lines that were read.
    bytes_read: u64,
    lines_read: u64,
    /// Rows read so far, broken ones included; empty lines are none.
    row: u64,
    place: Place,
    ended: bool,
}

impl JsonRows {
    pub(crate) fn open(file: File, path: &Path, layout: &Layout) -> Result<JsonRows, OpenError> {
        let file_bytes = file.metadata().map_err(|source| OpenError::io(path, source))?.len();
        Ok(JsonRows {
            reader: BufReader::with_capacity(256 << 10, file),
            file_bytes,
            layout: layout.clone(),
            line: Vec::new(),
            bytes_read: 0,
            lines_read: 0,
            row: 0,
            place: Place::default(),
            ended: false,
        })
    }

    pub(crate) fn file(&self) -> &File {
        self.reader.get_ref()
    }

    /// Returns where the row that was read last lies.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Returns the number of the row that was read last, 0 before the first.
    pub(crate) fn row(&self) -> u64 {
        self.row
    }

    pub(crate) fn fraction_read(&self) -> f64 {
        if self.file_bytes == 0 { 1.0 } else { (self.bytes_read as f64 / self.file_bytes as f64).min(1.0) }
    }

    pub(crate) fn read(&mut self, sort_text: &mut Vec<u8>) -> Option<Result<ReadRow, RowError>> {
        let reason = match self.next_line() {
            Ok(true) => match self.build_row(sort_text) {
                Ok(row) => return Some(Ok(row)),
                Err(reason) => reason,
            },
            Ok(false) => return None,
            Err(error) => {
                self.row += 1;
                self.ended = true;
                error.to_string()
            }
        };
        Some(Err(RowError { row: self.row, rows: 1, line: Some(self.place.line), reason }))
    }

    /// Reads up to the end of the next line that holds something; a line over the limit ends there. False: no more.
    fn next_line(&mut self) -> io::Result<bool> {
        while !self.ended {
            self.place = Place { start: self.bytes_read, end: self.bytes_read, line: self.lines_read + 1 };
            self.line.clear();
            let mut bytes = self.reader.by_ref().take(ROW_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
            if bytes > ROW_BYTES_MAX && self.line.last() != Some(&b'\n') {
                bytes += self.reader.skip_until(b'\n')?;
            }
            self.ended = bytes == 0;
            self.bytes_read += bytes as u64;
            self.lines_read += 1;
            self.place.end = self.bytes_read;
            if self.place.start == 0 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.line.trim_ascii().is_empty() {
                self.row += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn build_row(&self, sort_text: &mut Vec<u8>) -> Result<ReadRow, String> {
        if self.line.len() > ROW_BYTES_MAX {
            return Err(format!("the line is longer than {ROW_BYTES_MAX} bytes"));
        }
        let line = self.line.trim_ascii();
        let line =
            std::str::from_utf8(line).map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to() + 1))?;
        match &self.layout {
            Layout::Columns(columns) => {
                let names = [columns.key.as_str(), columns.sort.as_deref().unwrap_or_default()];
                let names = &names[..1 + usize::from(columns.sort.is_some())];
                let found = fields(line, names)?;
                let partition_key = text_of(found[0], &columns.key)?.ok_or_else(|| exported::no_key(&columns.key))?;
                if partition_key.is_empty() {
                    return Err(exported::no_key(&columns.key));
                }
                let mut sort_is_null = false;
                if let (Some(sort), Some(raw)) = (&columns.sort, found.get(1)) {
                    let text = text_of(*raw, sort)?;
                    sort_is_null = text.is_none();
                    sort_text.extend_from_slice(text.unwrap_or_default().as_bytes());
                }
                let (partition_key, value) = (partition_key.into_bytes(), line.as_bytes().to_vec());
                Ok(ReadRow { row: self.row, partition_key, value, sort_is_null })
            }
            Layout::Exported => {
                let names = [exported::KEY, exported::SORT, exported::VALUE, exported::ENCODING];
                let found = fields(line, &names)?;
                let text = |at: usize| -> Result<String, String> {
                    let raw: Option<&RawValue> = found[at];
                    let raw = raw.filter(|raw| raw.get().starts_with('"'));
                    let text = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
                    text.ok_or_else(|| format!("field {:?} is no text: is this line one of an export?", names[at]))
                };
                let row = exported::decode(&text(0)?, &text(1)?, &text(2)?, &text(3)?)?;
                sort_text.extend_from_slice(&row.sort_key);
                let (partition_key, value) = (row.partition_key, row.value);
                Ok(ReadRow { row: self.row, partition_key, value, sort_is_null: false })
            }
        }
    }
}

/// Returns a field as the text of a key; nothing where it is null. Numbers keep the digits that the file has.
fn text_of(raw: Option<&RawValue>, name: &str) -> Result<Option<String>, String> {
    let Some(raw) = raw else { return Err(format!("there is no field {name:?}")) };
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).map(Some).map_err(|error| format!("field {name:?}: {error}")),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') => Err(format!("field {name:?} is an object or a list, which is no key")),
        _ => Ok(Some(raw.get().to_string())),
    }
}

/// Returns the named fields of an object, in the order of the names.
fn fields<'a>(line: &'a str, names: &[&str]) -> Result<Vec<Option<&'a RawValue>>, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let found = Fields(names).deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    found.map_err(|error| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        format!("not a JSON object: column {}: {what}", error.column())
    })
}

struct Fields<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.len()];
        while let Some(name) = map.next_key::<String>()? {
            let mut wanted = (0..found.len()).filter(|at| self.0[*at] == name).peekable();
            if wanted.peek().is_none() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&RawValue>()?;
            for at in wanted {
                if found[at].replace(value).is_some() {
                    return Err(A::Error::custom(format_args!("field {name:?} comes twice")));
                }
            }
        }
        Ok(found)
    }
}
