// Building the page's elements. Texts become text nodes and never markup.

// element('button', { class: 'tool', type: 'button' }, 'Copy', other)
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

// Sets a text only where it changes, so that readers of the screen are left alone.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

// 12,345
export const count = (number) => whole.format(number);

// 8.4 or 1,234
export const rate = (number) => (number >= 100 ? whole : fine).format(Number.isFinite(number) ? number : 0);

// "4.2 s", "42 s": for what goes on.
export const age = (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : seconds < 60 ? `${Math.floor(seconds)} s` : duration(seconds));

// "0.42 s", "12.3 s", "2 min 05 s", "3 h 12 min"
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
