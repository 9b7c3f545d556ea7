"""What a data file is packed in, told by its first bytes and never by its name.

Downloads lose their endings, and programs give wrong ones. What is no data (an archive, a web page in place of the
download, a Git LFS pointer) is named with the way out.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from collections.abc import Iterator
from typing import Any, Final

from agent_gym.support.errors import DataError
from agent_gym.support.files import DAMAGES

HEAD_BYTES: Final = 512
PARQUET: Final = b"PAR1"
_PACKED: Final[tuple[tuple[bytes, Any], ...]] = (
    (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"BZh", bz2.BZ2File),
)
_UNPACK = "unpack it and name the file inside"
_FOREIGN: Final = (
    (b"PK\x03\x04", f"is a zip archive or a spreadsheet; {_UNPACK}, or save the sheet as CSV"),
    (b"\x28\xb5\x2f\xfd", f"is compressed by zstd; {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", f"is a 7-Zip archive; {_UNPACK}"),
    (b"Rar!", f"is a RAR archive; {_UNPACK}"),
    (b"ARROW1", "is an Arrow file; save it as parquet (Dataset.to_parquet)"),
    (b"\xff\xff\xff\xff", "is an Arrow stream; save it as parquet (Dataset.to_parquet)"),
    (b"SQLite format 3", "is an SQLite database; export the table as CSV"),
    (b"\x80\x03", "is a pickle, which is not opened because that runs its code; save it as JSON lines"),
    (b"\x80\x04", "is a pickle, which is not opened because that runs its code; save it as JSON lines"),
    (b"\x80\x05", "is a pickle, which is not opened because that runs its code; save it as JSON lines"),
    (b"%PDF", "is a PDF; give the data file"),
    (
        b"version https://git-lfs",
        "is a Git LFS pointer in place of the file; run git lfs pull, or download the file",
    ),
)
_WIDE: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def unpacked(raw: io.BufferedReader, name: object) -> io.BufferedReader:
    """Return a file's content as a stream that can be looked into, decompressed where gzip, xz or bzip2 packed it.

    Args:
        raw: The file, at its start.
        name: What messages call it.

    Raises:
        DataError: It is damaged, or no file of rows; the message says what it is and what to do.
    """
    head = raw.read(HEAD_BYTES)
    raw.seek(0)
    opener = next((opener for magic, opener in _PACKED if head.startswith(magic)), None)
    stream = raw if opener is None else io.BufferedReader(opener(raw), 1 << 20)
    try:
        inner = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    except DAMAGES as error:
        raise DataError(f"{name} cannot be decompressed: {error}") from error
    for magic, what in _FOREIGN:
        if inner.startswith(magic):
            raise DataError(f"{name} {what}")
    if inner[257:262] == b"ustar":
        raise DataError(f"{name} is a tar archive; {_UNPACK}")
    if inner.lstrip()[:1] == b"<":
        raise DataError(f"{name} is a web page or XML, perhaps a site's answer in place of the file; download it")
    return stream


def text_lines(stream: io.BufferedReader, name: object, longest: int) -> Iterator[bytes]:
    """Yield the lines of a text file in UTF-8, without a byte order mark; UTF-16 and UTF-32 are told by theirs.

    Args:
        stream: As `unpacked` returns it.
        name: What messages call it.
        longest: Most bytes of a line.

    Raises:
        DataError: It is damaged or no text, or a line is longer.
    """
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    wide = next((codec for mark, codec in _WIDE if head.startswith(mark)), "")
    try:
        if wide:
            text = io.TextIOWrapper(stream, wide, newline="\n")
            lines: Iterator[bytes] = (line.encode() for line in text)
        else:
            if b"\x00" in head:
                raise DataError(f"{name} is no text; expected JSON, JSON lines, CSV, TSV or parquet")
            lines = iter(lambda: stream.readline(longest + 1), b"")
        for number, line in enumerate(lines, 1):
            if len(line) > longest:
                raise DataError(f"{name}, line {number} is longer than the {longest:,} bytes of a row; split it")
            yield line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except UnicodeError as error:
        raise DataError(f"{name} is not readable as {wide or 'UTF-8'}: {error}; save it as UTF-8") from error
    except DAMAGES as error:
        raise DataError(f"{name} cannot be decompressed: {error}") from error
