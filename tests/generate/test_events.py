"""The event reader: however the network cuts the bytes, the events are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.events import Event, EventReader, EventTooLarge

STREAM = (
    b"\xef\xbb\xbf: a comment first\n\n"
    b'data: {"content": "na\xc3\xafve \xe6\x9d\xb1\xe4\xba\xac"}\n\n'
    b"event: note\r\ndata: two\r\ndata:lines\r\n\r\n"
    b"id: 7\nretry: 10\n\n"
    b"data: after three blank lines\n\n\n\n"
    b"data\n\n"
    b"data:  one space belongs to it\r\r"
    b"error: older llama.cpp\n\n"
    b"data: [DONE]\n"
)
EVENTS = [
    Event('{"content": "naïve 東京"}'.encode()),
    Event(b"two\nlines", b"note"),
    Event(b"after three blank lines"),
    Event(b""),
    Event(b" one space belongs to it"),
    Event(b"older llama.cpp", b"error"),
    Event(b"[DONE]"),
]


def read(chunks: list[bytes], reader: EventReader | None = None) -> list[Event]:
    reader = reader or EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [*events, *reader.end()]


def cut(stream: bytes, places: set[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(edges)]


def test_the_stream_reads_as_the_standard_says() -> None:
    assert read([STREAM]) == EVENTS


@given(st.sets(st.integers(0, len(STREAM)), max_size=40))
def test_any_cutting_gives_the_same_events(places: set[int]) -> None:
    assert read(cut(STREAM, places)) == EVENTS


def test_bytes_that_arrive_one_by_one_give_the_same_events() -> None:
    assert read([STREAM[place : place + 1] for place in range(len(STREAM))]) == EVENTS


@given(st.text("ad:t \n\r\ufeff東", max_size=60), st.sets(st.integers(0, 200), max_size=12))
def test_any_text_reads_alike_whole_and_cut(text: str, places: set[int]) -> None:
    stream = text.encode()
    assert read(cut(stream, places)) == read([stream])


def test_an_event_is_given_as_soon_as_its_blank_line_came() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data: 1\n\ndata: 2\n")) == [Event(b"1")]
    assert list(reader.feed(b"\n")) == [Event(b"2")]


def test_only_the_end_mark_ends_a_stream() -> None:
    assert Event(b"[DONE]").done
    assert not Event(b'{"text": "[DONE]"}').done


def test_bytes_without_an_end_are_refused_at_the_limit() -> None:
    reader = EventReader(limit=100)
    assert list(reader.feed(b"data: no blank line")) == []
    with pytest.raises(EventTooLarge, match="100 bytes"):
        list(reader.feed(b"x" * 100))
