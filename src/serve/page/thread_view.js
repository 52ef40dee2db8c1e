// The conversation on the screen.
import { byId, count, duration, element, rate, setText } from './elements.js';
import { showMarkdown } from './markdown.js';

const REASONS = { stop: 'ended', length: 'token limit' };
const STOPPED = { user: 'you stopped it', page: 'cut off: the page was reloaded or closed' };
const LONG_TEXT = 1200;
const LONG_LINES = 24;

// The figures of both phases: [name, value, explanation].
function figureRows(figures) {
  const rows = [['prompt', count(figures.prompt), 'Tokens of the whole conversation']];
  if (figures.cached > 0) rows.push(['cached', count(figures.cached), 'Of the prompt, found in the KV cache and not read again']);
  if (figures.first !== undefined) rows.push(['first token', duration(figures.first), 'From the request to its first token, waiting included']);
  if (figures.prefillRate) rows.push(['prefill', `${rate(figures.prefillRate)}/s`, 'Prompt tokens that were computed, by the seconds they took']);
  rows.push(['answer', count(figures.generated), 'Tokens generated']);
  if (figures.decodeRate) rows.push(['decode', `${rate(figures.decodeRate)}/s`, 'Tokens generated, by the seconds they took']);
  rows.push(['stop', REASONS[figures.reason] ?? figures.reason ?? '', figures.reason === 'length' ? 'The answer is as long as the settings or the context allow' : 'Why the answer ended']);
  return rows;
}

// What may be left out where there is no room.
function nameOf(name) {
  const [first, ...more] = name.split(' ');
  return more.length === 0 ? first : element('span', {}, first, element('span', { class: 'more' }, ` ${more.join(' ')}`));
}

function figureList(message) {
  if (message.figures) {
    return element('dl', { class: 'figures' }, ...figureRows(message.figures).map(([name, value, title]) =>
      element('div', { title, 'data-figure': name.replace(' ', '-') }, element('dt', {}, nameOf(name)), element('dd', {}, value))));
  }
  if (message.stopped) {
    return element('dl', { class: 'figures' },
      element('div', { 'data-figure': 'stop' }, element('dt', {}, 'stop'), element('dd', {}, STOPPED[message.stopped] ?? STOPPED.user)));
  }
  return null;
}

function fileChip(file) {
  return element('details', { class: 'file' },
    element('summary', {}, element('bdi', { class: 'name' }, file.name), element('span', { class: 'dim' }, `${count(file.text.length)} characters`)),
    element('pre', { tabindex: '0', dir: 'auto' }, file.text));
}

const action = (name, text, label) => element('button', { type: 'button', class: 'link', 'data-action': name, 'aria-label': label }, text);

export class ThreadView {
  constructor() {
    this.thread = byId('thread');
    this.scroll = byId('scroll');
    this.isAtEnd = true;
    this.scroll.addEventListener('scroll', () => {
      const { scrollTop, scrollHeight, clientHeight } = this.scroll;
      this.isAtEnd = scrollHeight - scrollTop - clientHeight < 48;
    }, { passive: true });
    new ResizeObserver(() => this.follow()).observe(this.scroll);
  }

  // Whoever has scrolled up reads; nobody is pulled away.
  follow(force = false) {
    if (force) this.isAtEnd = true;
    if (this.isAtEnd) this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  show(conversation) {
    const { messages } = conversation;
    byId('welcome').hidden = messages.length > 0;
    this.thread.replaceChildren(...messages.map((message, i) => this.make(message, i === messages.length - 1)));
    this.follow(true);
  }

  make(message, isLast) {
    const isUser = message.role === 'user';
    const article = element('article', { class: `message ${message.role}`, 'data-id': message.id, 'aria-label': isUser ? 'You' : 'Answer' });
    article.append(...(message.files ?? []).map(fileChip));
    if (isUser) {
      if (message.content) {
        const isLong = message.content.length > LONG_TEXT || message.content.split('\n').length > LONG_LINES;
        // What scrolls lies inside of the round corners.
        const inner = isLong ? { class: 'inner', tabindex: '0', role: 'region', 'aria-label': 'Your message' } : { class: 'inner' };
        article.append(element('div', { class: isLong ? 'text plain long' : 'text plain' }, element('div', { ...inner, dir: 'auto' }, message.content)));
      }
    } else if (message.content) {
      const text = element('div', { class: 'text', dir: 'auto' });
      showMarkdown(text, message.content);
      article.append(text);
    }
    if (message.error) article.append(errorCard(message.error));
    const actions = element('div', { class: 'row-actions' });
    if (isUser) actions.append(action('edit', 'Edit', 'Edit this message'));
    if (message.content) actions.append(action('copy', 'Copy', isUser ? 'Copy this message' : 'Copy this answer'));
    if (isLast) actions.append(action('retry', message.error || isUser ? 'Try again' : 'Retry', 'Answer again'));
    const figures = figureList(message);
    article.append(element('footer', {}, ...[figures, actions].filter(Boolean)));
    return article;
  }

  // The place of an answer that is on its way.
  begin() {
    byId('welcome').hidden = true;
    this.text = element('div', { class: 'text', dir: 'auto' });
    this.bar = element('i');
    this.progressText = element('span', {}, 'Waiting for a turn');
    this.progress = element('div', { class: 'progress', role: 'progressbar', 'aria-label': 'Reading the prompt', 'aria-valuemin': '0', 'aria-valuemax': '100' },
      element('div', { class: 'track' }, this.cached = element('i', { class: 'cached' }), this.bar), this.progressText);
    this.article = element('article', { class: 'message assistant running', 'aria-label': 'Answer', 'aria-busy': 'true' }, this.progress, this.text);
    this.thread.append(this.article);
    this.follow(true);
  }

  showProgress({ total, cached, processed, rate: perSecond, left }) {
    const share = (tokens) => `${(100 * tokens / Math.max(total, 1)).toFixed(1)}%`;
    this.cached.style.width = share(cached);
    this.bar.style.width = share(processed - cached);
    this.progress.setAttribute('aria-valuenow', String(Math.round(100 * processed / Math.max(total, 1))));
    let text = `Reading the prompt: ${count(processed)} of ${count(total)} tokens`;
    if (cached > 0) text += `, ${count(cached)} from the cache`;
    if (perSecond) text += ` · ${rate(perSecond)} tokens/s`;
    if (left > 0.5) text += ` · ${left < 60 ? `${Math.ceil(left)} s` : duration(left)} left`;
    setText(this.progressText, text);
    this.follow();
  }

  // Shown with the next picture: tokens may come faster.
  showText(text) {
    if (this.pending === undefined) {
      requestAnimationFrame(() => {
        const now = this.pending;
        this.pending = undefined;
        if (now === undefined || !this.article) return;
        this.progress.remove();
        showMarkdown(this.text, now);
        this.follow();
      });
    }
    this.pending = text;
  }
}

function errorCard(error) {
  return element('div', { class: 'error', role: 'alert' }, element('strong', { dir: 'auto' }, error.message), error.advice ? element('p', {}, error.advice) : null);
}
