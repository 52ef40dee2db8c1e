// The window of settings. A value is taken as it is typed, once it is right.
import { saveKey, savedKey } from './api.js';
import { byId } from './elements.js';
import { complain, numberProblem } from './fields.js';
import { settings } from './store.js';

const NUMBERS = ['temperature', 'top_p', 'max_tokens', 'seed'];

function show() {
  for (const name of ['system', ...NUMBERS]) byId(name).value = settings.values[name];
  for (const name of NUMBERS) complain(byId(name), '');
  byId('forget-key').hidden = !savedKey();
}

export function listenToSettings() {
  byId('system').addEventListener('input', (event) => settings.set('system', event.target.value));
  for (const name of NUMBERS) {
    byId(name).addEventListener('input', ({ target }) => {
      const problem = numberProblem(target);
      complain(target, problem);
      if (!problem) settings.set(name, target.value);
    });
  }
  byId('open-settings').addEventListener('click', () => {
    show();
    byId('settings').showModal();
  });
  byId('settings-form').addEventListener('submit', (event) => {
    const wrong = NUMBERS.map(byId).find((field) => numberProblem(field));
    if (!wrong) return;
    event.preventDefault();
    wrong.focus();
  });
  byId('defaults').addEventListener('click', () => {
    settings.defaults();
    show();
  });
  byId('forget-key').addEventListener('click', () => {
    saveKey('');
    byId('forget-key').hidden = true;
  });
}
