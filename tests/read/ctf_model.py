"""CNTK's text format read line by line in plain Python: what the core must agree with."""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

REAL = re.compile(rb"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
INDEX = re.compile(rb"[0-9]+")


@dataclass
class Stream:
    field: str
    dimension: int
    is_sparse: bool = False
    dtype: str = "float32"
    defines_mb_size: bool = False


@dataclass
class Sequence:
    key: int
    size: int
    # One entry per stream: samples, each a list of values or a list of (index, value).
    samples: list[list[list[object]]]
    is_skipped: bool = False


@dataclass
class Corpus:
    sequences: list[Sequence] = field(default_factory=list)
    items: list[tuple[int, int | None]] = field(default_factory=list)  # offset, caused by


class FatalError(Exception):
    pass


class SampleError(Exception):
    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def nearest(text: bytes, digits: int, least: int) -> float:
    """Round a decimal text to `digits` bits with the least exponent `least`, ties to even."""
    mantissa, _, exponent = text.lower().partition(b"e")
    whole, _, fraction = mantissa.partition(b".")
    power = int(exponent or b"0") - len(fraction)
    number = int(whole + fraction)
    sign = -1.0 if text.startswith(b"-") else 1.0
    if number == 0 or power < -5000:
        return sign * 0.0
    if power > 5000:
        return sign * math.inf
    exact = abs(Fraction(number) * Fraction(10) ** power)
    shift = max(math.floor(math.log2(exact.numerator) - math.log2(exact.denominator)), least)
    while shift > least and exact < Fraction(2) ** shift:
        shift -= 1
    while exact >= Fraction(2) ** (shift + 1):
        shift += 1
    unit = Fraction(2) ** (shift - digits + 1)
    rounded = round(exact / unit) * unit  # of a Fraction: half to even
    return math.copysign(float(rounded) if rounded < Fraction(2) ** 1024 else math.inf, sign)


def read_value(text: bytes, dtype: str) -> float | int | None:
    """Return the number, or None when it does not fit the type."""
    if dtype == "float64":
        value = nearest(text, 53, -1022)
        return None if math.isinf(value) else value
    if dtype == "float32":
        value = nearest(text, 24, -126)
        return None if abs(value) >= 2.0**128 else value
    mantissa, _, exponent = text.lower().partition(b"e")
    whole, _, fraction = mantissa.partition(b".")
    number = int(whole + fraction)
    power = int(exponent or b"0") - len(fraction)
    if number != 0 and power < -5000:
        return None
    exact = Fraction(number) * Fraction(10) ** min(power, 5000) if number else Fraction(0)
    limits = np.iinfo(dtype)
    if exact.denominator != 1 or not limits.min <= exact <= limits.max:
        return None
    return int(exact)


class Reader:
    def __init__(
        self,
        data: bytes,
        streams: list[Stream],
        *,
        skip_sequence_ids: bool = False,
        allow_blank_lines: bool = False,
    ) -> None:
        self.data = data
        self.streams = streams
        self.allow_blank_lines = allow_blank_lines
        self.corpus = Corpus()
        self.begin = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.ignore_ids = skip_sequence_ids or data[self.begin :].startswith(b"|")
        self.sequence: Sequence | None = None

    def read(self) -> Corpus:
        if self.data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise FatalError("UTF-16")
        at = self.begin
        line = 0
        while at < len(self.data):
            end = self.data.find(b"\n", at)
            has_line_feed = end >= 0
            end = end if has_line_feed else len(self.data)
            self.read_line(
                at, end - (has_line_feed and self.data[at:end].endswith(b"\r")), line
            )
            at = end + 1
            line += 1
        self.end_sequence()
        return self.corpus

    # -- items --
    def report(self, at: int, *, loses: bool = True) -> None:
        self.counts |= loses
        if self.sequence is not None:
            self.sequence.is_skipped |= loses
        self.corpus.items.append((at, self.row_fault))
        if self.row_fault is None:
            self.row_fault = at
        if self.sequence is not None and self.sequence_fault is None:
            self.sequence_fault = self.row_fault

    # -- lines --
    def read_line(self, at: int, end: int, line: int) -> None:
        self.row_fault: int | None = None
        row_begin = at
        is_blank = True
        self.counts = has_undeclared = False
        found = re.compile(rb"[0-9]*").match(self.data, at, end)
        assert found is not None
        if self.ignore_ids:
            self.begin_sequence(line, at)
            is_blank = not found.group()
            at = found.end()
        elif found.group() and int(found.group()) < 2**64:
            if self.sequence is None or self.sequence.key != int(found.group()):
                self.begin_sequence(int(found.group()), at)
            is_blank = False
            at = found.end()
        num_samples = 0
        has_size = False
        while True:
            while at < end and self.data[at] in b" \t":
                at += 1
            if at == end:
                break
            if self.data[at : at + 1] != b"|":
                self.report(at)
                is_blank = False
                at = self.find_pipe(at, end)
                continue
            stop = self.find_pipe(at + 1, end)
            if self.data[at + 1 : at + 2] == b"#" and at + 1 < end:
                at = stop
                continue
            is_blank = False
            if self.sequence is None:
                raise FatalError("no id")
            name = re.compile(rb"[^\x00-\x20|]*").match(self.data, at + 1, end)
            assert name is not None
            if not name.group():
                self.report(at + 1)
                at = stop
                continue
            stream = next((s for s in self.streams if s.field.encode() == name.group()), None)
            if stream is None:
                has_undeclared = True
                control = re.compile(rb"[\x00-\x08\x0a-\x1f]").search(
                    self.data, name.end(), stop
                )
                if control:
                    self.report(control.start(), loses=False)
                at = stop
                continue
            self.counts = True
            has_size = has_size or stream.defines_mb_size
            try:
                self.read_sample(stream, name.end(), stop)
                num_samples += 1
                if num_samples == len(self.streams) + 1:
                    self.report(name.end(), loses=False)
            except SampleError as error:
                self.report(error.at)
            at = stop
        is_allowed = has_undeclared or (is_blank and self.allow_blank_lines)
        if self.sequence is None and not (is_blank and is_allowed):
            raise FatalError("no id")
        if not self.counts:
            if not is_allowed:
                self.report(row_begin, loses=False)
            if is_blank and self.ignore_ids:
                self.sequence = None
            return
        if num_samples == 0:
            self.report(row_begin, loses=False)
        self.num_lines += 1
        self.num_sized_lines += has_size
        self.num_undeclared_lines += has_undeclared

    def find_pipe(self, at: int, end: int) -> int:
        found = self.data.find(b"|", at, end)
        return end if found < 0 else found

    def read_sample(self, stream: Stream, at: int, end: int) -> None:
        assert self.sequence is not None
        begin = at
        values: list[object] = []
        while at < end and self.data[at] in b" \t":
            while at < end and self.data[at] in b" \t":
                at += 1
            if at == end:
                break
            if stream.is_sparse:
                index, number_at = self.read_index(stream, at, end)
                value, number_end = self.read_number(stream, number_at, end)
                values.append((index, value))
            else:
                value, number_end = self.read_number(stream, at, end)
                if len(values) == stream.dimension:
                    raise SampleError(at)
                values.append(value)
            at = number_end
        if at != end:
            raise SampleError(at)
        if stream.is_sparse:
            indices = [index for index, _ in values]  # type: ignore[misc]
            if len(set(indices)) < len(indices):
                self.report(begin, loses=False)
        elif len(values) < stream.dimension:
            self.report(at, loses=False)
            values += [0] * (stream.dimension - len(values))
        self.sequence.samples[self.streams.index(stream)].append(values)

    def read_index(self, stream: Stream, at: int, end: int) -> tuple[int, int]:
        found = INDEX.match(self.data, at, end)
        if found is None:
            raise SampleError(at)
        if self.data[found.end() : found.end() + 1] != b":" or found.end() == end:
            raise SampleError(found.end())
        if int(found.group()) >= stream.dimension:
            raise SampleError(at)
        return int(found.group()), found.end() + 1

    def read_number(self, stream: Stream, at: int, end: int) -> tuple[object, int]:
        found = REAL.match(self.data, at, end)
        if found is None:
            sign = self.data[at : at + 1] in (b"+", b"-") and at < end
            raise SampleError(at + sign)
        exponent = re.compile(rb"[eE][+-]?").match(self.data, found.end(), end)
        if exponent is not None and found.group(2) is None:
            raise SampleError(exponent.end())
        value = read_value(found.group(), stream.dtype)
        if value is None:
            raise SampleError(at)
        return value, found.end()

    # -- sequences --
    def begin_sequence(self, key: int, at: int) -> None:
        self.end_sequence()
        self.sequence = Sequence(key, 0, [[] for _ in self.streams])
        self.sequence_begin = at
        self.sequence_fault: int | None = None
        self.num_lines = 0
        self.num_sized_lines = 0
        self.num_undeclared_lines = 0

    def end_sequence(self) -> None:
        if self.sequence is None:
            return
        counts = [len(samples) for samples in self.sequence.samples]
        most = max(*counts, self.num_undeclared_lines)
        if min(counts) == 0 or max(counts) > self.num_lines or most < self.num_lines:
            self.corpus.items.append((self.sequence_begin, self.sequence_fault))
        self.sequence.is_skipped |= min(counts) == 0
        sized = [
            count
            for count, stream in zip(counts, self.streams, strict=True)
            if stream.defines_mb_size
        ]
        self.sequence.size = max(sized or counts)
        if self.sequence.is_skipped:
            self.sequence.size = self.num_sized_lines or max(self.num_lines, 1)
        if self.sequence.is_skipped:
            self.sequence.samples = [[] for _ in self.streams]
        self.corpus.sequences.append(self.sequence)
        self.sequence = None
