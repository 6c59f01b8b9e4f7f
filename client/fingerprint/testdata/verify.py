"""Checks vectors.json with a second implementation of docs/fingerprint.md.

    pip install protobuf && python3 verify.py

It shares no code with the Go package, so it is also where to start for another
language.
"""
import hashlib, json, pathlib, re, struct, sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

MAX_DEPTH = 100
MAX_EXPONENT = 999999999
here = pathlib.Path(__file__).parent


# pb1

def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])

def tag(number, wire_type):
    return varint(number << 3 | wire_type)

def prefixed(b):
    return varint(len(b)) + b

def floating(fmt, nan):
    return lambda x: nan if x != x else struct.pack(fmt, x)

def zigzag(n):
    return varint(n << 1 ^ n >> 63)

# Of each type in a descriptor: the wire type, and how a value is written.
SCALARS = {
    1: (1, floating("<d", bytes.fromhex("000000000000f87f"))), 2: (5, floating("<f", bytes.fromhex("0000c07f"))),
    3: (0, varint), 4: (0, varint), 5: (0, varint), 6: (1, lambda n: struct.pack("<Q", n)), 7: (5, lambda n: struct.pack("<I", n)),
    8: (0, varint), 9: (2, lambda s: prefixed(s.encode())), 12: (2, prefixed), 13: (0, varint), 14: (0, varint),
    15: (5, lambda n: struct.pack("<i", n)), 16: (1, lambda n: struct.pack("<q", n)), 17: (0, zigzag), 18: (0, zigzag),
}
GROUP, MESSAGE = 10, 11

def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == 3

def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry

def element(field, value, ignore, depth, pool):
    if field.message_type is None:
        wire_type, write = SCALARS[field.type]
        return tag(field.number, wire_type) + write(value)
    inner = message(value, ignore, depth + 1, pool)
    if field.type == GROUP and not field.containing_type.GetOptions().map_entry:
        return tag(field.number, 3) + inner + tag(field.number, 4)
    return tag(field.number, 2) + prefixed(inner)

def known(field, value, ignore, depth, pool):
    if is_map(field):
        key, val = field.message_type.fields_by_number[1], field.message_type.fields_by_number[2]
        order = (lambda k: k.encode()) if key.type == 9 else (lambda k: k)
        entries = (element(key, k, [], depth, pool) + element(val, value[k], ignore, depth, pool) for k in sorted(value, key=order))
        return b"".join(tag(field.number, 2) + prefixed(e) for e in entries)
    if not repeated(field):
        return element(field, value, ignore, depth, pool)
    if field.message_type is None and SCALARS[field.type][0] != 2:
        return tag(field.number, 2) + prefixed(b"".join(map(SCALARS[field.type][1], value)))
    return b"".join(element(field, v, ignore, depth, pool) for v in value)

def unknown(record, depth):
    number, wire_type, data = record.field_number, record.wire_type, record.data
    if wire_type == 3:
        if depth >= MAX_DEPTH:
            raise ValueError("too deep")
        inner = sorted(data, key=lambda r: (r.field_number, r.wire_type))
        return tag(number, 3) + b"".join(unknown(r, depth + 1) for r in inner) + tag(number, 4)
    write = {0: varint, 1: lambda n: struct.pack("<Q", n), 2: prefixed, 5: lambda n: struct.pack("<I", n)}
    return tag(number, wire_type) + write[wire_type](data)

def any_content(m, depth, pool):
    try:
        descriptor = pool.FindMessageTypeByName(m.type_url.rsplit("/", 1)[-1])
        content = message_factory.GetMessageClass(descriptor).FromString(m.value)
    except Exception:
        return m.value
    return message(content, [], depth + 1, pool)

