"""Pages as they are met on the web. What belongs to the content says KEEP, what stands around it says DROP."""

from __future__ import annotations

_PROSE = "".join(
    f"<p>KEEP-prose-{n}: this paragraph of some length tells how the rack is oiled, by whom, and how often.</p>"
    for n in range(12)
)
_BANNER = (
    '<div id="onetrust-consent-sdk"><div class="cookie-banner"><p>DROP-cookies: we value your privacy.</p>'
    "<button>Accept</button></div></div>"
)
_MENU = '<ul class="nav-menu"><li><a href="/a">DROP-home</a></li><li><a href="/b">DROP-about</a></li></ul>'

SEMANTIC = f"""<!doctype html><html lang="en"><head><title>Oil - Depot</title></head><body>{_BANNER}
<header><nav><a href="/">DROP-nav</a></nav></header>
<main><h1>KEEP-title</h1>{_PROSE}<aside>KEEP-aside: a hint beside the text.</aside></main>
<footer>DROP-footer</footer></body></html>"""

DIVS = f"""<html><head><title>Oil</title></head><body>{_BANNER}
<div id="header">{_MENU}</div>
<div class="breadcrumbs"><a href="/">DROP-crumb</a> &gt; <a href="/x">DROP-here</a></div>
<div id="content"><h1>KEEP-title</h1><h2>KEEP-section</h2>{_PROSE}
<table><tr><th>Part</th><th>Days</th></tr><tr><td>KEEP-cell</td><td>30</td></tr></table>
<ul><li>KEEP-item</li><li>KEEP-other <a href="/x">linked</a></li></ul></div>
<div class="social-share"><a href="/f">DROP-share</a></div>
<div id="footer"><p>DROP-imprint</p></div></body></html>"""

SMALL = f"""<html><body>{_BANNER}<div class="menu"><a href="/">DROP-a</a> <a href="/b">DROP-b</a></div>
<h1>KEEP-title</h1><p>KEEP-short: open from nine to five.</p>
<dl><dt>KEEP-term</dt><dd>KEEP-meaning</dd></dl><div role="contentinfo">DROP-info</div></body></html>"""

FAQ = """<html><body><div role="navigation"><a href="#1">DROP-toc</a></div>
<h1>KEEP-questions</h1>
<details><summary>KEEP-first: how do I pay?</summary><p>KEEP-answer: by card.</p></details>
<h3>KEEP-second</h3><p>KEEP-cash &amp; card: 5&nbsp;EUR</p>
<dialog open>DROP-dialog</dialog></body></html>"""

ABOUT_COOKIES = """<html><body><article id="cookies"><h1>KEEP-how-to-bake-cookies</h1>
<div class="cookie-dough"><p>KEEP-butter: mix it with sugar.</p></div>
<section class="navigation"><p>KEEP-compass: how the captain finds the way, with <a href="/x">a map</a>.</p></section>
<div class="menu"><h2>KEEP-lunch</h2><p>KEEP-soup 5 EUR</p></div></article></body></html>"""

BLOG = f"""<html><head><title>Blog</title></head><body class="footer-dark has-cookie-notice">
<div class="site-header"><div class="navbar">{_MENU}</div></div>
<article><header><h1>KEEP-post</h1></header>{_PROSE}<blockquote>KEEP-quote</blockquote><pre>KEEP-code  x</pre></article>
<div class="pagination"><a href="/1">DROP-previous</a><a href="/2">DROP-next</a></div></body></html>"""

PAGES = {
    "semantic": SEMANTIC,
    "divs": DIVS,
    "small": SMALL,
    "faq": FAQ,
    "about cookies": ABOUT_COOKIES,
    "blog": BLOG,
}
