"""Reads the records of Rehome's topics. Written from schemas/FORMATS.md alone; needs nothing but Python."""

import struct
import zlib
from typing import NamedTuple, Optional

MARK, CONTROL, OPERATION, BATCH = 1, 2, 3, 4
KEY_BYTES_MAX = 4096
SOURCE_BYTES_MAX = 255


class Invalid(Exception):
    """The bytes cannot be read as what they should be."""


class Body:
    """The body of a frame: integers of variable length, little-endian, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Invalid("cut short")
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def number(self):
        first = self.take(1)[0]
        if first <= 250:
            return first
        size = {251: 2, 252: 4, 253: 8, 254: 16}.get(first)
        if size is None:
            raise Invalid("no number")
        return int.from_bytes(self.take(size), "little")

    def bytes(self):
        return self.take(self.number())

    def text(self):
        return self.bytes().decode("utf-8")

    def flag(self):
        return self.take(1)[0] == 1

    def optional(self, read):
        return read() if self.flag() else None

    def list(self, read):
        return [read() for _ in range(self.number())]

    def version(self):
        return (self.number(), self.number())

    def range(self):
        return (self.bytes(), self.optional(self.bytes))

    def end(self):
        if self.at != len(self.data):
            raise Invalid("bytes too many")


def unframe(kind, data):
    """Returns the body of a frame of that kind."""
    if data is None or len(data) < 10 or data[0] != 1 or data[1] != kind:
        raise Invalid("no frame of kind %d" % kind)
    length, checksum = struct.unpack(">II", data[2:10])
    if length != len(data) - 10 or checksum != zlib.crc32(data[:6] + data[10:]):
        raise Invalid("a damaged frame")
    return Body(data[10:])


class Write(NamedTuple):
    key: bytes
    epoch: int
    request: Optional[bytes]
    source: Optional[tuple]  # (name, position)
    changes: list  # of (sort key, value or None)
    condition: Optional[tuple]  # ("absent",), ("present",), ("version", (epoch, offset))
    is_batch: bool

    @property
    def content(self):
        return (self.changes, self.condition, self.is_batch)


class AttemptMark(NamedTuple):
    kind: str  # "open" or "fence"
    move: int
    attempt: int
    epoch: int
    ranges: list
    control_offset: int
    nonce: int


class Horizon(NamedTuple):
    regions: list  # of (range, epoch)
    version: tuple


def header(headers, name):
    """Returns the first header of that name."""
    return next((value for found, value in headers if found == name), None)


def read_data(key, value, headers):
    """Returns what a record of a data topic means."""
    if header(headers, "rh-mark") is not None:
        return read_mark(value)
    return read_write(key, value, headers)


def read_mark(value):
    body = unframe(MARK, value)
    variant = body.number()
    if variant in (0, 1):
        move, attempt, epoch = body.number(), body.number(), body.number()
        ranges = body.list(body.range)
        mark = AttemptMark(("open", "fence")[variant], move, attempt, epoch, ranges, body.number(), body.number())
    elif variant == 2:
        mark = Horizon(body.list(lambda: (body.range(), body.number())), body.version())
    else:
        raise Invalid("no mark")
    body.end()
    return mark


def read_write(key, value, headers):
    epoch = header(headers, "rh-epoch")
    request = header(headers, "rh-request")
    if epoch is None or len(epoch) != 8 or (request is not None and len(request) != 16):
        raise Invalid("rh-epoch or rh-request")
    source = header(headers, "rh-source")
    if source is not None:
        source = read_source(source)
    sort = header(headers, "rh-sort") or b""
    operation = header(headers, "rh-op")
    condition, changes, is_batch = None, [(sort, value)], False
    if operation is not None:
        condition, is_batch = read_operation(operation)
        if is_batch:
            body = unframe(BATCH, value)
            changes = body.list(lambda: (body.bytes(), body.optional(body.bytes)))
            body.end()
    if not key or len(key) > KEY_BYTES_MAX or any(len(sort) > KEY_BYTES_MAX for sort, _ in changes):
        raise Invalid("a key that is missing, empty or too long")
    return Write(key, int.from_bytes(epoch, "big"), request, source, changes, condition, is_batch)


def read_source(value):
    try:
        name = value[8:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid("rh-source") from error
    if not 1 <= len(value) - 8 <= SOURCE_BYTES_MAX:
        raise Invalid("rh-source")
    return (name, int.from_bytes(value[:8], "big"))


def read_operation(value):
    """Returns a condition, and whether the value is a batch."""
    body = unframe(OPERATION, value)
    if body.number() == 1:
        body.end()
        return None, True
    which = body.number()
    condition = ("version", body.version()) if which == 2 else (("absent", "present")[which],)
    body.end()
    return condition, False
