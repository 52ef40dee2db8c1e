// The window that asks for the API key.
import { isPossibleKey, saveKey, savedKey } from './api.js';
import { byId, setText } from './elements.js';
import { complain } from './fields.js';

const IMPOSSIBLE = 'No server takes this key: keys have visible characters of ASCII only, such as letters, digits and hyphens. Was something else pasted?';

// What pasting brings along and nobody sees: blanks, zero-width characters, marks of direction.
const withoutInvisible = (text) => text.replace(/[\s\p{Cc}\p{Cf}]/gu, '');

export class KeyWindow {
  // onKey() is called once there is one, before what `ask` was given.
  constructor(onKey) {
    this.afterwards = null; // what was wanted when the key was asked for
    byId('key').addEventListener('input', ({ target }) => {
      const clean = withoutInvisible(target.value);
      if (clean !== target.value) target.value = clean;
      complain(target, isPossibleKey(clean) ? '' : IMPOSSIBLE);
    });
    byId('key-form').addEventListener('submit', (event) => {
      event.preventDefault();
      const field = byId('key');
      const key = withoutInvisible(field.value);
      if (!key || !isPossibleKey(key)) {
        complain(field, key ? IMPOSSIBLE : 'Enter the key.');
        field.focus();
        return;
      }
      saveKey(key);
      field.value = '';
      byId('key-dialog').close();
      onKey();
      this.afterwards?.();
      this.afterwards = null;
    });
    byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());
  }

  ask(afterwards) {
    // Several may ask at once; one that wants nothing afterwards does not undo another's wish.
    if (afterwards || !byId('key-dialog').open) this.afterwards = afterwards;
    setText(byId('key-why'), this.why());
    complain(byId('key'), '');
    if (!byId('key-dialog').open) byId('key-dialog').showModal();
  }

  why() {
    const key = savedKey();
    if (!key) return 'This server wants a key. Whoever runs it has it in the file that was given with --api-key-file.';
    return isPossibleKey(key) ? 'The server does not take the key that was given.' : IMPOSSIBLE;
  }
}
