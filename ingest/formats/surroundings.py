"""What stands around a page's content: menus, cookie notices, footers, buttons to share it.

Told by element and role where the page says so; else by the words in `class` and `id`, and then only where the
element is built like one, since losing text is worse than keeping a menu: an article about cookies has no button to
accept them, and a chapter about navigation is more than links.
"""

from __future__ import annotations

import re

from ingest.formats.element import Element

_TAGS = frozenset({
    "script", "style", "noscript", "template", "head", "nav", "footer", "dialog", "iframe", "object", "svg", "canvas",
    "button", "select", "input", "textarea", "annotation", "rp",
})  # fmt: skip
_ROLES = frozenset({
    "navigation", "contentinfo", "search", "menu", "menubar", "toolbar", "tablist", "dialog", "alertdialog", "banner",
})  # fmt: skip
_CONTENT_IN_BANNER = frozenset({"h1", "main", "article"})

_WORDS = re.compile(r"[a-z]+")
_NOTICE = frozenset({"cookie", "cookies", "cookiebar", "cookiebanner", "consent", "gdpr", "ccpa", "cmp", "onetrust"})
_LINKS = frozenset({
    "nav", "navbar", "navigation", "menu", "breadcrumb", "breadcrumbs", "pagination", "pager", "share", "sharing",
    "social", "sitemap", "skip", "skiplink", "related", "tags",
})  # fmt: skip
_FOOT = frozenset({"footer", "colophon", "imprint"})
_LONGEST_NOTICE = 1500  # characters
_LONGEST_FOOT = 3000
_MOSTLY = 0.6  # of the text


def is_surrounding(element: Element) -> bool:
    """Whether an element is no part of the content, as far as the page tells."""
    if element.tag in _TAGS:
        return True
    role = element.get("role")
    if role in _ROLES:
        return not (role == "banner" and _has(element, _CONTENT_IN_BANNER))
    named = f"{element.get('class') or ''} {element.get('id') or ''}"
    if named == " " or element.tag in {"html", "body", "main", "article"}:
        return False
    words = set(_WORDS.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", named).lower()))
    return bool(
        (words & _NOTICE and _is_notice(element))
        or (words & _LINKS and _is_links(element))
        or (words & _FOOT and _is_foot(element))
    )


def is_hidden(element: Element) -> bool:
    """Whether a browser would not show it, by what stands in the element itself."""
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = (element.get("style") or "").replace(" ", "").lower()
    return "display:none" in style or "visibility:hidden" in style


def _is_notice(element: Element) -> bool:
    """A notice can be answered."""
    return (
        _has(element, {"button", "input"})
        and not _has(element, {"h1", "main", "article"})
        and _size(element) <= (_LONGEST_NOTICE)
    )


def _is_links(element: Element) -> bool:
    linked = sum(_size(link) for link in element.iter("a"))
    return 0 < linked >= _MOSTLY * _size(element)


def _is_foot(element: Element) -> bool:
    return not _has(element, {"h1", "main", "article"}) and _size(element) <= _LONGEST_FOOT


def _has(element: Element, tags: frozenset[str] | set[str]) -> bool:
    return any(True for _ in element.iter(*sorted(tags)))


def _size(element: Element) -> int:
    return sum(len(text.strip()) for text in element.itertext())
