// The server's live state: asked for again and again, and drawn.
import { getJson } from './api.js';
import { age, byId, count, element, rate, setText } from './elements.js';

const FAST_MS = 400;
const SLOW_MS = 2000;
const MAX_CELLS = 512;
const SPARK_POINTS = 60;
const SVG = 'http://www.w3.org/2000/svg';

export class Live {
  // onState('ok' | 'loading' | 'draining' | 'gone' | 'key', status?) is called after each look.
  constructor(onState) {
    this.onState = onState;
    this.isOpen = true;
    this.isBusy = false;
    this.ownId = null;
    this.rates = { prefill: [], decode: [] };
    this.rows = new Map();
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.look();
    });
    this.look();
  }

  // Looks now, and then again after a while.
  async look() {
    clearTimeout(this.timer);
    if (document.hidden || this.isLooking) return;
    this.isLooking = true;
    try {
      const status = await getJson('status', AbortSignal.timeout(10_000));
      this.failed = 0;
      this.show(status);
      this.onState(status.state, status);
    } catch (error) {
      this.failed = (this.failed ?? 0) + 1;
      this.stale(error);
      this.onState(error.status === 401 ? 'key' : 'gone');
    }
    this.isLooking = false;
    const watched = this.isOpen || this.isBusy;
    this.timer = setTimeout(() => this.look(), watched && !this.failed ? FAST_MS : SLOW_MS);
  }

  stale(error) {
    const stale = byId('stale');
    stale.hidden = false;
    setText(stale, error.status === 401 ? 'An API key is needed to see this.' : 'No word from the server; what is drawn here is old.');
    byId('live').classList.add('is-stale');
  }

  show(status) {
    byId('stale').hidden = true;
    byId('live').classList.remove('is-stale');
    if (!status.kv) return;
    this.showRate('prefill', status.rates.prefill_tokens_per_second);
    this.showRate('decode', status.rates.decode_tokens_per_second);
    if (!this.isOpen) return;
    this.showRequests(status);
    this.showBlocks(status.kv);
    this.showTotals(status);
  }

  showRate(name, value) {
    setText(byId(`${name}-rate`), rate(value));
    const points = this.rates[name];
    points.push(value);
    if (points.length > SPARK_POINTS) points.shift();
    const most = Math.max(...points, 1e-9);
    const line = points.map((one, i) => `${(120 * (i + SPARK_POINTS - points.length) / (SPARK_POINTS - 1)).toFixed(1)},${(30 - 27 * one / most).toFixed(1)}`);
    const spark = byId(`${name}-spark`);
    if (!spark.firstChild) {
      spark.append(document.createElementNS(SVG, 'polygon'), document.createElementNS(SVG, 'polyline'));
    }
    const begin = line[0].split(',')[0];
    spark.firstChild.setAttribute('points', `${begin},32 ${line.join(' ')} 120,32`);
    spark.lastChild.setAttribute('points', line.join(' '));
  }

  showRequests(status) {
    setText(byId('request-count'), `${count(status.running)} of ${count(status.max_running)} running` + (status.waiting ? `, ${count(status.waiting)} waiting` : ''));
    byId('no-requests').hidden = status.requests.length > 0;
    const seen = new Set();
    const list = byId('requests');
    status.requests.forEach((request, i) => {
      seen.add(request.number);
      let row = this.rows.get(request.number);
      if (!row) this.rows.set(request.number, row = makeRow());
      showRow(row, request, request.id === this.ownId);
      if (list.children[i] !== row.item) list.insertBefore(row.item, list.children[i] ?? null);
    });
    for (const [number, row] of this.rows) {
      if (seen.has(number)) continue;
      row.item.remove();
      this.rows.delete(number);
    }
  }

  // A cell is a block, or several where there are many.
  showBlocks(kv) {
    const perCell = Math.max(Math.ceil(kv.blocks / MAX_CELLS), 1);
    const cells = Math.ceil(kv.blocks / perCell);
    const map = byId('map');
    if (map.childElementCount !== cells) map.replaceChildren(...Array.from({ length: cells }, () => element('i')));
    const owned = Math.ceil(kv.owned / perCell);
    const used = Math.min(owned + Math.ceil(kv.cached / perCell), cells);
    for (let i = 0; i < cells; i += 1) {
      const kind = i < owned ? 'owned' : i < used ? 'kept' : '';
      if (map.children[i].className !== kind) map.children[i].className = kind;
    }
    setText(byId('kv-total'), `${count(kv.blocks)} blocks of ${kv.block_tokens} tokens` + (perCell > 1 ? `, ${perCell} a cell` : ''));
    for (const name of ['owned', 'cached', 'free']) setText(byId(`kv-${name}`), count(kv[name]));
    map.setAttribute('aria-label', `KV cache: ${kv.owned} blocks owned, ${kv.cached} cached, ${kv.free} free`);
  }

  showTotals({ totals }) {
    const rows = [['requests ended', totals.finished_requests], ['prompt tokens computed', totals.prompt_tokens],
      ['found in the cache', totals.prefix_hit_tokens], ['tokens generated', totals.generated_tokens], ['preemptions', totals.preemptions]];
    const list = byId('totals');
    if (!list.firstChild) list.append(...rows.map(([name]) => element('div', {}, element('dt', {}, name), element('dd'))));
    rows.forEach(([, value], i) => setText(list.children[i].lastChild, count(value)));
  }
}

function makeRow() {
  const row = { name: element('b'), phase: element('span', { class: 'phase' }), words: element('span', { class: 'words dim' }) };
  row.parts = Object.fromEntries(['cached', 'prefill', 'rest', 'decode'].map((name) => [name, element('i', { class: name })]));
  row.item = element('li', {}, element('div', { class: 'names' }, row.phase, row.name, row.words),
    element('div', { class: 'request-bar', 'aria-hidden': 'true' }, ...Object.values(row.parts)));
  return row;
}

// What is read and what is written of one request, each as wide as its tokens.
function showRow(row, request, isOwn) {
  const computed = Math.min(request.computed_tokens, request.prompt_tokens);
  const cached = Math.min(request.cached_tokens, computed);
  const widths = { cached, prefill: computed - cached, rest: request.prompt_tokens - computed, decode: request.generated_tokens };
  for (const [name, part] of Object.entries(row.parts)) part.style.flexGrow = String(widths[name]);
  if (row.item.dataset.phase !== request.phase) row.item.dataset.phase = request.phase;
  setText(row.phase, request.phase);
  setText(row.name, isOwn ? 'this chat' : `#${request.number}`);
  row.item.classList.toggle('own', isOwn);
  const words = {
    waiting: `${count(request.prompt_tokens)} tokens to read`,
    prefill: `${count(computed)} of ${count(request.prompt_tokens)}`,
    decode: `${count(request.prompt_tokens)} + ${count(request.generated_tokens)}`,
  };
  setText(row.words, `${words[request.phase]} · ${age(request.age_seconds)}`);
}
