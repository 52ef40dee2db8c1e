"""Reads and writes the metadata of GGUF files, as bytes: just what tools/make_gguf needs.

Source: the description of the format, version 3. Values are kept as the bytes that stand in the
file, so what is copied from one file to another is copied exactly.
"""
import struct

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
FORMATS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


class BadFile(Exception):
    """The file is not GGUF, or ends too early."""


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack(FORMATS[kind], value)


class Array:
    """An array of one kind, with its elements as they stand in the file."""

    def __init__(self, kind, count, data):
        self.kind, self.count, self.data = kind, count, data

    def extended(self, values):
        """This array and `values` behind it."""
        added = [scalar(self.kind, value) for value in values]
        return Array(self.kind, self.count + len(added), self.data + b"".join(added))


def array(kind, values):
    return Array(kind, 0, b"").extended(values)


def pair(key, kind, value):
    """The bytes of one key and its value: a number, a text, or an Array."""
    if kind == ARRAY:
        return string(key) + struct.pack("<IIQ", ARRAY, value.kind, value.count) + value.data
    return string(key) + struct.pack("<I", kind) + scalar(kind, value)


class _Reader:
    def __init__(self, file):
        self._file = file

    def bytes(self, count):
        data = self._file.read(count)
        if len(data) != count:
            raise BadFile("ends in the middle of its metadata")
        return data

    def number(self, form):
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def raw_string(self):
        head = self.bytes(8)
        return head + self.bytes(struct.unpack("<Q", head)[0])

    def raw_value(self, kind):
        if kind == STRING:
            return self.raw_string()
        if kind not in SIZES:
            raise BadFile(f"has a value of the unknown kind {kind}")
        return self.bytes(SIZES[kind])


def read_metadata(path):
    """{key: (kind, bytes of the value, or Array)} of a GGUF file."""
    with open(path, "rb") as file:
        reader = _Reader(file)
        if reader.bytes(4) != b"GGUF":
            raise BadFile("is no GGUF file")
        reader.number("<I")
        reader.number("<Q")
        found = {}
        for _ in range(reader.number("<Q")):
            key = reader.raw_string()[8:].decode()
            kind = reader.number("<I")
            if kind == ARRAY:
                element, count = reader.number("<I"), reader.number("<Q")
                if element in SIZES:
                    data = reader.bytes(SIZES[element] * count)
                else:
                    data = b"".join(reader.raw_value(element) for _ in range(count))
                found[key] = (ARRAY, Array(element, count, data))
            else:
                found[key] = (kind, reader.raw_value(kind))
        return found


def raw_pair(key, kind, value):
    """As pair(), of what read_metadata() returns."""
    if kind == ARRAY:
        return pair(key, kind, value)
    return string(key) + struct.pack("<I", kind) + value