def message(m, ignore, depth, pool):
    """The canonical bytes. Ignore is a list of paths, each a list of names."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    whole = {m.DESCRIPTOR.fields_by_name[p[0]].number for p in ignore if len(p) == 1}
    records = []
    for field, value in m.ListFields():
        below = [p[1:] for p in ignore if len(p) > 1 and p[0] == field.name]
        if m.DESCRIPTOR.full_name == "google.protobuf.Any" and field.number == 2:
            value = any_content(m, depth, pool)
            if not value:
                continue
        records.append((field.number, -1, known(field, value, below, depth, pool)))
    for r in unknown_fields.UnknownFieldSet(m):
        records.append((r.field_number, r.wire_type, unknown(r, depth)))
    records.sort(key=lambda r: r[:2])  # Stable.
    return b"".join(r[2] for r in records if r[0] not in whole)


# jcs1

def number(literal):
    sign, whole, fraction, exponent = re.fullmatch(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", literal).groups()
    exponent = int(exponent or 0)
    digits = whole + (fraction or "")
    point = len(whole) + exponent - (len(digits) - len(digits.lstrip("0")))
    digits = digits.strip("0")
    if abs(exponent) > MAX_EXPONENT or digits and abs(point - 1) > MAX_EXPONENT:
        raise ValueError("exponent")
    if not digits:
        return "0"
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    return sign + digits[0] + ("." + digits[1:] if digits[1:] else "") + "e" + format(point - 1, "+d")

class Number(str):
    pass

def members(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)

def no_constant(word):
    raise ValueError(word)

def write(v, depth=1):
    if isinstance(v, Number):
        return number(v)
    if isinstance(v, (dict, list)) and depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(v, dict):
        names = sorted(v, key=lambda s: s.encode("utf-16-be"))
        return "{" + ",".join(write(n) + ":" + write(v[n], depth + 1) for n in names) + "}"
    if isinstance(v, list):
        return "[" + ",".join(write(x, depth + 1) for x in v) + "]"
    return json.dumps(v, ensure_ascii=False)

def jcs(text):
    value = json.loads(text.decode("utf-8"), parse_int=Number, parse_float=Number, parse_constant=no_constant, object_pairs_hook=members)
    return write(value).encode("utf-8")  # Refuses a lone surrogate.


def main():
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((here / "vectors.binpb").read_bytes()).file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    vectors = json.loads((here / "vectors.json").read_text("utf-8"))
    checked, wrong = 0, []

    def check(name, got, want):
        nonlocal checked
        checked += 1
        if got != want:
            wrong.append(f"{name}\n  got  {got}\n  want {want}")

    def pb1(v, wire):
        m = message_factory.GetMessageClass(pool.FindMessageTypeByName(v["type"])).FromString(bytes.fromhex(wire))
        return message(m, [p.split(".") for p in v.get("ignore", [])], 1, pool)

    def refused(f):
        try:
            return f()
        except Exception:
            return "refused"

    sha = lambda b: hashlib.sha256(b).hexdigest()
    for v in vectors["pb1"]:
        for wire in v["wire"]:
            canonical = pb1(v, wire)
            check("pb1 " + v["name"], canonical.hex(), v["canonical"])
            check("pb1 " + v["name"], sha(b"pb1\0" + v["type"].encode() + b"\0" + canonical), v["digest"])
    for v in vectors["jcs1"]:
        for text in v["text"]:
            check("jcs1 " + v["name"], jcs(text.encode()).decode(), v["canonical"])
            check("jcs1 " + v["name"], sha(jcs(text.encode())), v["digest"])
    for v in vectors["raw"]:
        check("raw " + v["name"], sha(bytes.fromhex(v["hex"])), v["digest"])
    for v in vectors["combine"]:
        parts = [v["scheme"].encode()] + [bytes.fromhex(p) for p in v["parts"]]
        check("combine " + v["name"], sha(b"".join(struct.pack(">Q", len(p)) + p for p in parts)), v["digest"])
    for v in vectors["pb1_refused"]:
        check("pb1 " + v["name"], refused(lambda: pb1(v, v["wire"])), "refused")
    for v in vectors["jcs1_refused"]:
        text = bytes.fromhex(v["hex"]) if "hex" in v else v.get("text", "").encode()
        check("jcs1 " + v["name"], refused(lambda: jcs(text)), "refused")

    print(*wrong, f"{checked} checked, {len(wrong)} wrong", sep="\n")
    sys.exit(bool(wrong))


main()
