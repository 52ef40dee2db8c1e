#!/usr/bin/env python3
"""The page's conversations: several tabs, the window of chats, a browser that is full."""
from page_case import PREFIX, PageCase, conversation
from server_case import main, wait_until

LONG_TITLE = "A_title_that_is_one_very_long_word_without_any_place_to_break_it_at"
# Where the page's modules are, for what no storage event tells of.
STORE = """const { Conversations } = await import(new URL('page/store.js', location.href));
  let time = 1; const say = (tab, content) => { tab.current.messages.push({ id: content, time: time++,
  role: 'user', content }); return tab.save(tab.current); };
  const words = (tab) => tab.current.messages.map((one) => one.content).join(' ');"""


class Tabs(PageCase):
    """Two tabs of one browser."""

    def setUp(self):
        super().setUp()
        self.first = self.browser.session
        self.second = None

    def tearDown(self):
        if self.second:
            self.browser.use(self.second)
            self.browser.close_tab()
            self.browser.use(self.first)
        super().tearDown()

    def open_second(self):
        self.second = self.browser.open_tab()
        self.browser.open(self.server.url + "/")
        self.browser.wait("document.activeElement?.id === 'prompt'", "the field has the focus")

    def contents(self):
        return self.browser.js("[...document.querySelectorAll('.message .text')].map("
                               "one => one.innerText)")

    def test_none_deletes_what_another_wrote(self):
        browser = self.browser
        self.open_second()
        self.ask("Name two rivers.")
        browser.use(self.first)
        self.ask("Name three colours.")
        browser.use(self.second)
        self.ask("And two lakes?")
        kept = {one["title"]: one["messages"] for one in self.kept()}
        self.assertEqual({title: len(messages) for title, messages in kept.items()},
                         {"Name two rivers.": 4, "Name three colours.": 2})
        # The window of one tab shows the other's.
        browser.use(self.first)
        browser.click("#open-chats")
        self.assertEqual(self.titles(), ["Name two rivers.", "Name three colours."])
        browser.use(self.second)
        browser.click("#new-chat")
        self.ask("Hi")
        browser.use(self.first)
        self.assertEqual(browser.wait("document.querySelectorAll('#chat-list .open').length === 3 && "
                                      "document.querySelector('#chat-list .open').innerText", "seen"),
                         "Hi")

    def test_one_conversation_in_two_tabs(self):
        browser = self.browser
        self.ask("Name three colours.")
        self.open_second()
        self.assertEqual(len(self.contents()), 2)
        self.ask("And three animals?")
        browser.use(self.first)
        browser.wait("document.querySelectorAll('.message').length === 4", "the other's turn is here")
        self.ask("And a river?")
        browser.use(self.second)
        browser.wait("document.querySelectorAll('.message').length === 6", "and so is this one's")
        messages = self.kept()[0]["messages"]
        self.assertEqual([one["content"] for one in messages[::2]],
                         ["Name three colours.", "And three animals?", "And a river?"])
        self.assertEqual([one["role"] for one in messages], ["user", "assistant"] * 3)

    def test_what_is_deleted_stays_deleted(self):
        browser = self.browser
        self.open(self.server, max_tokens="4000", temperature="1", seed="3")
        self.send("Tell me a very long story about a dragon.")
        browser.wait("document.querySelector('.running .text')?.innerText.length > 20", "it streams")
        self.open_second()
        browser.click("#open-chats")
        browser.click("#chat-list .link")
        browser.use(self.first)
        browser.wait("document.getElementById('notice').innerText.includes('deleted in another tab')",
                     "the tab that had it open is told")
        browser.wait("!document.querySelector('.message')", "nothing of it is shown")
        wait_until(lambda: self.status()["running"] == 0, "its answer has ended", 20)
        self.assertEqual(self.kept(), [])
        # What was typed is still there.
        browser.use(self.second)
        browser.click("#undo")
        browser.click("#chats-close")
        browser.use(self.first)
        browser.click("#open-chats")
        browser.click("#chat-list .open")
        browser.js("document.getElementById('prompt').focus()")
        browser.type("A draft")
        browser.use(self.second)
        browser.click("#open-chats")
        browser.click("#delete-all")
        browser.use(self.first)
        browser.wait("!document.querySelector('.message')", "it is gone again")
        self.assertEqual(browser.js("document.getElementById('prompt').value"), "A draft")

    # As if the events that tell tabs of each other had not come yet.
    def test_the_store_looks_before_it_writes(self):
        got = self.browser.js("(async () => {" + STORE + """
          const [one, two] = [new Conversations(), new Conversations()];
          say(one, 'a'); two.open(one.current.id);
          say(two, 'b'); say(one, 'c'); say(two, 'd');
          const got = [words(one), words(two)];
          two.current.messages.splice(1, 1); two.save(two.current);
          say(one, 'e'); got.push(words(one));
          const removed = two.remove([two.current.id]);
          got.push(say(one, 'f'), String(localStorage.getItem('""" + PREFIX + """' + one.current.id)));
          two.restore(removed); got.push(say(one, 'g'), words(one));
          return got; })()""")
        self.assertEqual(got[:5], ["a b c", "a b c d", "a c d e", "deleted", "null"])
        self.assertEqual(got[5], "kept")
        self.assertEqual(got[6].split()[-1], "g")


