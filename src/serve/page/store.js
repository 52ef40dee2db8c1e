// What the browser keeps: conversations and settings, in localStorage, which all tabs share.
//
// Each conversation is an entry of its own: {id, title, changed, messages: [{id, time, role, content,
// files?, figures?, stopped?, error?}]}. `changed` and `time` are milliseconds; an answer has the time
// of its question. A message's files are texts that stand before its content. `stopped` says by what:
// 'user', or 'page' when the page was left.

const PREFIX = 'baton.conversation.';
const CURRENT = 'baton.current';
const SETTINGS = 'baton.settings';

function read(storage, key, otherwise) {
  try {
    return JSON.parse(storage().getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// Whether there was room.
function write(storage, key, value) {
  try {
    storage().setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

function remove(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // A browser without storage has nothing to remove.
  }
}

function keys() {
  try {
    return Object.keys(localStorage);
  } catch {
    return [];
  }
}

// Asking for the storage itself may throw.
const shared = () => localStorage;
const ofTab = () => sessionStorage;

const DEFAULTS = { temperature: '0.7', top_p: '', max_tokens: '', seed: '', system: '' };

export const settings = {
  values: { ...DEFAULTS, live: true, ...read(shared, SETTINGS, {}) },
  // Another tab may have set others.
  set(name, value) {
    Object.assign(this.values, read(shared, SETTINGS, {}), { [name]: value });
    write(shared, SETTINGS, this.values);
  },
  defaults() {
    Object.assign(this.values, read(shared, SETTINGS, {}), DEFAULTS);
    write(shared, SETTINGS, this.values);
  },
};

export const newId = () => crypto.getRandomValues(new Uint32Array(2)).join('-');

const fresh = () => ({ id: newId(), title: '', changed: 0, messages: [] });

const isConversation = (one) => one && typeof one.id === 'string' && Array.isArray(one.messages) &&
  one.messages.every((message) => message && typeof message.id === 'string' && typeof message.content === 'string' && Number.isFinite(message.time));

const idsOf = (conversation) => new Set(conversation.messages.map((message) => message.id));

// What two tabs made of the messages that both had known: what either has added is there, what either
// has removed is not.
function merged(mine, theirs, known) {
  const has = (list) => new Set(list.map((message) => message.id));
  const [inMine, inTheirs] = [has(mine), has(theirs)];
  return [...mine.filter(({ id }) => inTheirs.has(id) || !known.has(id)),
    ...theirs.filter(({ id }) => !inMine.has(id) && !known.has(id))].sort((a, b) => a.time - b.time);
}

export class Conversations {
  constructor() {
    this.known = new Map(); // of each conversation that this tab has read or written: its messages' ids
    this.unsaved = new Map(); // those that the browser had no room for
    const id = read(ofTab, CURRENT, null) ?? read(shared, CURRENT, null);
    this.current = (id && this.load(id)) || fresh();
  }

  // As it is stored now; null if it is not.
  stored(id) {
    const one = read(shared, PREFIX + id, null);
    return isConversation(one) && one.id === id ? one : null;
  }

  load(id) {
    const one = this.unsaved.get(id) ?? this.stored(id);
    if (one && !this.unsaved.has(id)) this.known.set(id, idsOf(one));
    return one;
  }

  // All there are, the one that changed last first.
  list() {
    const all = new Map(keys().filter((key) => key.startsWith(PREFIX)).map((key) => this.stored(key.slice(PREFIX.length)))
      .filter(Boolean).map((one) => [one.id, one]));
    for (const [id, one] of this.unsaved) all.set(id, one);
    return [...all.values()].sort((a, b) => b.changed - a.changed);
  }

  // Units: characters, of all that is kept.
  size() {
    return keys().reduce((sum, key) => sum + key.length + (localStorage.getItem(key)?.length ?? 0), 0);
  }

  // Takes over what other tabs have made of a conversation. Whether it is still there: one that was
  // kept and is no more has been deleted.
  merge(conversation) {
    const { id } = conversation;
    const known = this.known.get(id);
    const stored = this.stored(id);
    if (!stored) return !known;
    conversation.messages = merged(conversation.messages, stored.messages, known ?? new Set());
    conversation.title ||= stored.title;
    this.known.set(id, idsOf(stored));
    return true;
  }

  // Keeps a conversation that has a message. Returns 'kept', 'full' (no room; it lasts as long as
  // the page), or 'deleted' (in another tab; nothing is written).
  save(conversation) {
    const { id } = conversation;
    if (!this.merge(conversation)) {
      this.unsaved.delete(id);
      return 'deleted';
    }
    if (conversation.messages.length === 0) return 'kept';
    conversation.title ||= titleOf(conversation);
    conversation.changed = Date.now();
    this.point(id);
    if (!write(shared, PREFIX + id, conversation)) {
      this.unsaved.set(id, conversation);
      return 'full';
    }
    this.unsaved.delete(id);
    this.known.set(id, idsOf(conversation));
    return 'kept';
  }

  // Another tab has written. Returns what it did to the current one: 'changed', 'deleted' or ''.
  onStorage(key) {
    const { current } = this;
    if (key !== null && key !== PREFIX + current.id) return '';
    const before = [...idsOf(current)].join(' ');
    if (!this.merge(current)) {
      this.unsaved.delete(current.id);
      this.begin();
      return 'deleted';
    }
    return [...idsOf(current)].join(' ') === before ? '' : 'changed';
  }

  // Which one this tab shows, and a new tab will.
  point(id) {
    write(ofTab, CURRENT, id);
    write(shared, CURRENT, id);
  }

  begin() {
    this.current = fresh();
    this.point(this.current.id);
  }

  open(id) {
    this.current = this.load(id) ?? this.current;
    this.point(this.current.id);
  }

  // Returns what `restore` takes to bring them back.
  remove(ids) {
    const removed = ids.map((id) => this.unsaved.get(id) ?? this.stored(id)).filter(Boolean);
    for (const id of ids) {
      this.unsaved.delete(id);
      // What is still on its way to it does not bring it back.
      if (!this.known.has(id)) this.known.set(id, new Set());
      remove(PREFIX + id);
    }
    if (ids.includes(this.current.id)) this.begin();
    // There may be room now.
    for (const one of [...this.unsaved.values()]) this.save(one);
    return removed;
  }

  // Whether there was room for all.
  restore(removed) {
    let fits = true;
    for (const one of removed) {
      this.known.set(one.id, idsOf(one));
      if (write(shared, PREFIX + one.id, one)) continue;
      fits = false;
      this.unsaved.set(one.id, one);
    }
    return fits;
  }
}

function titleOf(conversation) {
  const first = conversation.messages[0];
  const words = (first?.content || first?.files?.[0]?.name || '').trim().replace(/\s+/g, ' ');
  return words.length > 60 ? `${words.slice(0, 60)}…` : words;
}
