// The page: one chat, beside the live state of the server.
import { getJson, saveKey, savedKey } from './api.js';
import { readAnswer, requestOf } from './answer.js';
import { Composer } from './composer.js';
import { byId, element, setText } from './elements.js';
import { Live } from './live.js';
import { Conversations, settings } from './store.js';
import { ThreadView } from './thread_view.js';

const STATES = { ok: 'ready', loading: 'loading', draining: 'stopping', gone: 'no answer', key: 'key needed', wait: 'connecting' };
const conversations = new Conversations();
const view = new ThreadView();
let running = null; // the AbortController of the answer on its way
let partial = ''; // what has come of it
let editing = null; // the index of the message that is edited
let afterKey = null; // what was wanted when a key was asked for

function notice(text) {
  byId('notice').hidden = !text;
  setText(byId('notice'), text);
}

const announce = (text) => setText(byId('announce'), text);

function save() {
  if (!conversations.save()) notice('This conversation is too long for the browser to keep: it will be gone when the page is closed.');
}

// ---- answers

async function answer() {
  const conversation = conversations.current;
  const body = requestOf(conversation, settings.values, byId('model').value);
  const message = { role: 'assistant', content: '' };
  const controller = new AbortController();
  running = controller;
  partial = '';
  view.begin();
  composer.setRunning(true);
  live.isBusy = true;
  announce('The prompt is being read.');
  try {
    const got = await readAnswer(body, controller.signal, {
      onId: (id) => { live.ownId = id; },
      onProgress: (progress) => view.showProgress(progress),
      onText: (text) => {
        partial = text;
        view.showText(text);
      },
    });
    Object.assign(message, { content: got.text, figures: got.figures });
  } catch (error) {
    message.content = error.answer?.text ?? '';
    if (error.name === 'AbortError') message.stopped = true;
    else message.error = { message: error.message, advice: error.advice ?? '' };
    if (error.status === 401) askForKey(() => retry());
  }
  // The page was left, and has kept what there was.
  if (running !== controller) return;
  running = null;
  live.isBusy = false;
  composer.setRunning(false);
  conversation.messages.push(message);
  save();
  view.show(conversations.current);
  announce(message.error ? '' : message.stopped ? 'Stopped.' : `Answer: ${message.content}`);
}

function send(message) {
  if (running) return false;
  notice('');
  const { messages } = conversations.current;
  if (editing !== null) messages.splice(editing);
  stopEditing();
  messages.push({ role: 'user', content: message.content, ...(message.files.length > 0 ? { files: message.files } : {}) });
  save();
  view.show(conversations.current);
  answer();
  return true;
}

function stop() {
  running?.abort();
}

function retry() {
  const { messages } = conversations.current;
  if (running || messages.length === 0) return;
  if (messages.at(-1).role === 'assistant') messages.pop();
  view.show(conversations.current);
  answer();
}

function edit(index) {
  if (running || index < 0) return false;
  editing = index;
  composer.set(conversations.current.messages[index]);
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

const begin = () => show(() => conversations.begin());

const composer = new Composer({
  onSend: send,
  onEditLast: () => edit(conversations.current.messages.findLastIndex((message) => message.role === 'user')),
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
  const index = Number(button.closest('.message').dataset.index);
  if (button.dataset.copy !== undefined) copy(button.dataset.copy, button);
  else if (button.dataset.action === 'copy') copy(conversations.current.messages[index].content, button);
  else if (button.dataset.action === 'retry') retry();
  else if (button.dataset.action === 'edit') edit(index);
});

// ---- the server: key, model, state

function askForKey(then) {
  afterKey = then;
  setText(byId('key-why'), savedKey() ? 'The server does not take the key that was given.' : 'This server wants a key. Whoever runs it has it in the file that was given with --api-key-file.');
  if (!byId('key-dialog').open) byId('key-dialog').showModal();
}

byId('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  saveKey(byId('key').value.trim());
  byId('key').value = '';
  byId('key-dialog').close();
  loadModels();
  live.look();
  afterKey?.();
  afterKey = null;
});
byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());

let models = [];

async function loadModels() {
  try {
    models = (await getJson('v1/models')).data;
  } catch (error) {
    models = [];
    if (error.status === 401) askForKey(null);
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
const narrow = matchMedia('(max-width: 1000px)');
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

function showSettings() {
  for (const name of ['system', 'temperature', 'top_p', 'max_tokens', 'seed']) byId(name).value = settings.values[name];
  byId('forget-key').hidden = !savedKey();
}
for (const name of ['system', 'temperature', 'top_p', 'max_tokens', 'seed']) {
  byId(name).addEventListener('input', (event) => {
    if (event.target.validity.valid) settings.set(name, event.target.value);
  });
}
byId('open-settings').addEventListener('click', () => {
  showSettings();
  byId('settings').showModal();
});
byId('defaults').addEventListener('click', () => {
  settings.defaults();
  showSettings();
});
byId('forget-key').addEventListener('click', () => {
  saveKey('');
  byId('forget-key').hidden = true;
});

function showChats() {
  byId('chat-list').replaceChildren(...conversations.list.map((one) => element('li', { class: one === conversations.current ? 'current' : null },
    element('button', { type: 'button', class: 'open', click: () => { byId('chats').close(); show(() => conversations.open(one.id)); } }, one.title || 'Without words'),
    element('button', { type: 'button', class: 'link', 'aria-label': `Delete ${one.title}`, click: () => { show(() => conversations.remove(one.id)); showChats(); } }, 'Delete'))));
  if (conversations.list.length === 0) byId('chat-list').append(element('li', { class: 'dim' }, 'None yet.'));
}
byId('open-chats').addEventListener('click', () => {
  showChats();
  byId('chats').showModal();
});
byId('delete-all').addEventListener('click', () => {
  show(() => conversations.removeAll());
  showChats();
});

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
  conversations.current.messages.push({ role: 'assistant', content: partial, stopped: true });
  conversations.save();
  running = null;
});
showTheme();
view.show(conversations.current);
loadModels();
