// Tables of Markdown: a row of names, a row of dashes, and what follows until an empty line.

// A longer table stays plain, so that no text can make the page slow.
const MAX_CELLS = 5000;

// The cells of a row: between bars, but for bars behind a backslash, which lose it.
function cellsOf(line) {
  const cells = [''];
  for (let i = 0; i < line.length; i += 1) {
    if (line[i] === '|') {
      cells.push('');
    } else if (line[i] === '\\' && i + 1 < line.length) {
      i += 1;
      cells[cells.length - 1] += line[i] === '|' ? '|' : `\\${line[i]}`;
    } else {
      cells[cells.length - 1] += line[i];
    }
  }
  const trimmed = cells.map((cell) => cell.trim());
  if (trimmed.length > 1 && trimmed[0] === '') trimmed.shift();
  if (trimmed.length > 1 && trimmed.at(-1) === '') trimmed.pop();
  return trimmed;
}

// How the columns are set, of a row of dashes; null if it is none.
function alignsOf(line) {
  if (!line.includes('-') || !/^[ |:-]+$/.test(line)) return null;
  const cells = cellsOf(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'centre' : 'right') : ''));
}

export function startsTable(lines, at) {
  if (!lines[at].includes('|') || at + 1 >= lines.length) return false;
  const aligns = alignsOf(lines[at + 1]);
  return aligns !== null && aligns.length === cellsOf(lines[at]).length;
}

// {kind, aligns, head, rows} of the table that begins at a line; null if none does. `startsBlock`
// tells what ends it besides an empty line.
export function tableAt(lines, at, startsBlock) {
  if (!startsTable(lines, at)) return null;
  const head = cellsOf(lines[at]);
  const rows = [];
  let cells = head.length;
  for (let i = at + 2; i < lines.length && lines[i].trim() && !startsBlock(lines[i]); i += 1) {
    rows.push(cellsOf(lines[i]));
    cells += rows.at(-1).length;
    if (cells > MAX_CELLS) return null;
  }
  return { kind: 'table', aligns: alignsOf(lines[at + 1]), head, rows };
}
