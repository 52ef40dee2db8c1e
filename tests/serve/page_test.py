#!/usr/bin/env python3
"""The page at "/" in a headless Chromium, with a real server and a real model."""
import json
import threading

from browser import ALT, SHIFT
from page_case import DONE, PageCase
from server_case import CHAT, PLAIN, Server, main, user, wait_until

LONG = "The quick brown fox jumps over the lazy dog near the river bank. "


class Page(PageCase):
    def test_files(self):
        status, headers, text = self.server.ask("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'"):
            self.assertIn(rule, headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        head = self.server.ask("HEAD", "/")
        self.assertEqual((head[0], head[2], head[1]["Content-Length"]),
                         (200, "", str(len(text.encode()))))
        again = self.server.ask("GET", "/", headers={"If-None-Match": headers["ETag"]})
        self.assertEqual((again[0], again[2]), (304, ""))
        self.assertEqual(self.server.ask("GET", "/page/main.js")[1]["Content-Type"],
                         "text/javascript; charset=utf-8")
        self.assertEqual(self.server.ask("GET", "/page/favicon.svg")[1]["Content-Type"],
                         "image/svg+xml")
        for path in ("/page/", "/page/none.js", "/page/../page/main.js", "/index.html"):
            self.assertEqual(self.server.ask("GET", path)[0], 404)
        self.assertEqual(self.server.ask("POST", "/", {})[0], 405)

    def test_type_stream_figures_and_a_second_turn(self):
        browser = self.browser
        answer = self.ask("Name three colours.")
        direct = self.post(CHAT, messages=user("Name three colours."), temperature=0, max_tokens=24)
        self.assertEqual(self.kept()[0]["messages"][1]["content"],
                         direct["choices"][0]["message"]["content"])
        self.assertTrue(answer)
        figures = browser.text(".message:last-child .figures")
        for word in ("prompt", "first token", "prefill", "decode", "/s", "stop"):
            self.assertIn(word, figures)
        self.assertEqual(browser.text("[data-figure=prompt] dd"),
                         str(direct["usage"]["prompt_tokens"]))
        self.ask("And three animals?")
        messages = self.kept()[0]["messages"]
        self.assertEqual([one["role"] for one in messages],
                         ["user", "assistant", "user", "assistant"])
        history = [{"role": one["role"], "content": one["content"]} for one in messages[:3]]
        direct = self.post(CHAT, messages=history, temperature=0, max_tokens=24)
        self.assertEqual(messages[3]["content"], direct["choices"][0]["message"]["content"])

    def test_settings_are_sent(self):
        browser = self.browser
        browser.click("#open-settings")
        browser.click("#system")
        browser.type("Answer in French.")
        browser.js("for (const [id, value] of [['temperature', '1.5'], ['seed', '11'], ['max_tokens', "
                   "'9'], ['top_p', '0.8']]) { const f = document.getElementById(id); f.value = value;"
                   "f.dispatchEvent(new Event('input')); }")
        browser.click("#settings [value=done]")
        self.ask("Hello")
        direct = self.post(CHAT, messages=[{"role": "system", "content": "Answer in French."},
                                           *user("Hello")],
                           temperature=1.5, seed=11, max_tokens=9, top_p=0.8)
        self.assertEqual(self.kept()[0]["messages"][1]["content"],
                         direct["choices"][0]["message"]["content"])

    def test_stop_by_key_and_by_button(self):
        browser = self.browser
        self.open(self.server, max_tokens="4000", temperature="1", seed="3")
        for stop in (lambda: browser.key("Escape"), lambda: browser.click("#stop")):
            self.send("Tell me a very long story about a dragon, with many chapters.")
            browser.wait("document.querySelector('.running .text')?.innerText.length > 20",
                         "text streams")
            stop()
            browser.wait(DONE, "it has stopped")
            wait_until(lambda: self.status()["running"] == 0, "nothing runs any more", 20)
            self.assertIn("you stopped it", browser.text(".message:last-child"))
            self.assertGreater(len(self.kept()[0]["messages"][-1]["content"]), 20)
        self.assertFalse(browser.js("document.getElementById('send').hidden"))

    def test_reload_keeps_the_conversation(self):
        browser = self.browser
        answer = self.ask("Name three colours.")
        browser.reload()
        browser.wait("document.querySelectorAll('.message').length === 2", "the history is there")
        self.assertEqual(browser.text(".message:last-child .text"), answer)
        browser.click("#new-chat")
        self.assertEqual(browser.js("document.querySelectorAll('.message').length"), 0)
        browser.click("#open-chats")
        browser.click(".chat-list .open")
        browser.wait("document.querySelectorAll('.message').length === 2", "it is opened again")
        # In mid-answer: what has come is kept.
        self.open(self.server, max_tokens="4000", temperature="1", seed="3")
        self.send("Tell me a very long story.")
        browser.wait("document.querySelector('.running .text')?.innerText.length > 20", "it streams")
        browser.reload()
        browser.wait("document.querySelectorAll('.message').length === 2", "the history is there")
        # It was nobody's wish.
        self.assertIn("the page was reloaded", browser.text(".message:last-child"))
        self.assertNotIn("you stopped", browser.text(".message:last-child"))
        wait_until(lambda: self.status()["running"] == 0, "the left request has ended", 20)

    def test_retry_edit_and_copy(self):
        browser = self.browser
        first = self.ask("Name three colours.")
        browser.click(".message:last-child [data-action=retry]")
        browser.wait(DONE, "answered again")
        self.assertEqual(browser.text(".message:last-child .text"), first)
        browser.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        browser.click(".message:last-child [data-action=copy]")
        self.assertEqual(browser.wait("window.copied", "copied"),
                         self.kept()[0]["messages"][1]["content"])
        browser.js("document.getElementById('prompt').focus()")
        browser.key("ArrowUp")
        self.assertEqual(browser.js("document.getElementById('prompt').value"),
                         "Name three colours.")
        browser.js("document.getElementById('prompt').value = ''")
        browser.type("Name two rivers.")
        browser.key("Enter")
        browser.wait(f"document.querySelectorAll('.message').length === 2 && {DONE}", "replaced")
        self.assertEqual(self.kept()[0]["messages"][0]["content"], "Name two rivers.")

    def test_progress_live_state_and_errors(self):
        browser = self.browser
        self.ask("Hi")
        slow = threading.Thread(target=self.server.post, args=(
            PLAIN, {"prompt": LONG * 150, "max_tokens": 12, "temperature": 0}))
        slow.start()
        wait_until(lambda: self.status()["requests"], "the long prompt is at work", 20)
        self.send("Summarise: " + LONG * 70)
        # As far as it is read, and the rest.
        browser.wait("[...document.querySelectorAll('#requests [data-phase=prefill]')].some(one => {"
                     "const [read, all] = one.innerText.match(/([\\d,]+) of ([\\d,]+)/).slice(1)"
                     ".map(text => Number(text.replace(',', ''))); const rest = one.querySelector('.rest')"
                     ".getBoundingClientRect().width; return read > 0 && read < all && rest > 0; })",
                     "a prefill is drawn")
        browser.wait("document.querySelector('#requests .own')", "the chat's own request is marked")
        browser.wait("document.querySelector('.progress')?.innerText.includes('tokens/s')",
                     "the progress has a rate")
        self.assertGreater(browser.js("document.querySelectorAll('#map .owned').length"), 0)
        slow.join()
        browser.wait(DONE, "the answer is there")
        browser.wait("document.querySelectorAll('#requests li').length === 0", "all have ended")
        browser.wait("document.querySelectorAll('#map .kept').length > 0", "blocks stay cached")
        status = self.status()
        self.assertEqual(sum(status["kv"][name] for name in ("owned", "cached", "free")),
                         status["kv"]["blocks"])
        # A conversation that does not fit is told so, and stays.
        self.send("More: " + LONG * 400)
        error = browser.wait("document.querySelector('.message:last-child .error')?.innerText",
                             "the error is shown")
        self.assertIn("4096", error.replace(",", ""))
        self.assertIn("new conversation", error)
        self.assertEqual(browser.js("document.querySelectorAll('.message').length"), 6)

    # From the first second on, and within a step that takes seconds.
    def test_tile_and_progress_have_one_rate(self):
        browser = self.browser
        self.send("Summarise: " + LONG * 180)
        pairs = []
        for _ in range(20):
            pair = browser.js(
                "new Promise(resolve => setTimeout(() => resolve([document.querySelector("
                "'.progress')?.innerText.match(/([\\d.,]+) tokens\\/s/)?.[1] ?? '', "
                "document.getElementById('prefill-rate').innerText]), 200))")
            progress, tile = (float(text.replace(",", "")) if text else None for text in pair)
            if progress:
                pairs.append((progress, tile))
        browser.click("#stop")
        browser.wait(DONE, "it has stopped")
        self.assertGreater(len(pairs), 5)
        # A look at the server is up to half a second old.
        for progress, tile in pairs[3:]:
            self.assertGreater(tile, progress / 2, pairs)
            self.assertLess(tile, progress * 2, pairs)

    def test_long_pastes_and_files(self):
        browser = self.browser
        text = "Paris lies on the Seine. " * 200
        browser.js("(() => { const d = new DataTransfer(); d.setData('text/plain', "
                   f"{json.dumps(text)}); document.getElementById('prompt').dispatchEvent("
                   "new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true}))"
                   "; const f = new DataTransfer(); f.items.add(new File(['Ham is a <b>son</b>.'], "
                   "'noah.txt')); f.items.add(new File([new Uint8Array([255, 254, 0])], 'bad.bin'));"
                   "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: f, bubbles: true,"
                   " cancelable: true})); })()")
        browser.wait("document.querySelectorAll('#files li').length === 2", "both are attached")
        browser.wait("document.getElementById('notice').innerText.includes('bad.bin')",
                     "a file that is no text is refused")
        self.assertEqual(browser.js("document.getElementById('prompt').value"), "")
        self.ask("Who?")
        message = self.kept()[0]["messages"][0]
        self.assertEqual([file["text"] for file in message["files"]], [text, "Ham is a <b>son</b>."])
        self.assertIn("noah.txt", browser.text(".user"))

    def test_dark_and_light(self):
        browser = self.browser
        ground = "getComputedStyle(document.body).backgroundColor"
        light = browser.js(ground)
        browser.scheme("dark")
        dark = browser.js(ground)
        self.assertNotEqual(light, dark)
        for name, colour in (("Light", light), ("Dark", dark)):
            browser.click("#theme")
            self.assertEqual((browser.text("#theme-text"), browser.js(ground)), (name, colour))
        browser.scheme("light")
        browser.reload()
        self.assertEqual(browser.js(ground), dark)  # the choice outlives the page

    def test_keyboard_only(self):
        browser = self.browser
        self.send_keys("One line")
        browser.key("Enter", SHIFT)
        browser.type("and another")
        self.assertEqual(browser.js("document.getElementById('prompt').value"),
                         "One line\nand another")
        browser.key("Enter")
        browser.wait(DONE, "answered")
        # Every control is reached by Tab, has a name, and shows that it has the focus.
        seen = set()
        for _ in range(40):
            browser.key("Tab")
            seen.add(browser.js("(() => { const e = document.activeElement; const s = "
                                "getComputedStyle(e); const n = e.getAttribute('aria-label') || "
                                "e.innerText || e.title || e.labels?.[0]?.innerText || e.value || '?';"
                                "return (s.outlineStyle !== 'none' || e.id === 'prompt') + '|' + "
                                "(e.id || e.dataset.action || e.className) + '|' + n.trim(); })()"))
        names = {one.split("|")[1] for one in seen}
        self.assertLessEqual({"new-chat", "open-chats", "open-settings", "theme", "toggle-live",
                              "retry", "copy", "edit", "prompt", "attach"}, names, seen)
        for one in seen:
            shown, name, label = one.split("|", 2)
            self.assertTrue(name in ("", "undefined") or (shown == "true" and label), one)
        browser.key("n", ALT)
        self.assertEqual(browser.js("document.activeElement.id"), "prompt")
        self.assertEqual(browser.js("document.querySelectorAll('.message').length"), 0)

    def send_keys(self, text):
        self.browser.js("document.getElementById('prompt').focus()")
        self.browser.type(text)

    def test_narrow_screen(self):
        browser = self.browser
        browser.size(360, 640)
        self.ask("Write `a_very_long_word_" + "x" * 120 + "` again.")
        for step in ("chat", "live"):
            self.assertLessEqual(browser.js("Math.max(document.documentElement.scrollWidth, "
                                            "document.body.scrollWidth)"), 360, step)
            outside = browser.js(
                "[...document.querySelectorAll('button, select, textarea')].filter(e => e.checkVisibility()"
                " && e.getClientRects().length && !e.closest('#thread') && (e.getBoundingClientRect().right"
                " > 360.5 || e.getBoundingClientRect().left < -0.5)).map(e => e.id)")
            self.assertEqual(outside, [], step)
            if step == "chat":
                browser.click("#toggle-live")
                browser.wait("document.getElementById('map').childElementCount", "the map is drawn")
        browser.key("Escape")
        self.assertFalse(browser.js("document.getElementById('live').checkVisibility()"))

    def keys_that_no_server_takes(self, server):
        browser = self.browser
        # One that an earlier page has kept.
        browser.js("sessionStorage.setItem('baton.key', 'ключ')")
        self.send("Hi")
        browser.wait("document.getElementById('key-dialog').open", "the page asks for another key")
        self.assertIn("No server takes this key", browser.text("#key-why"))
        self.assertIn("No server takes this", browser.text(".message:last-child .error"))
        self.assertNotIn("does not answer", browser.text("#thread"))
        # Another part of the page asks for a key as well, and wants nothing afterwards.
        browser.js("document.getElementById('model').dispatchEvent(new Event('change'))")
        browser.click("#key")
        browser.type("ключ")
        self.assertIn("ASCII", browser.text("#key-problem"))
        browser.key("Enter")
        self.assertTrue(browser.js("document.getElementById('key-dialog').open"))
        browser.js("document.getElementById('key').select()")
        browser.type(" \u200bse\u00adsa\ufeffme\u200d\t")
        self.assertEqual(browser.js("document.getElementById('key').value"), "sesame")
        self.assertEqual(browser.text("#key-problem"), "")
        browser.key("Enter")
        browser.wait(f"!document.querySelector('.error') && {DONE}", "answered with the right one")
        browser.click("#new-chat")
        self.assertEqual(server.ask("GET", "/status", headers={"Authorization": "Bearer sesame"})[0],
                         200)

    def test_key_and_a_server_that_is_gone(self):
        keys = self.file("keys", "sesame\n")
        server = Server(self.folder, "--api-key-file", keys, name="keys")
        browser = self.browser
        try:
            self.assertEqual(server.ask("GET", "/status")[0], 401)
            browser.open(server.url + "/")
            browser.wait("document.getElementById('key-dialog').open", "the page asks for the key")
            for key in ("wrong", "sesame"):
                browser.wait("document.activeElement.id === 'key'", "the field has the focus")
                browser.type(key)
                browser.key("Enter")
                if key == "wrong":
                    browser.wait("document.getElementById('key-why').innerText.includes('does not "
                                 "take')", "a wrong key is told so")
            browser.wait("document.getElementById('state').dataset.state === 'ok'", "the key is taken")
            self.assertNotIn("sesame", browser.js("JSON.stringify(localStorage)"))
            self.keys_that_no_server_takes(server)
            browser.js("document.getElementById('prompt').focus()")
            browser.type("Hi")
            browser.key("Enter")
            browser.wait(DONE, "answered")
            self.assertEqual(server.stop(), 0)
            browser.wait("document.getElementById('state').dataset.state === 'gone'", "it is gone")
            browser.js("document.getElementById('prompt').focus()")
            browser.type("Are you there?")
            browser.key("Enter")
            error = browser.wait("document.querySelector('.message:last-child .error')?.innerText",
                                 "the error is shown")
            self.assertIn("does not answer", error)
            self.assertEqual(browser.js("document.querySelectorAll('.message').length"), 4)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
