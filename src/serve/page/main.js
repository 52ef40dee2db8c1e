// The page: one chat, beside the live state of the server.
import { readAnswer, requestOf } from './answer.js';
import { getJson } from './api.js';
import { Chats } from './chats.js';
import { Composer } from './composer.js';
import { byId, element, setText } from './elements.js';
import { KeyWindow } from './key_window.js';
import { Live } from './live.js';
import { listenToSettings } from './settings_window.js';
import { Conversations, newId, settings } from './store.js';
import { ThreadView } from './thread_view.js';

const STATES = { ok: 'ready', loading: 'loading', draining: 'stopping', gone: 'no answer', key: 'key needed', wait: 'connecting' };
const NO_ROOM = 'The browser has no room left to keep this conversation: it will be gone when the page is closed, unless you delete others under Chats.';
const conversations = new Conversations();
const view = new ThreadView();
let running = null; // the answer on its way: {controller, conversation, message}
let editing = null; // the message that is edited

function notice(text) {
  byId('notice').hidden = !text;
  setText(byId('notice'), text);
}

const announce = (text) => setText(byId('announce'), text);

// Whether the conversation is still there: another tab may have deleted it.
function save(conversation) {
  const kept = conversations.save(conversation);
  if (kept === 'full') notice(NO_ROOM);
  return kept !== 'deleted';
}

// ---- answers

async function answer() {
  const conversation = conversations.current;
  const body = requestOf(conversation, settings.values, byId('model').value);
  const message = { id: newId(), time: conversation.messages.at(-1).time, role: 'assistant', content: '' };
  const mine = { controller: new AbortController(), conversation, message };
  running = mine;
  view.begin();
  composer.setRunning(true);
  live.isBusy = true;
  announce('The prompt is being read.');
  try {
    const got = await readAnswer(body, mine.controller.signal, {
      onId: (id) => { live.ownId = id; },
      onProgress: (progress) => view.showProgress(progress),
      onText: (text) => {
        message.content = text;
        view.showText(text);
      },
    });
    Object.assign(message, { content: got.text, figures: got.figures });
  } catch (error) {
    message.content = error.answer?.text ?? '';
    if (error.name === 'AbortError') message.stopped = 'user';
    else message.error = { message: error.message, advice: error.advice ?? '' };
    if (error.status === 401) keyWindow.ask(() => retry());
  }
  // The page was left, and has kept what there was.
  if (running !== mine) return;
  running = null;
  live.isBusy = false;
  composer.setRunning(false);
  conversation.messages.push(message);
  save(conversation);
  view.show(conversations.current);
  announce(message.error ? '' : message.stopped ? 'Stopped.' : `Answer: ${message.content}`);
}

function send({ content, files }) {
  if (running) return false;
  notice('');
  const conversation = conversations.current;
  const { messages } = conversation;
  if (editing !== null && messages.includes(editing)) messages.splice(messages.indexOf(editing));
  stopEditing();
  messages.push({ id: newId(), time: Date.now(), role: 'user', content, ...(files.length > 0 ? { files } : {}) });
  if (!save(conversation)) {
    leaveDeleted();
    return false;
  }
  view.show(conversation);
  answer();
  return true;
}

function stop() {
  running?.controller.abort();
}

function retry() {
  const { messages } = conversations.current;
  if (running || messages.length === 0) return;
  if (messages.at(-1).role === 'assistant') messages.pop();
  view.show(conversations.current);
  answer();
}

function edit(message) {
  if (running || !message) return false;
  editing = message;
  composer.set(message);
  composer.setEditing(true);
  return true;
}

function stopEditing() {
  editing = null;
  composer.setEditing(false);
}

function show(change) {
  stop();
  stopEditing();
  notice('');
  change();
  view.show(conversations.current);
  byId('prompt').focus();
}

// What is typed stays.
function leaveDeleted() {
  stop();
  stopEditing();
  if (conversations.current.messages.length > 0) conversations.begin();
  view.show(conversations.current);
  notice('This conversation was deleted in another tab.');
}

window.addEventListener('storage', ({ key, storageArea }) => {
  if (storageArea !== localStorage) return;
  chats.refresh();
  const what = conversations.onStorage(key);
  if (what === 'deleted') leaveDeleted();
  // An answer on its way is shown with the rest once it is there.
  else if (what === 'changed' && !running) view.show(conversations.current);
});

const begin = () => show(() => conversations.begin());

