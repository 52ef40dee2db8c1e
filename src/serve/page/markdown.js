// A little Markdown, as elements: paragraphs, headings, lists, quotes, rules, tables, fenced code;
// inside of them code, emphasis, and links to the web, which images become, too. Everything else
// stays the text it is: no HTML.
import { element } from './elements.js';
import { inline } from './markdown_inline.js';
import { startsTable, tableAt } from './markdown_table.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const MAX_DEPTH = 6;

const startsBlock = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) ||
  ITEM.test(line) || QUOTE.test(line);

// Cuts lines into blocks: {kind, ...}.
function blocksOf(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const begin = at;
    let found;
    if (!line.trim()) {
      at += 1;
      continue;
    }
    if ((found = FENCE.exec(line))) {
      const [, mark, language] = found;
      const closing = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`);
      for (at += 1; at < lines.length && !closing.test(lines[at]);) at += 1;
      blocks.push({ kind: 'code', language, text: lines.slice(begin + 1, at).join('\n') });
      at += 1;
    } else if ((found = HEADING.exec(line))) {
      blocks.push({ kind: 'heading', level: found[1].length, text: withoutClosing(found[2]) });
      at += 1;
    } else if (RULE.test(line)) {
      blocks.push({ kind: 'rule' });
      at += 1;
    } else if (QUOTE.test(line)) {
      while (at < lines.length && QUOTE.test(lines[at])) at += 1;
      blocks.push({ kind: 'quote', lines: lines.slice(begin, at).map((one) => QUOTE.exec(one)[1]) });
    } else if ((found = ITEM.exec(line))) {
      at = endOfList(lines, at, found[1].length, /\d/.test(found[2]));
      blocks.push(listOf(lines.slice(begin, at), found[1].length, found[2]));
    } else if ((found = tableAt(lines, at, startsBlock))) {
      blocks.push(found);
      at += found.rows.length + 2;
    } else {
      for (at += 1; at < lines.length && lines[at].trim() && !startsBlock(lines[at]) && !startsTable(lines, at);) at += 1;
      blocks.push({ kind: 'paragraph', text: lines.slice(begin, at).join('\n') });
    }
  }
  return blocks;
}

// A heading may end with the marks that it began with.
function withoutClosing(text) {
  let end = text.trimEnd().length;
  while (end > 0 && text[end - 1] === '#') end -= 1;
  return end === 0 || /\s/.test(text[end - 1]) ? text.slice(0, end).trimEnd() : text.trimEnd();
}

// A list goes on through its items, what is indented below them, and single empty lines between.
function endOfList(lines, begin, indent, ordered) {
  let at = begin + 1;
  for (; at < lines.length; at += 1) {
    if (!lines[at].trim()) {
      const next = lines[at + 1] ?? '';
      const item = ITEM.exec(next);
      const goesOn = (item && /\d/.test(item[2]) === ordered) || /^ {2,}\S/.test(next);
      if (!goesOn) break;
      continue;
    }
    const item = ITEM.exec(lines[at]);
    if (item) {
      if (item[1].length <= indent && /\d/.test(item[2]) !== ordered) break;
    } else if (!lines[at].startsWith(' ') && startsBlock(lines[at])) {
      break;
    }
  }
  return at;
}

function listOf(lines, indent, marker) {
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent + 1) items.push([item[3]]);
    else items.at(-1).push(line.slice(Math.min(line.length - line.trimStart().length, indent + 2)));
  }
  const first = Number.parseInt(marker, 10);
  return { kind: 'list', ordered: !Number.isNaN(first), first, items };
}

function codeBlock(block) {
  const copy = element('button', { type: 'button', class: 'link', 'data-copy': block.text }, 'Copy');
  return element('figure', { class: 'code' },
    element('figcaption', {}, element('span', {}, block.language || 'text'), copy),
    element('pre', { tabindex: '0', dir: 'ltr' }, element('code', {}, block.text)));
}

// As wide as its cells; it scrolls where that is wider than the answer.
function table({ aligns, head, rows }) {
  const row = (cells, name) => element('tr', {}, ...cells.map((text, i) => element(name, { class: aligns[i] || null }, ...inline(text))));
  return element('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    element('table', {}, element('thead', {}, row(head, 'th')), element('tbody', {}, ...rows.map((cells) => row(cells, 'td')))));
}

function render(block, depth) {
  switch (block.kind) {
    case 'code': return codeBlock(block);
    case 'heading': return element(`h${Math.min(block.level + 2, 6)}`, {}, ...inline(block.text));
    case 'rule': return element('hr');
    case 'table': return table(block);
    case 'quote': return element('blockquote', {}, ...renderLines(block.lines, depth + 1));
    case 'list': {
      const start = block.ordered && block.first !== 1 ? block.first : null;
      return element(block.ordered ? 'ol' : 'ul', { start },
        ...block.items.map((lines) => element('li', {}, ...itemContent(lines, depth + 1))));
    }
    default: return element('p', {}, ...inline(block.text));
  }
}

// An item of one paragraph is set tight.
function itemContent(lines, depth) {
  const nodes = renderLines(lines, depth);
  return nodes[0]?.nodeName === 'P' && !lines.some((line) => !line.trim())
    ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function renderLines(lines, depth) {
  if (depth > MAX_DEPTH) return [element('p', {}, lines.join('\n'))];
  return blocksOf(lines).map((block) => render(block, depth));
}

// Shows `text` in `container`; blocks that did not change stay the elements they are, so that an
// answer can grow while somebody selects or reads in it.
export function showMarkdown(container, text) {
  const blocks = blocksOf(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'));
  const known = container.knownBlocks ?? [];
  const sources = blocks.map((block) => JSON.stringify(block));
  let same = 0;
  while (same < sources.length && known[same] === sources[same]) same += 1;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...blocks.slice(same).map((block) => render(block, 0)));
  container.knownBlocks = sources;
}
