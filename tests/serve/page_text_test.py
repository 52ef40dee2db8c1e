#!/usr/bin/env python3
"""How the page shows what a model or a person writes: Markdown, markup, directions of writing."""
from page_case import PageCase, conversation
from server_case import main

EVIL = '<script>window.evil=1</script><img src="http://evil.example/x" onerror="window.evil=2">'
REVERSE = "\u202e"


class Text(PageCase):
    def show(self, answer, question="q"):
        self.put(conversation("x", question, answer))

    def html(self, selector):
        return self.browser.js(f"[...document.querySelectorAll('{selector}')].map(e => e.innerHTML)")

    def links(self):
        return self.browser.js("[...document.querySelectorAll('#thread a')].map(a => [a.innerText, "
                               "a.getAttribute('href'), a.rel, a.target])")

    def test_markup_is_text(self):
        browser = self.browser
        # As an answer, in every place where Markdown makes elements.
        answer = "\n\n".join([EVIL, "# " + EVIL, "- " + EVIL, "> " + EVIL, f"**{EVIL}**",
                              f"***{EVIL}***", "```\n" + EVIL + "\n```", "`" + EVIL + "`",
                              f"| a | {EVIL} |\n|---|---|\n| {EVIL} | b |",
                              "[x](javascript:window.evil=3)", f"[{EVIL}](https://a.example)",
                              "![x](javascript:window.evil=4)", "![x](data:text/html,x)",
                              f"![{EVIL}](http://b.example/y)", "<javascript:window.evil=5>",
                              'https://c.example/"onmouseover="window.evil=6'])
        self.show(answer, EVIL)
        self.assertGreaterEqual(browser.text(".assistant").count("<script>"), 11)
        self.assertEqual(browser.text(".user .text"), EVIL)
        self.assertEqual(browser.js("document.querySelectorAll('#thread :is(img, script, iframe, "
                                    "style, svg, form)').length"), 0)
        hrefs = {href for _, href, _, _ in self.links()}
        self.assertEqual(hrefs, {"http://evil.example/x", "https://a.example", "http://b.example/y",
                                 "https://c.example/"})
        self.assertEqual(browser.js(
            "[...document.querySelectorAll('#thread *')].flatMap(e => [...e.attributes]).filter("
            "a => a.name.startsWith('on') || a.name === 'style').length"), 0)
        self.assertIsNone(browser.js("window.evil"))
        # Nothing of it is loaded: tearDown looks at all requests.

    def test_markdown(self):
        self.show("# Title\n\nOne **bold** and *soft* `code` 2 * 3 * 4 snake_case_name.\n\n"
                  "1. one\n2. two\n   - inner\n\n* a\n* b\n\n```python\nif a < b:\n    pass\n```\n"
                  "> quoted\n\nopen ```\n~~~\nnot closed")
        shape = self.browser.js(
            "[...document.querySelectorAll('.assistant .text > *')].map(e => e.nodeName).join(' ')")
        self.assertEqual(shape, "H3 P OL UL FIGURE BLOCKQUOTE P FIGURE")
        self.assertEqual(self.html(".assistant p")[0],
                         "One <strong>bold</strong> and <em>soft</em> <code>code</code> 2 * 3 * 4 "
                         "snake_case_name.")
        self.assertEqual(self.browser.text("figure.code code"), "if a < b:\n    pass")
        self.assertEqual(self.browser.js("document.querySelectorAll('.assistant ol ul li').length"), 1)

    def test_emphasis_and_backslashes(self):
        self.show("***both*** **bold *and soft*** ~~gone~~\n\n"
                  "\\*not soft\\* \\# \\_a\\_ \\`b\\` C:\\dir 1\\. `\\*`\n\n\\# no heading")
        self.assertEqual(self.html(".assistant p"), [
            "<strong><em>both</em></strong> <strong>bold <em>and soft</em></strong> <s>gone</s>",
            "*not soft* # _a_ `b` C:\\dir 1. <code>\\*</code>", "# no heading"])

    def test_links(self):
        self.show("See https://a.example/x_y_(z), (http://b.example/?q=1&r=*2*) and "
                  "<https://c.example/>. [https://bank.example](https://d.example \"title\") "
                  "ftp://e.example ![a picture](https://f.example/p.png) ![](https://g.example/) "
                  "`https://h.example` https:// [b **c**](https://i.example)")
        apart = ["noopener noreferrer nofollow", "_blank"]
        self.assertEqual(self.links(), [[text, href, *apart] for text, href in (
            ("https://a.example/x_y_(z)", "https://a.example/x_y_(z)"),
            ("http://b.example/?q=1&r=*2", "http://b.example/?q=1&r=*2"),
            ("https://c.example/", "https://c.example/"),
            ("https://bank.example", "https://d.example"),
            ("Image: a picture", "https://f.example/p.png"),
            ("Image: https://g.example/", "https://g.example/"),
            ("b c", "https://i.example"))])

    def test_tables(self):
        browser = self.browser
        self.show("Before\n| Name | Count | Mid |\n|:-----|------:|:---:|\n| `a` \\| b | **1** | x |\n"
                  "| c | 2 |\n\n| no | table |\n|---|\n| 1 | 2 |\n\nx | y\n-|-\n1 | 2\n- item")
        shape = browser.js("[...document.querySelectorAll('.assistant .text > *')].map("
                           "e => e.nodeName).join(' ')")
        self.assertEqual(shape, "P DIV P DIV UL")
        self.assertEqual(self.html("table:first-of-type th")[:3], ["Name", "Count", "Mid"])
        self.assertEqual(self.html(".table:nth-of-type(1) td"),
                         ["<code>a</code> | b", "<strong>1</strong>", "x", "c", "2"])
        self.assertEqual(browser.js("[...document.querySelectorAll('.table td')].slice(0, 3).map("
                                    "e => getComputedStyle(e).textAlign)"), ["start", "end", "center"])
        # A wide one scrolls in its own place.
        browser.size(360, 640)
        row = "| " + " | ".join(f"column_{i}" for i in range(30)) + " |"
        self.show(row + "\n" + "|---" * 30 + "|\n" + row)
        self.assertLessEqual(browser.js("document.documentElement.scrollWidth"), 360)
        self.assertGreater(browser.js("document.querySelector('.table').scrollWidth"), 1000)

    def test_what_would_be_slow_is_plain(self):
        browser = self.browser
        self.show("\n\n".join([("|a" * 50 + "\n") + "|-" * 50 + "\n" + ("|a" * 50 + "\n") * 400,
                               "**a " * 1900, "`" * 7900, "[" * 7900, "https://a" + "(" * 3900,
                               "# " + " " * 100_000 + "x"]))
        self.assertEqual(browser.js("document.querySelectorAll('table').length"), 0)

    def test_letters_that_turn_the_line_around(self):
        browser = self.browser
        self.show(f"`a{REVERSE}b` end\n\n[a{REVERSE}b](https://a.example) end\n\n"
                  f"**a{REVERSE}b** end\n\nשלום עולם\n\n- שלום\n\nplain {REVERSE}text\nnext line",
                  question=f"שלום\nleft {REVERSE}right\nlast line")
        # What follows stands to the right of what goes before.
        rights = browser.js("""[...document.querySelectorAll('.assistant p')].slice(0, 3).map(p => {
          const range = document.createRange(); const end = p.lastChild;
          range.setStart(end, 1); range.setEnd(end, 2); const e = range.getBoundingClientRect();
          range.setStart(end, 3); range.setEnd(end, 4); const d = range.getBoundingClientRect();
          return p.firstChild.getBoundingClientRect().right <= e.left && e.left < d.left; })""")
        self.assertEqual(rights, [True] * 3)
        # A line is set from the side where its own writing begins.
        sides = browser.js("""(() => { const side = (node, from, to) => { const range =
          document.createRange(); range.setStart(node, from); range.setEnd(node, to);
          const r = range.getBoundingClientRect(); const box = (node.parentElement)
          .getBoundingClientRect(); return r.left - box.left < box.right - r.right ? 'left' : 'right'; };
          const text = document.querySelector('.user .inner').firstChild;
          const last = text.data.indexOf('last'); const hebrew = document.querySelectorAll(
          '.assistant p')[3].firstChild; const p = document.querySelectorAll('.assistant p')[4];
          const next = p.firstChild.data.indexOf('next');
          return [side(text, 0, 4), side(text, last, last + 9), side(hebrew, 0, hebrew.length),
          side(p.firstChild, next, next + 9)]; })()""")
        self.assertEqual(sides, ["right", "left", "right", "left"])
        # A title and a file's name turn nothing but themselves around.
        self.put({**conversation("y", "q"), "title": f"a{REVERSE}b"})
        browser.click("#open-chats")
        browser.click("#chat-list .link")
        ordered = browser.js("""(() => { const nodes = document.getElementById('undo-text').childNodes;
          const at = [...nodes].map(node => { const r = document.createRange(); r.selectNode(node);
          return r.getBoundingClientRect().left; }); return at[0] < at[1] && at[1] < at[2]; })()""")
        self.assertTrue(ordered)
        self.assertEqual(browser.js("document.getElementById('prompt').dir"), "auto")


