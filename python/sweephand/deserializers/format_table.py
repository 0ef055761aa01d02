"""The formats that are read here, a row each: a path is of the first whose signs it has."""

from __future__ import annotations

from collections.abc import Sequence

from sweephand.deserializers.format import Format, installed_formats

_OURS = "sweephand.deserializers"
_GZIP = rb"\x1f\x8b"
_ZSTD = rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"
_PACKED = _GZIP + b"|" + _ZSTD
_ZLIB = b"|".join(  # the first byte has 8 in its lower half, and 31 divides the two
    b"\\x%02x\\x%02x" % divmod(head, 256)
    for head in range(0, 1 << 15, 31)
    if head >> 8 & 15 == 8
)
_BOM = rb"\xef\xbb\xbf"
_CHECKSUM = rb"\x80| {0,7}(?:[0-7]{1,7}[\0 ]|\0)|[ 0-7]{8}"  # of the header of a member
_BLANKS = rb"[ \t\r\f\v]*"

TEXT = Format(
    "text",
    f"{_OURS}.text:TextDeserializer",
    files=r"(?i).+\.(txt|text)(\.(gz|zst))?",
    confirm=f"{_OURS}.text:is_text",
)

# Folders that are a corpus come before the files in them, and sure signs before weak signs.
FORMATS = (
    Format(
        "Hugging Face folder",
        f"{_OURS}.arrow:ArrowDeserializer",
        holds=r"(state|dataset_dict)\.json/?",
        is_alone=True,
    ),
    Format(
        "pictures",
        f"{_OURS}.image_folder:open_pictures",
        files=r".+\.(txt|map|tsv)",
        holds=".+/",
        confirm=f"{_OURS}.image_folder:holds_pictures",
    ),
    Format(".npy", f"{_OURS}.npy:open_arrays", magic=rb"\x93NUMPY"),
    Format(
        ".npz", f"{_OURS}.npz:open_archive", magic=rb"PK\x03\x04", confirm=f"{_OURS}.npz:is_npz"
    ),
    Format("Parquet", f"{_OURS}.parquet:ParquetDeserializer", magic=b"PAR1"),
    Format(
        "Arrow",
        f"{_OURS}.arrow:ArrowDeserializer",
        magic=rb"ARROW1\0\0|\xff{4}",
        confirm=f"{_OURS}.arrow:is_arrow",
    ),
    Format(
        "Megatron",
        f"{_OURS}.megatron:open_pairs",
        files=r".+\.(bin|idx)|.+/",
        magic=b"MMIDIDX",
        pairs=(".idx", ".bin"),
    ),
    Format(
        "TFRecord",
        f"{_OURS}.tfrecord_files:TFRecordDeserializer",
        magic=rb".{7}\0.{4}|" + _GZIP + b"|" + _ZLIB,
        confirm=f"{_OURS}.tfrecord_files:is_tfrecord",
    ),
    Format(
        "WebDataset",
        f"{_OURS}.webdataset:WebDatasetDeserializer",
        files=r"(?i).+\.(tar|tgz)(\.(gz|zst))?",  # nothing but an end mark has no magic
        magic=rb"(?=.{512})[^\0].{147}(?:" + _CHECKSUM + b")|" + _PACKED,
        confirm=f"{_OURS}.webdataset:is_tar",
    ),
    Format(
        "JSON lines",
        f"{_OURS}.jsonl:JSONLDeserializer",
        magic=b"(?:" + _BOM + rb")?\s*\{|" + _PACKED,
        confirm=f"{_OURS}.jsonl:is_jsonl",
    ),
    Format(
        "CNTK text",
        f"{_OURS}.ctf:CTFDeserializer",
        magic=b"(?:%b)?(?:%b)?" % (_BOM, _BLANKS + rb"\d+" + _BLANKS)
        + rb"\|[a-zA-Z]|"
        + _PACKED,
        confirm=f"{_OURS}.ctf:is_ctf",
    ),
    Format(
        "bare numbers",
        f"{_OURS}.raw_tokens:open_numbers",
        files=r"(.*\.ds(\.index)?|.+\.(bin|tokens))/?",
    ),
    Format(
        "CSV", f"{_OURS}.csv_files:CSVDeserializer", files=r"(?i).+\.(csv|tsv)(\.(gz|zst))?"
    ),
    TEXT,
)


def known_formats() -> Sequence[Format]:
    """Return the formats of the core and of packages, in the order in which they are asked."""
    found = list(FORMATS)
    for one in installed_formats():
        names = [other.name for other in found]
        found.insert(names.index(one.before) if one.before in names else len(found), one)
    return found