class Chats(PageCase):
    """The window of earlier conversations."""

    def test_long_titles_leave_room_to_delete(self):
        browser = self.browser
        self.put(conversation("x", "q", "a", title=LONG_TITLE), conversation("y", "q", title="z " * 80))
        for width in (360, 800, 1400):
            browser.size(width, 640)
            browser.click("#open-chats")
            inside = browser.js(
                "(() => { const box = document.getElementById('chats').getBoundingClientRect();"
                "return [...document.querySelectorAll('#chat-list .link')].map(one => {"
                "const r = one.getBoundingClientRect(); const hit = document.elementFromPoint("
                "r.x + r.width / 2, r.y + r.height / 2); return hit === one && r.left >= box.left && "
                "r.right <= box.right; }); })()")
            self.assertEqual(inside, [True, True], width)
            self.assertEqual(browser.js("document.getElementById('chats').scrollWidth - "
                                        "document.getElementById('chats').clientWidth"), 0)
            browser.click("#chats-close")

    def test_what_is_deleted_comes_back(self):
        browser = self.browser
        self.put(conversation("x", "Question", "Answer"), conversation("y", "Other"))
        browser.click("#open-chats")
        browser.click("#chat-list .current .link")
        self.assertEqual((self.titles(), len(self.kept())), (["y"], 1))
        self.assertEqual(browser.text("#undo-bar"), "Deleted “x”.\nUndo")
        self.assertEqual(browser.js("document.activeElement.id"), "undo")
        self.assertEqual(browser.js("document.querySelectorAll('.message').length"), 0)
        browser.key("Enter")
        self.assertEqual(sorted(self.titles()), ["x", "y"])
        # It is open again, as it was.
        self.assertEqual(browser.text(".user"), "Question\nEdit\nCopy")
        browser.click("#delete-all")
        self.assertEqual((self.titles(), self.kept()), ([], []))
        self.assertIn("2 conversations", browser.text("#undo-bar"))
        browser.click("#undo")
        self.assertEqual((sorted(self.titles()), len(self.kept())), (["x", "y"], 2))
        self.assertTrue(browser.js("document.getElementById('undo-bar').hidden"))

    def test_the_ring_of_the_focus_is_whole(self):
        browser = self.browser
        self.put(conversation("x", "q", "a"), conversation("y", "q"))
        browser.click("#open-chats")
        for _ in range(4):
            browser.key("Tab")
            cut = browser.js(
                "(() => { const e = document.activeElement; if (!e.closest('#chat-list')) return null;"
                "const s = getComputedStyle(e); const out = parseFloat(s.outlineWidth) + "
                "parseFloat(s.outlineOffset); const r = e.getBoundingClientRect(); const b = "
                "e.closest('#chat-list').getBoundingClientRect(); return s.outlineStyle === 'none' || "
                "r.left - out < b.left - 0.5 || r.right + out > b.right + 0.5 || "
                "r.top - out < b.top - 0.5 || r.bottom + out > b.bottom + 0.5; })()")
            self.assertIn(cut, (False, None))

    def test_none_is_dropped(self):
        browser = self.browser
        self.put(*[conversation(f"number-{i}", "q", "a") for i in range(60)])
        browser.click("#new-chat")
        self.ask("Hi")
        self.assertEqual(len(self.kept()), 61)
        browser.click("#open-chats")
        self.assertEqual(len(self.titles()), 61)
        self.assertRegex(browser.text("#chats-kept"), r"this browser only.*[\d,]+ of about")

    def test_a_full_browser_says_so_and_loses_nothing(self):
        browser = self.browser
        self.put(conversation("x", "q", "a"))
        browser.js("(() => { let size = 1 << 22; localStorage.filler = ''; while (size >= 1) { try {"
                   "localStorage.filler += '-'.repeat(size); } catch { size >>= 1; } } })()")
        browser.click("#new-chat")
        answer = self.ask("Name three colours.")
        self.assertIn("no room", browser.text("#notice"))
        self.assertEqual([one["id"] for one in self.kept()], ["x"])
        browser.click("#open-chats")
        self.assertEqual(self.titles(), ["Name three colours.", "x"])
        self.assertEqual(browser.text("#chat-list .current .mark"), "not kept")
        browser.click("#chat-list li:last-child .open")
        browser.click("#open-chats")
        browser.click("#chat-list li:first-child .open")
        self.assertEqual(browser.text(".assistant .text"), answer)
        # Once there is room, it is kept.
        browser.click("#open-chats")
        browser.js("delete localStorage.filler")
        browser.click("#chat-list li:last-child .link")
        self.assertEqual([one["title"] for one in self.kept()], ["Name three colours."])
        self.assertFalse(browser.js("Boolean(document.querySelector('#chat-list .mark'))"))


if __name__ == "__main__":
    main()
