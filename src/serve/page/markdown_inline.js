// What stands inside of a paragraph, a heading or a cell: code, emphasis, links.
import { element } from './elements.js';

const MAX_DEPTH = 6;
// A longer paragraph stays plain, so that no text can make the page slow.
const MAX_LENGTH = 8000;

// An address between round brackets, which may itself have a pair of them, and a title, which is left
// out.
const TARGET = '\\((?<NAME>https?://[^\\s()]+(?:\\([^\\s()]*\\))?[^\\s()]*)(?:\\s+"[^"\\n]*")?\\)';
// A character that is no mark, or a backslash with the one behind it.
const notOf = (marks) => `(?:\\\\.|[^\\\\${marks}])`;

// What begins first counts; of what begins at one place, what stands first here.
const INLINE = new RegExp([
  '\\\\(?<escaped>[!-/:-@\\[-`{-~])',
  '(?<ticks>`+)(?<code>.+?)(?<!`)\\k<ticks>(?!`)',
  `!\\[(?<alt>[^\\]\\n]*)\\]${TARGET.replace('NAME', 'image')}`,
  `\\[(?<label>[^\\]\\n]+)\\]${TARGET.replace('NAME', 'url')}`,
  '<(?<angled>https?://[^\\s<>]+)>',
  '(?<![\\p{L}\\p{N}])(?<bare>https?://[^\\s<>"`|\\\\\\u202a-\\u202e\\u2066-\\u2069]+)',
  `(?<bothmark>\\*\\*\\*|___)(?=\\S)(?<both>${notOf('')}+?)(?<=\\S)\\k<bothmark>(?![*_])`,
  `(?<strongmark>\\*\\*|__)(?=\\S)(?<strong>${notOf('')}+?)(?<=\\S)\\k<strongmark>(?!\\*)`,
  `~~(?=\\S)(?<struck>${notOf('')}+?)(?<=\\S)~~`,
  `(?<![\\p{L}\\p{N}*])\\*(?=[^\\s*])(?<star>${notOf('*\\n')}*?(?<=\\S))\\*(?![\\p{L}\\p{N}])`,
  `(?<![\\p{L}\\p{N}_])_(?=[^\\s_])(?<line>${notOf('_\\n')}*?(?<=\\S))_(?![\\p{L}\\p{N}_])`,
].join('|'), 'gsu');

// Full stops and the like behind an address belong to the sentence; so does a closing bracket that
// nothing in the address opens.
function trimmedUrl(url) {
  let end = url.length;
  for (; end > 0; end -= 1) {
    const last = url[end - 1];
    if (last === ')' && url.slice(0, end).split('(').length >= url.slice(0, end).split(')').length) break;
    if (!'.,;:!?\'*_~)]}'.includes(last)) break;
  }
  return url.slice(0, end);
}

const link = (url, ...children) => element('a', { href: url, rel: 'noopener noreferrer nofollow', target: '_blank' }, ...children);

const isAddress = (text) => /^https?:\/\/[^\s/?#]/.test(text) && URL.canParse(text);

// The nodes of a text. A link has no link in it.
export function inline(text, depth = 0, isInLink = false) {
  if (text.length > MAX_LENGTH || depth >= MAX_DEPTH) return [document.createTextNode(text)];
  const nodes = [];
  let plain = '';
  const add = (node) => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = '';
    nodes.push(node);
  };
  const inside = (part) => inline(part, depth + 1, isInLink);
  const marks = new RegExp(INLINE);
  let at = 0;
  for (let found; (found = marks.exec(text));) {
    plain += text.slice(at, found.index);
    at = found.index + found[0].length;
    const { escaped, code, alt, image, label, url, angled, bare, both, strong, struck, star, line } = found.groups;
    const address = image ?? url ?? angled ?? (bare && trimmedUrl(bare));
    if (escaped !== undefined) {
      plain += escaped;
    } else if (code !== undefined) {
      add(element('code', {}, code.replace(/^ (.*[^ ].*) $/s, '$1')));
    } else if (address !== undefined) {
      if (bare !== undefined) marks.lastIndex = at = found.index + address.length;
      if (isInLink || !isAddress(address)) plain += text.slice(found.index, at);
      else if (image !== undefined) add(link(address, `Image: ${alt || address}`));
      else if (label !== undefined) add(link(address, ...inline(label, depth + 1, true)));
      else add(link(address, address));
    } else if (both !== undefined) {
      add(element('strong', {}, element('em', {}, ...inside(both))));
    } else if (strong !== undefined) {
      add(element('strong', {}, ...inside(strong)));
    } else if (struck !== undefined) {
      add(element('s', {}, ...inside(struck)));
    } else {
      add(element('em', {}, ...inside(star ?? line)));
    }
  }
  plain += text.slice(at);
  if (plain) nodes.push(document.createTextNode(plain));
  return nodes;
}
