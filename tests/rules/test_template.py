"""Templates: a table of what Go 1.26 text/template with Sprig 3.3 gives, and the limits that are ours."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nfd.rules.template import MAX_TEXT, Data, Template, TemplateError, parse_template
from tests.rules.clocks import slowness

TABLE = Path(__file__).with_name("templates.jsonl")
"""One line per template: the text, and the output or null for a failure."""

DATA: Data = {
    "pci": {
        "device": [
            {"class": "0300", "vendor": "10de", "device": "2330"},
            {"class": "0200", "vendor": "15b3", "device": "1021", "vfs": "8"},
            {"class": "0302", "vendor": "10de", "device": "20b5"},
        ]
    },
    "os": {
        "release": [
            {"Name": "ID", "Value": "ubuntu"},
            {"Name": "NAME", "Value": "Ubuntu Linux"},
            {"Name": "VERSION_ID", "Value": "22.04"},
        ]
    },
    "mod": {"loaded": [{"Name": "ib_core"}, {"Name": "mlx5_core"}, {"Name": "nvme"}]},
}
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def render(text: str, data: Data = DATA) -> str:
    return Template(text).render(data, clock=lambda: NOON)


def test_gives_what_go_gives() -> None:
    wrong = []
    for line in TABLE.read_text().splitlines():
        text, expected = json.loads(line)
        try:
            got = render(text)
        except TemplateError:
            got = None
        if got != expected:
            wrong.append((text, expected, got))
    assert not wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ now | date "2006-01-02 15:04" }}', "2026-03-04 12:00"),
        ("{{ now.Month }} {{ now.Weekday }} {{ now.Year }} {{ eq (now.Month | int) 3 }}", "March Wednesday 2026 true"),
        ("{{ ago (now) }}", "0s"),
        ('{{ ago (toDate "2006-01-02" "2026-03-04") }}', "12h0m0s"),
        ('{{ dateInZone "15:04 MST" (now) "Europe/Berlin" }}', "13:00 CET"),
        ('{{ dateInZone "15:04" (now) "../../etc/passwd" }}', "12:00"),
    ],
)
def test_depends_on_time(text: str, expected: str) -> None:
    assert render(text) == expected


def test_there_is_no_time_without_a_clock() -> None:
    with pytest.raises(TemplateError, match="only the worker's own rules may read the present time"):
        Template("{{ now }}").render({})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{{ genPrivateKey "rsa" }}', "line 1: function 'genPrivateKey' makes keys or passwords"),
        ("{{ if false }}{{ htpasswd `a` `b` }}{{ end }}", "function 'htpasswd' makes keys"),
        ("a\n{{ uuidv4 }}", "line 2: function 'uuidv4' gives another value each time"),
        ("{{ randAlphaNum 8 }}", "'randAlphaNum' gives another value"),
        ("{{ randBytes 6 | len }}", "'randBytes' gives another value"),
        ("{{ 4 | randInt 3 }}", "'randInt' gives another value"),
        ("{{ len (shuffle `abc`) }}", "'shuffle' gives another value"),
    ],
)
def test_what_a_label_must_not_be_made_of_is_refused(text: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        parse_template(text)


def test_size_of_the_text_is_limited() -> None:
    assert render("x" * MAX_TEXT) == "x" * MAX_TEXT
    with pytest.raises(TemplateError, match=f"more than {MAX_TEXT} bytes"):
        render("x" * (MAX_TEXT - 1) + "é")


@pytest.mark.parametrize(
    "text",
    [
        "{{ range 1000000 }}{{ range 1000000 }}{{ end }}{{ end }}",
        "{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}",
        "{{ range 100000000 }}{{ end }}",
        "{{ until 1000000000 }}",
        '{{ repeat 1000000000 "x" }}',
        '{{ $x := "x" }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}{{ $x }}',
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ eq (len (uniq (list $x $x))) 1 }}",
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ deepCopy $x }}",
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = concat $x $x }}{{ end }}{{ $x }}",
        '{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}',
        '{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toJson $d }}',
        '{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ merge $d (dict "d" $d) }}{{ deepEqual $d (dict "d" $d) }}',
        '{{ $x := repeat 100000 "a" }}{{ replace "a" $x $x }}',
        '{{ $x := repeat 100000 "a" }}{{ regexReplaceAll "a" $x $x }}',
        '{{ $x := repeat 100000 "a" }}{{ regexReplaceAll "(a+)" $x (repeat 30000 "$1") }}',
        '{{ range 200 }}{{ $_ := join (repeat 1000 "x") (until 100000) }}{{ end }}',
        '{{ uniq (splitList "" (repeat 20000 "abcdefgh")) }}{{ uniq (until 100000) }}',
        '{{ printf "%99999999d" 1 }}{{ range 1000 }}{{ printf "%65000d" 1 }}{{ end }}',
        '{{ indent 100000 (repeat 100000 "\\n") }}',
        '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
        '{{ define "t" }}{{ template "t" . }}{{ template "t" . }}{{ end }}{{ range 100 }}{{ template "t" . }}{{ end }}',
        "{{ wrapWith 1 (repeat 1000 `y`) (repeat 100000 `x`) }}",
        "{{ seq 1 100000000 }}",
        "(" * 10 + "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
        "{{ if true }}" * 2_000 + "{{ end }}" * 2_000,
        "{{ " + "1" * 60_000 + " }}",
        "{{ 1e99999999 }}",
        '{{ fromJson (print (repeat 50000 "[") (repeat 50000 "]")) | toJson | len }}{{ fail "x" }}',
        '{{ mulf 1e300 1e300 | int }}{{ div 1 "x" }}',
        "{{ chunk 0 (list 1) }}",
        "\0{{ \0 }}",
    ],
)
def test_hostile_templates_end_soon_with_an_error(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(TemplateError):
        render(text)
    assert time.process_time() - begin < 3 * slowness()


@pytest.mark.parametrize(
    "text",
    [
        "{{ if false }}" + "{{ else if false }}" * 2_000 + "{{ end }}",
        "{{/* c */}}" * 5_000,
        "{{ 1 | " + "print | " * 4_000 + "len }}",
        "{{ .pci.device | len }}" * 2_000,
    ],
)
def test_long_templates_are_no_problem(text: str) -> None:
    render(text)


def test_hostile_pattern_is_linear() -> None:
    begin = time.process_time()
    assert render('{{ regexMatch "(a+)+$" (print (repeat 50000 "a") "b") }}') == "false"
    assert time.process_time() - begin < 1 * slowness()


def test_data_is_not_changed_by_a_run() -> None:
    data: Data = {"a": {"b": [{"Name": "z"}, {"Name": "y"}]}}
    render('{{ range .a.b }}{{ .Name }}{{ end }}{{ $d := dict "x" 1 }}{{ set $d "y" 2 }}', data)
    assert data == {"a": {"b": [{"Name": "z"}, {"Name": "y"}]}}
