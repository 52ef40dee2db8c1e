// What the browser keeps: conversations and settings, in localStorage.
//
// A conversation: {id, title, messages: [{role, content, files?, figures?, stopped?, error?}]}. A
// message's files are texts that stand before its content.

const CONVERSATIONS = 'baton.conversations';
const CURRENT = 'baton.current';
const SETTINGS = 'baton.settings';
const MAX_CONVERSATIONS = 50;

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// Whether there was room.
function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export const settings = {
  values: { temperature: '0.7', top_p: '', max_tokens: '', seed: '', system: '', live: true, ...read(SETTINGS, {}) },
  set(name, value) {
    this.values[name] = value;
    write(SETTINGS, this.values);
  },
  defaults() {
    Object.assign(this.values, { temperature: '0.7', top_p: '', max_tokens: '', seed: '', system: '' });
    write(SETTINGS, this.values);
  },
};

const fresh = () => ({ id: crypto.getRandomValues(new Uint32Array(2)).join('-'), title: '', messages: [] });

const valid = (list) => Array.isArray(list) && list.every((one) => one && typeof one.id === 'string' && Array.isArray(one.messages));

export class Conversations {
  constructor() {
    const kept = read(CONVERSATIONS, []);
    this.list = valid(kept) ? kept : [];
    const id = read(CURRENT, null);
    this.current = this.list.find((one) => one.id === id) ?? fresh();
  }

  // Keeps the current one, too, once it has a message. Returns whether the browser had room; the
  // oldest ones go first.
  save() {
    const current = this.current;
    if (current.messages.length > 0 && !this.list.includes(current)) this.list.unshift(current);
    this.list = this.list.filter((one) => one.messages.length > 0).slice(0, MAX_CONVERSATIONS);
    current.title ||= titleOf(current);
    write(CURRENT, current.id);
    for (let kept = this.list; ; kept = kept.filter((one, i) => one === current || i < kept.length - 1)) {
      if (write(CONVERSATIONS, kept)) {
        this.list = kept;
        return true;
      }
      if (kept.length <= 1) return false;
      // The current one may be the last of the list.
      if (kept.at(-1) === current) kept = [current, ...kept.slice(0, -1)];
    }
  }

  begin() {
    this.current = fresh();
    write(CURRENT, null);
  }

  open(id) {
    this.current = this.list.find((one) => one.id === id) ?? this.current;
    this.save();
  }

  remove(id) {
    this.list = this.list.filter((one) => one.id !== id);
    if (this.current.id === id) this.begin();
    write(CONVERSATIONS, this.list);
  }

  removeAll() {
    this.list = [];
    this.begin();
    write(CONVERSATIONS, this.list);
  }
}

function titleOf(conversation) {
  const first = conversation.messages[0];
  const words = (first?.content || first?.files?.[0]?.name || '').trim().replace(/\s+/g, ' ');
  return words.length > 60 ? `${words.slice(0, 60)}…` : words;
}