let deleted = null; // which one was open when it was deleted
const chats = new Chats(conversations, {
  onOpen: (id) => show(() => conversations.open(id)),
  onDelete: (ids) => {
    const { id } = conversations.current;
    if (!ids.includes(id)) return conversations.remove(ids);
    let removed = [];
    show(() => { removed = conversations.remove(ids); });
    deleted = id;
    return removed;
  },
  onRestore: (removed) => {
    const fits = conversations.restore(removed);
    const isWanted = conversations.current.messages.length === 0 && removed.some(({ id }) => id === deleted);
    if (isWanted) show(() => conversations.open(deleted));
    if (!fits) notice(NO_ROOM);
  },
});

const composer = new Composer({
  onSend: send,
  onEditLast: () => edit(conversations.current.messages.findLast((message) => message.role === 'user')),
  onNotice: notice,
});

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, 'Copied');
  } catch {
    setText(button, 'Not allowed');
  }
  setTimeout(() => setText(button, 'Copy'), 1500);
}

byId('thread').addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  const { id } = button.closest('.message').dataset;
  const message = conversations.current.messages.find((one) => one.id === id);
  if (button.dataset.copy !== undefined) copy(button.dataset.copy, button);
  else if (button.dataset.action === 'copy') copy(message?.content ?? '', button);
  else if (button.dataset.action === 'retry') retry();
  else if (button.dataset.action === 'edit') edit(message);
});

// ---- the server: key, model, state

const keyWindow = new KeyWindow(() => {
  loadModels();
  live.look();
});

let models = [];

async function loadModels() {
  try {
    models = (await getJson('v1/models')).data;
  } catch (error) {
    models = [];
    if (error.status === 401) keyWindow.ask(null);
    return;
  }
  const select = byId('model');
  const chosen = select.value;
  select.replaceChildren(...models.map((model) => element('option', { value: model.id }, model.id)));
  if (models.some((model) => model.id === chosen)) select.value = chosen;
  select.disabled = models.length < 2;
  const model = models.find((one) => one.id === select.value);
  select.title = model ? `${model.id}: a context of ${model.max_model_len} tokens` : '';
  if (model && model.has_chat_template === false) {
    notice('This model has no chat template, so it cannot chat: have the server started with --chat-template.');
  }
}
byId('model').addEventListener('change', loadModels);

function onState(state, status) {
  const place = byId('state');
  if (place.dataset.state !== state) place.dataset.state = state;
  setText(byId('state-text'), STATES[state] ?? state);
  if (status?.model && !models.some((model) => model.id === status.model)) loadModels();
}

const live = new Live((state, status) => onState(state, status));

// ---- windows

function showLive(isOpen) {
  live.isOpen = isOpen;
  document.body.classList.toggle('no-live', !isOpen);
  byId('toggle-live').setAttribute('aria-expanded', String(isOpen));
  if (isOpen) live.look();
}

// On a narrow screen it covers the chat, so it opens when it is asked for only.
const narrow = matchMedia('(max-width: 1040px)');
showLive(settings.values.live && !narrow.matches);
narrow.addEventListener('change', () => showLive(settings.values.live && !narrow.matches));
function toggleLive() {
  showLive(!live.isOpen);
  if (!narrow.matches) settings.set('live', live.isOpen);
  if (live.isOpen && narrow.matches) byId('close-live').focus();
}
byId('toggle-live').addEventListener('click', toggleLive);
byId('close-live').addEventListener('click', () => {
  toggleLive();
  byId('toggle-live').focus();
});

listenToSettings();

// ---- theme

const THEMES = ['auto', 'light', 'dark'];
const themeNow = () => document.documentElement.dataset.theme ?? 'auto';
const showTheme = () => {
  setText(byId('theme-text'), { auto: 'Auto', light: 'Light', dark: 'Dark' }[themeNow()]);
  byId('theme').setAttribute('aria-label', `Theme: ${themeNow()}`);
};
byId('theme').addEventListener('click', () => {
  const next = THEMES[(THEMES.indexOf(themeNow()) + 1) % THEMES.length];
  if (next === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('baton.theme', next);
  } catch {
    // It lasts as long as the page.
  }
  showTheme();
});

// ---- begin

byId('new-chat').addEventListener('click', begin);
byId('stop').addEventListener('click', stop);
byId('cancel-edit').addEventListener('click', () => {
  stopEditing();
  composer.set({ content: '', files: [] });
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !document.querySelector('dialog[open]')) {
    if (running) stop();
    else if (editing !== null) byId('cancel-edit').click();
    else if (narrow.matches && live.isOpen) byId('close-live').click();
  } else if (event.altKey && event.key.toLowerCase() === 'n') {
    event.preventDefault();
    begin();
  }
});
// What has come of an answer outlives the page.
window.addEventListener('pagehide', () => {
  if (!running) return;
  const { conversation, message } = running;
  running = null;
  conversation.messages.push(Object.assign(message, { stopped: 'page' }));
  conversations.save(conversation);
});
showTheme();
view.show(conversations.current);
loadModels();
