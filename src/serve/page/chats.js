// The window of earlier conversations: open, delete, and have back what was deleted.
import { byId, count, element, setText } from './elements.js';

const UNDO_MS = 12_000;
// What browsers let a page keep.
const ABOUT_MAX = '5 million';

export class Chats {
  // onOpen(id) is called when one is chosen, onDelete(ids), which returns what onRestore(removed)
  // takes, when some are deleted and wanted back.
  constructor(conversations, handlers) {
    this.conversations = conversations;
    this.handlers = handlers;
    this.removed = [];
    this.dialog = byId('chats');
    byId('open-chats').addEventListener('click', () => {
      this.show();
      this.dialog.showModal();
    });
    byId('delete-all').addEventListener('click', () => this.remove(conversations.list().map((one) => one.id)));
    byId('undo').addEventListener('click', () => this.undo());
  }

  // Another tab may have changed them.
  refresh() {
    if (this.dialog.open) this.show();
  }

  show() {
    const { conversations } = this;
    const list = conversations.list();
    byId('chat-list').replaceChildren(...list.map((one) => this.row(one)));
    if (list.length === 0) byId('chat-list').append(element('li', { class: 'dim' }, 'None yet.'));
    byId('delete-all').hidden = list.length === 0;
    setText(byId('chats-kept'), `They are kept in this browser only, as many as it has room for: ${count(conversations.size())} of about ${ABOUT_MAX} characters are used.`
      + (conversations.unsaved.size > 0 ? ' There is no room for those that are marked: they will be gone when the page is closed, unless you delete others.' : ''));
  }

  row(one) {
    const title = one.title || 'Without words';
    const isCurrent = one.id === this.conversations.current.id;
    return element('li', { class: isCurrent ? 'current' : null },
      element('button', { type: 'button', class: 'open', 'aria-current': isCurrent ? 'true' : null, title, click: () => this.open(one.id) }, element('bdi', {}, title)),
      this.conversations.unsaved.has(one.id) ? element('span', { class: 'mark' }, 'not kept') : null,
      element('button', { type: 'button', class: 'link', 'aria-label': `Delete ${title}`, click: () => this.remove([one.id]) }, 'Delete'));
  }

  open(id) {
    this.dialog.close();
    this.handlers.onOpen(id);
  }

  // More that is deleted while the bar is there comes back with it.
  remove(ids) {
    this.removed.push(...this.handlers.onDelete(ids));
    this.show();
    if (this.removed.length === 0) return;
    const [first] = this.removed;
    byId('undo-text').replaceChildren(...(this.removed.length === 1
      ? ['Deleted “', element('bdi', {}, first.title || 'Without words'), '”.'] : [`Deleted ${count(this.removed.length)} conversations.`]));
    byId('undo-bar').hidden = false;
    byId('undo').focus();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.forget(), UNDO_MS);
  }

  undo() {
    this.handlers.onRestore(this.removed);
    this.forget();
    this.show();
    byId('chat-list').querySelector('button')?.focus();
  }

  forget() {
    clearTimeout(this.timer);
    this.removed = [];
    const hadFocus = document.activeElement === byId('undo');
    byId('undo-bar').hidden = true;
    if (hadFocus) byId('chats-close').focus();
  }
}