class Layout(PageCase):
    """What stands where, and what is cut."""
    FIGURES = {"prompt": 12345, "cached": 11000, "generated": 1024, "reason": "length", "queue": 0,
               "first": 12.34, "prefillRate": 1234.5, "decodeRate": 123.4}

    def test_figures_take_one_row(self):
        browser = self.browser
        one = conversation("x", "q", "An answer.")
        one["messages"][1]["figures"] = self.FIGURES
        self.put(one)
        for width, has_live_beside in ((800, False), (1040, False), (1041, True), (1400, True)):
            browser.size(width, 700)
            # The page hears of its new width in its own time.
            browser.wait(f"document.getElementById('live').checkVisibility() === "
                         f"{str(has_live_beside).lower()}", f"live state at {width} pixels")
            rows = browser.js("new Set([...document.querySelectorAll('.figures > div')].map("
                              "e => e.getBoundingClientRect().top)).size")
            self.assertEqual(rows, 1, width)
            self.assertTrue(browser.js("document.getElementById('scroll').scrollWidth <= "
                                       "document.getElementById('scroll').clientWidth"), width)
            self.assertRegex(browser.text("[data-figure=prefill]"), r"prefill\s+1,23\d/s")

    def test_the_header_has_its_words_from_800_pixels_on(self):
        browser = self.browser
        for width in (761, 800, 1400):
            browser.size(width, 600)
            for name in ("New", "Chats", "Settings", "Live"):
                self.assertIn(name, browser.text("header"), width)
            boxes = browser.js("[...document.querySelectorAll('header > *')].filter(e => "
                               "e.checkVisibility()).map(e => e.getBoundingClientRect()).map("
                               "r => [r.left, r.right])")
            for (_, right), (left, _) in zip(boxes, boxes[1:]):
                self.assertLessEqual(right, left + 0.5, width)
            self.assertLessEqual(boxes[-1][1], width)

    def test_fingers_have_no_keys(self):
        browser = self.browser
        browser.size(360, 640)
        self.assertTrue(browser.js("document.getElementById('hints').checkVisibility()"))
        browser.touch(True)
        try:
            self.assertFalse(browser.js("document.getElementById('hints').checkVisibility()"))
        finally:
            browser.touch(False)

    def test_no_placeholder_is_cut(self):
        browser = self.browser
        for width in (360, 800):
            browser.size(width, 700)
            browser.click("#open-settings")
            cut = browser.js("""[...document.querySelectorAll('#settings input')].filter(e => {
              const s = getComputedStyle(e); const c = document.createElement('canvas').getContext('2d');
              c.font = s.font; const room = e.clientWidth - parseFloat(s.paddingLeft) -
              parseFloat(s.paddingRight) - 18; return c.measureText(e.placeholder).width > room; })
              .map(e => e.id)""")
            self.assertEqual(cut, [], width)
            browser.key("Escape")

    def test_a_long_message_scrolls_inside_of_its_corners(self):
        browser = self.browser
        self.put(conversation("x", "word " * 600), conversation("y"))
        inside = browser.js("""(() => { const box = document.querySelector('.user .text');
          const all = [box, ...box.querySelectorAll('*')].filter(e => e.scrollHeight > e.clientHeight + 1);
          const r = all[0].getBoundingClientRect(); const b = box.getBoundingClientRect();
          return all.length === 1 && r.right < b.right - 2 && r.top > b.top + 8 &&
          r.bottom < b.bottom - 8; })()""")
        self.assertTrue(inside)

    def test_a_wrong_setting_is_told_in_place(self):
        browser = self.browser
        browser.click("#open-settings")
        for name, value, words in (("temperature", "11", "A number from 0 to 10."),
                                   ("top_p", "-1", "A number from 0 to 1."),
                                   ("max_tokens", "1.5", "A whole number from 1 on."),
                                   ("seed", "1.5", "A whole number.")):
            browser.js(f"document.getElementById('{name}').select()")
            browser.type(value)
            self.assertEqual(browser.text(f"#{name}-problem"), words)
            self.assertEqual(browser.js(f"document.getElementById('{name}').ariaInvalid"), "true")
            browser.click("#settings [value=done]")
            self.assertTrue(browser.js("document.getElementById('settings').open"))
            self.assertEqual(browser.js("document.activeElement.id"), name)
            browser.js(f"document.getElementById('{name}').select()")
            browser.type("1")
            self.assertEqual(browser.text(f"#{name}-problem"), "")
        # No bubble of the browser's own, which has the browser's language and looks.
        self.assertTrue(browser.js("[...document.forms].filter(f => f.querySelector('[required], "
                                   "[min], [max], [step]')).every(f => f.noValidate)"))
        browser.click("#settings [value=done]")
        self.assertFalse(browser.js("document.getElementById('settings').open"))


if __name__ == "__main__":
    main()
