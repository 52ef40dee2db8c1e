"""The page in a headless Chromium, with a real server and a real model: what its tests share."""
import json
import pathlib
import shutil
import tempfile

from browser import Browser
from server_case import SLOW, ServerCase

DONE = "!document.querySelector('.running') && document.querySelector('.assistant')"
PREFIX = "baton.conversation."


class PageCase(ServerCase):
    """One browser and one server for all; each test begins with an empty page."""
    OPTIONS = ["--ctx", "4096", *SLOW]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = pathlib.Path(tempfile.mkdtemp(prefix="baton_page_"))
        try:
            cls.browser = Browser(cls.profile)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "browser"):
            cls.browser.close()
        shutil.rmtree(cls.profile, ignore_errors=True)
        super().tearDownClass()

    def setUp(self):
        self.browser.size(1280, 800)
        self.browser.scheme("light")
        self.browser.requests.clear()
        self.browser.complaints.clear()
        self.open(self.server)

    def tearDown(self):
        self.assertEqual(self.browser.complaints, [])
        hosts = {url.split("/")[2] for url in self.browser.requests if "://" in url}
        self.assertTrue(all(host.startswith("127.0.0.1:") for host in hosts), hosts)

    def open(self, server, **settings):
        """A fresh page: nothing is kept of what was."""
        browser = self.browser
        browser.open(server.url + "/livez")
        kept = json.dumps({"temperature": "0", "max_tokens": "24", **settings})
        browser.js("localStorage.clear(); sessionStorage.clear();"
                   f"localStorage.setItem('baton.settings', {json.dumps(kept)})")
        browser.open(server.url + "/")
        browser.wait("document.activeElement?.id === 'prompt'", "the field has the focus")

    def send(self, text):
        self.browser.js("document.getElementById('prompt').focus()")
        self.browser.type(text)
        self.browser.key("Enter")

    def ask(self, text):
        """Sends and waits for the answer; its text."""
        before = self.browser.js("document.querySelectorAll('.message').length")
        self.send(text)
        self.browser.wait(f"document.querySelectorAll('.message').length === {before} + 2 && {DONE}",
                          "the answer is there")
        return self.browser.text(".message:last-child .text")

    def status(self):
        return json.loads(self.server.ask("GET", "/status")[2])

    def kept(self):
        """The conversations that the browser keeps, the one that changed last first."""
        texts = self.browser.js(
            "Object.entries(localStorage).filter(([key]) => key.startsWith('" + PREFIX + "'))"
            ".map(([key, value]) => value)")
        return sorted(map(json.loads, texts), key=lambda one: -one["changed"])

    def put(self, *conversations):
        """Has the browser keep these, and a new page show the first one."""
        for one in conversations:
            self.browser.js(f"localStorage.setItem({json.dumps(PREFIX + one['id'])}, "
                            f"{json.dumps(json.dumps(one))})")
        current = json.dumps(json.dumps(conversations[0]["id"]))
        self.browser.js(f"for (const storage of [localStorage, sessionStorage]) "
                        f"storage.setItem('baton.current', {current})")
        self.browser.reload()
        self.browser.wait(f"document.querySelectorAll('.message').length === "
                          f"{len(conversations[0]['messages'])}", "the history is there")

    def titles(self):
        return self.browser.js("[...document.querySelectorAll('#chat-list .open')].map("
                               "one => one.innerText)")


def conversation(name, *contents, title=None):
    """As the page keeps it: questions and answers by turns."""
    messages = [{"id": f"{name}-{i}", "time": 1000 + i // 2, "content": content,
                 "role": "assistant" if i % 2 else "user"} for i, content in enumerate(contents)]
    return {"id": name, "title": title or name, "changed": 1000, "messages": messages}
