"""What in a text identifies a machine, its network or a person, or is a secret; everything else stays.

Two measures. In texts that the kernel and its drivers write, only what has the form of an address, a UUID or a key is
replaced. In texts that people write (feature files, logs, objects), words are kept that are known to be harmless: such
as are words or names of things, numbers, versions, sizes. What looks made up by a machine is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from nfd.host.pseudonyms import Pseudonyms

SECRET = re.compile(
    r"(?i)serial(?!i[sz])|sequence.code|asset.?tag|service.?tag|(?:machine|system|boot|instance|provider|chassis).?id(?![a-z])"
    r"|uuid|wwid|wwn|nguid|eui64|uniq(?!ue)|(?:mac|hw).?addr|passw|passphrase|(?<![a-z])(?:pwd|pass|psk)(?![a-z])|token"
    r"|secret|credential|(?:api|access|private|auth|licen[sc]e).?key|salt|cookie"
)
"""In the name of a field: its value identifies something, or is a secret."""
_NAME = (
    rf"[\"']?(?:[\w./-]{{0,120}}?)(?:{SECRET.pattern.removeprefix('(?i)')})[\w./-]{{0,60}}"
    r"(?: (?:number|no|code|id|key|tag))?"
)
_EDGE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_X = "[0-9A-Fa-f]"
_HEX = (
    rf"{_EDGE}{_X}{{8}}(?:-{_X}{{4}}){{3}}-{_X}{{12}}{_END}",
    rf"{_EDGE}{_X}{{32}}{_END}",
    rf"(?<![0-9A-Za-z:-]){_X}{{2}}(?P<mark>[:-])(?:{_X}{{2}}(?P=mark)){{4,18}}{_X}{{2}}(?![0-9A-Za-z:-])",
    rf"(?<![0-9A-Za-z.])(?=[0-9.]*[A-Fa-f]){_X}{{4}}\.{_X}{{4}}\.{_X}{{4}}(?![0-9A-Za-z]|\.[0-9A-Za-z])",
    rf"(?<![0-9A-Za-z:]){_X}{{4}}(?::{_X}{{4}}){{3}}(?![0-9A-Za-z:])",
    rf"(?<=0x)(?:[1256]{_X}{{15}}|[36]{_X}{{31}}){_END}",
)
"""UUIDs; MAC addresses of Ethernet (6 bytes) and InfiniBand (20), EUI-64, with dots; GUIDs; World Wide Names (NAA)."""
_ALWAYS = (
    ("certificate", r"-----BEGIN [A-Z0-9 ]{1,60}-----(?:[^-]|-(?!----))+-----END [A-Z0-9 ]{1,60}-----"),
    ("certificate", r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+"),
    (
        "jwt",
        r"(?<![\w-])(?=[\w-]{11,}+\.[\w-]{8,}+\.)(?P<before>(?:[\w-]*?[^0-9A-Za-z])?)(?P<jwt>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
    ),
    (
        "token",
        rf"{_EDGE}(?:gh[opsru]_|github_pat_|glpat-|sha256~|xox[a-z]-|AKIA|ASIA|k8s-aws-v1\.|hv[sb]\.|npm_|pypi-|sk-)"
        r"[\w+/=.-]{8,}",
    ),
    ("token", rf"{_EDGE}[a-z0-9]{{6}}\.(?=[a-z]*[0-9])[a-z0-9]{{16}}{_END}"),
    ("user", r"(?<=://)[^/\s:@\"']+(?::[^/\s@\"']*)?(?=@)"),
    (
        "bearer",
        r"(?i:(?P<scheme>authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?|\bbearer\s+)"
        r"(?P<shown>(?=[\w+/=.~-]*\d)[\w+/=.~-]{6,}|[\w+/=.~-]{16,}))",
    ),
    (
        "field",
        rf"(?i:(?<![\w./-])(?P<key>{_NAME}[\"']?[ \t]*[:=][ \t]*)"
        r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;&)}\]]+))",
    ),
    ("said", r"(?i:(?P<words>\bserial(?: number| no\.?)\s+)(?P<number>[\w-]{3,}))"),
    (
        "cloud",
        r"(?:aws|gce|azure|openstack|vsphere|oci|ibm|alicloud|digitalocean|hcloud|linode|exoscale)://[^\s\"',}]+",
    ),
    ("cloud", rf"{_EDGE}(?:i|vol|eni|subnet|vpc|sg|ami|snap|lt|rtb|mi)-[0-9a-f]{{8,17}}{_END}|\bocid1\.[\w.-]+"),
    ("storage", r"\b(?:iqn|nqn|eui|naa)\.[\w.:-]{8,}"),
    *(("hex", form) for form in _HEX),
    ("named", rf"{_EDGE}(?P<prefix>[a-z]{{2,5}}x)(?P<digits>[0-9a-f]{{12}}(?:[0-9a-f]{{4}})?){_END}"),
    ("mail", r"(?<![\w.+-])[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.)+[a-z]{2,}\b"),
    ("home", r"(?P<above>/(?:home|Users)/)(?P<person>[\w.-]+)"),
)
"""Kind and form; the first that fits at a place counts. `named`: interfaces and RDMA devices named after their address
(systemd.net-naming-scheme, rdma-core's rdma_rename): enx…, wlx…, wwx…, ibx…, rocex…"""
_HOST = (
    "host",
    r"(?<![\w.@-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?:(?!id\b)[a-z]{2}|(?:co|or|ac|go|web)\.id|com|org|net|edu|gov|cloud"
    r"|tech|dev|app|internal|local|lan|corp|home|intra|intranet|localdomain|private|test|invalid|example)(?![\w-]|\.\w)",
)
_ADDRESSES = (
    ("address", rf"(?<![\w:.])(?:{_X}{{0,4}}:){{2,6}}\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w:]|\.\w)"),
    ("address", rf"(?<![\w:.])(?:{_X}{{0,4}}:){{2,7}}{_X}{{0,4}}(?![\w:])"),
    ("address", r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)"),
    (
        "address",
        r"(?<![0-9._])(?<!\d-)\d{1,3}(?P<dash>[-_])\d{1,3}(?P=dash)\d{1,3}(?P=dash)\d{1,3}(?![0-9A-Za-z_]|[-.]\d)",
    ),
)
"""The last as in names of nodes, ip-10-0-1-23."""
_WORDS = (
    ("kept", r"(?<=sha256:)[0-9a-f]{64}|\bg[0-9a-f]{7,12}\b"),
    ("word", r"[A-Za-z0-9]{5,}"),
)
"""Digests of images and commits are public."""
_VERSION = re.compile(
    r"(?i)(?:(?:version|release|revision|firmware|driver|bios|rev|kernel|microcode|toolkit|library|cuda|dcgm|mofed|build)"
    r"[\w./-]{0,60}[\"']?(?:\s*[:=]\s*|\s+)[\"']?|\bv)$"
)
"""What stands before numbers with dots that are a version."""
_AMOUNT = re.compile(
    r"(?i)(?:time|stamp|date|expir|memory|mem|size|bytes|capacity|hz|freq|total|free|count)[\w.-]{0,20}"
    r"[\"']?\s*[:=]\s*[\"']?$"
)
"""What stands before a time or an amount, which may be a long number."""
_BEFORE = 100
"""Letters that are looked at for that."""
_MEANS_NOTHING = re.compile(
    r"(?i)\s*(?:[ymn]|true|false|yes|no|null|none|nil|unknown|default string|not (?:specified|available|applicable)"
    r"|no asset tag|to be filled by o\.e\.m\.|\{\}|\[\]|\d{0,3}|0+)\s*"
)
_PUBLIC = re.compile(
    r"(?:.*\.)?(?:kubernetes\.io|k8s\.io|x-k8s\.io|openshift\.io|svc\.cluster\.local|projectcalico\.org|cilium\.io)"
    r"|(?:gpu\.|resource\.|helm\.ngc\.|ngc\.)?nvidia\.com|intel\.com|amd\.com|(?:.*\.)?example\.(?:com|org|net)"
    r"|(?:.*\.)?k8s-sigs\.io|(?:github|githubusercontent|docker|redhat)\.(?:com|io)|(?:registry-1|index)\.docker\.io"
    r"|(?:ghcr|quay|gcr|nvcr)\.io|.*\.(?:py|sh|rs|md|so|pl|cc|ps|la|mo|go)"
)
"""Names that all clusters share, and of files."""
_DEVICE = re.compile(
    r"(?:en|eth|wl|ww|ib|sl)(?:P\d+)?(?:[ospfndiu]\d+|np\d+|v\d+)+|nvme\d+(?:[cnp]\d+)*|mlx\d\w*|\d+[hms](?:\d+[ms])*"
    r"|avx\w+|[sv]d[a-z]\d*|\d{8}T\d{6}Z?|x86\d*|v\d+(?:alpha|beta)\d+|sha\d+|crc\d+\w*|aes\w{0,6}",
    re.IGNORECASE | re.ASCII,
)
"""Names of devices, durations, times and instruction sets, which change from letters to digits often."""
_ADDRESS_SIZES = (12, 16, 32)


class Identifying:
    """Replaces in texts, each place once.

    `free`: people wrote them, so words that look made up by a machine go, too; with `strict` also long numbers, and
    what might be one of the short ones that makers print on a case. `names` are replacements of whole names; with
    them names of hosts go.
    """

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        *,
        free: bool = False,
        strict: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._pseudonyms = pseudonyms
        self._names = names or {}
        self._strict = strict
        known = "|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
        forms = [
            *((("known", rf"(?<![\w.-])(?:{known})(?![\w-]|\.\w)"),) if known else ()),
            *_ALWAYS,
            *((_HOST,) if names is not None else ()),
            *_ADDRESSES,
            *(_WORDS if free else ()),
        ]
        self._kinds = {f"_{number}": kind for number, (kind, _) in enumerate(forms)}
        pattern = "|".join(f"(?P<_{number}>{form})" for number, (_, form) in enumerate(forms))
        self._pattern = re.compile(pattern, re.ASCII)
        self._replacing: dict[str, Callable[[re.Match[str]], str]] = {
            "known": lambda found: self._names[found[0]],
            "field": lambda found: found["key"] + self._field(found["key"], found["value"]),
            "said": lambda found: found["words"] + self.value(found["number"]),
            "bearer": lambda found: f"{found['scheme']}{self._numbered('token', found['shown'])}",
            "home": lambda found: f"{found['above']}user-{pseudonyms.numbered('user', found['person'])}",
            "named": lambda found: found["prefix"] + pseudonyms.hex(found["digits"]),
            "hex": lambda found: pseudonyms.hex(found[0]),
            "host": self._host,
            "jwt": lambda found: f"{self.text(found['before'])}{self._numbered('token', found['jwt'])}",
            "kept": lambda found: found[0],
        }

    def text(self, text: str, key: str = "") -> str:
        """The text without them. `key` is the name of the field that it is the value of, if it is one."""
        if key and SECRET.search(key):
            return self._field(key, text)
        return self._pattern.sub(lambda found: self._replace(found, key), text)

    def value(self, text: str) -> str:
        """The value of a field that holds what identifies, or a secret: all of it, unless it means nothing."""
        if _MEANS_NOTHING.fullmatch(text):
            return text
        parts, at = [], 0
        for found in _ANY_HEX.finditer(text):
            parts += [self._rest(text[at : found.start()]), self._pseudonyms.hex(found[0])]
            at = found.end()
        return "".join((*parts, self._rest(text[at:])))

    def parts(self, text: str, key: str = "") -> Iterator[tuple[str, str]]:
        """The parts that `text` would replace, each with its kind, for `fresh`.

        Kind `kept` is what has the form of an address and is a version.
        """
        if key and SECRET.search(key):
            yield from self._parts_of_value(text)
            return
        for found in self._pattern.finditer(text):
            kind = self._kinds[found.lastgroup or ""]
            if kind == "field":
                yield from self._parts_of_value(found["value"].strip("\"'"))
            elif kind in ("said", "bearer"):
                yield "secret", found["number" if kind == "said" else "shown"]
            elif self._replace(found, key) != found[0]:
                yield kind if kind in ("address", "hex", "host", "named") else "secret", found[0]
            elif kind == "address":
                yield "kept", found[0]

    def _parts_of_value(self, text: str) -> Iterator[tuple[str, str]]:
        if text.startswith("/"):
            yield from self.parts(text)
        elif not _MEANS_NOTHING.fullmatch(text):
            yield from (("hex", found[0]) for found in _ANY_HEX.finditer(text))
            yield from (("secret", rest) for rest in _ANY_HEX.sub("\0", text).split("\0") if self._rest(rest) != rest)

    def fresh(self, kind: str, part: str) -> str:
        """The replacement of a part alone; it is legal in a label where the part is."""
        if kind == "address":
            mark = "" if ":" in part else next(char for char in part if not char.isdigit())
            fresh = self._pseudonyms.address(part.replace(mark, ".") if mark else part)
            return fresh.replace(".", mark) if mark else fresh
        if kind == "host":
            return f"host-{self._pseudonyms.numbered('host', part)}.example"
        if kind == "named":
            prefix, mark, digits = part.rpartition("x")
            return prefix + mark + self._pseudonyms.hex(digits)
        is_hex = len(part) in _ADDRESS_SIZES and set(part.lower()) <= set("0123456789abcdef")
        return self._pseudonyms.hex(part) if kind == "hex" or is_hex else self._pseudonyms.secret(part)

    def _rest(self, text: str) -> str:
        return text if _KIND_OF_ID.fullmatch(text) else self._pseudonyms.secret(text)

    def _replace(self, found: re.Match[str], key: str) -> str:
        kind = self._kinds[found.lastgroup or ""]
        if kind in ("address", "word"):
            text = found.string[max(0, found.start() - _BEFORE) : found.start()]
            before = f"{key}: {text}" if key else text
            return self._address(found, before) if kind == "address" else self._word(found[0], before)
        replace = self._replacing.get(kind)
        return self._numbered(kind, found[0]) if replace is None else replace(found)

    def _numbered(self, kind: str, text: str) -> str:
        return f"({kind} {self._pseudonyms.numbered(kind, text)})"

    def _field(self, key: str, value: str) -> str:
        """A path stays as a path; quotes stay."""
        bare = value.strip("\"'")
        if bare.startswith("/") and re.search(r"(?i)(?:file|path|dir)\W*$", key):
            return self._pattern.sub(lambda found: self._replace(found, ""), value)
        return value.replace(bare, self.value(bare), 1) if bare else value

    def _host(self, found: re.Match[str]) -> str:
        public = _PUBLIC.fullmatch(found[0])
        return found[0] if public else f"host-{self._pseudonyms.numbered('host', found[0])}.example"

    def _address(self, found: re.Match[str], before: str) -> str:
        if _VERSION.search(before):
            return found[0]
        mark = found["dash"]
        try:
            fresh = self._pseudonyms.address(found[0].replace(mark, ".") if mark else found[0])
        except ValueError:
            return found[0]
        return fresh.replace(".", mark) if mark else fresh

    def _word(self, word: str, before: str) -> str:
        if self._is_harmless(word) or (word.isdigit() and _AMOUNT.search(before)):
            return word
        is_hex = len(word) in _ADDRESS_SIZES and set(word.lower()) <= set("0123456789abcdef")
        return self._pseudonyms.hex(word) if is_hex else self._pseudonyms.secret(word)

    def _is_harmless(self, word: str) -> bool:
        """Whether a run of letters and digits is a word, a number or a name, rather than made up by a machine."""
        if word.isdigit():
            return not self._strict or len(word) < 8
        if word.isalpha():
            few_capitals = word.isupper() or 3 * sum(map(str.isupper, word)) <= len(word)
            return len(set(word)) <= 2 or (len(word) <= 24 and (len(word) < 12 or few_capitals))
        if _DEVICE.fullmatch(word):
            return True
        if len(word) >= 8 and set(word.lower()) <= set("0123456789abcdef"):
            return False
        changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(word))
        return changes <= 3 and (not self._strict or len(word) < 12)


_ANY_HEX = re.compile("|".join(_HEX), re.ASCII)
_KIND_OF_ID = re.compile(r"(?:GPU|MIG|DLA|[Uu][Uu][Ii][Dd]|urn|0x|[\W_])*", re.ASCII)
"""What may stand around an address or a UUID."""
