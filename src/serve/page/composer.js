// The message field: what is typed, pasted and dropped.
import { byId, count, element, setText } from './elements.js';

const LONG_PASTE = 4000;
const MAX_FILE_BYTES = 8 * 1024 * 1024;

// A name in a sentence, which it cannot turn around.
const plainName = (file) => `\u2068${file.name.replace(/[\u202a-\u202e\u2066-\u2069]/g, '')}\u2069`;

export class Composer {
  // onSend({content, files}), onStop(), onEditLast(), onNotice(text) are called as people wish.
  constructor(handlers) {
    this.handlers = handlers;
    this.field = byId('prompt');
    this.files = [];
    this.field.addEventListener('input', () => this.fit());
    this.field.addEventListener('keydown', (event) => this.onKey(event));
    this.field.addEventListener('paste', (event) => this.onPaste(event));
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    byId('attach').addEventListener('click', () => byId('file').click());
    byId('file').addEventListener('change', (event) => {
      this.take([...event.target.files]);
      event.target.value = '';
    });
    this.listenForDrops();
    this.fit();
  }

  onKey(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.send();
    } else if (event.key === 'ArrowUp' && this.field.value === '' && this.files.length === 0) {
      if (this.handlers.onEditLast()) event.preventDefault();
    }
  }

  // A long text becomes a file of the message, so that the field stays a field.
  onPaste(event) {
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData('text/plain');
    if (files.length > 0 && !text) {
      event.preventDefault();
      this.take(files);
    } else if (text.length > LONG_PASTE) {
      event.preventDefault();
      this.add({ name: 'Pasted text', text });
    }
  }

  listenForDrops() {
    const hasFiles = (event) => [...event.dataTransfer.types].includes('Files');
    const mark = (on) => document.body.classList.toggle('dropping', on);
    document.addEventListener('dragover', (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      mark(true);
    });
    document.addEventListener('dragleave', (event) => {
      if (!event.relatedTarget) mark(false);
    });
    document.addEventListener('drop', (event) => {
      mark(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  async take(files) {
    for (const file of files) {
      if (file.size > MAX_FILE_BYTES) {
        this.handlers.onNotice(`${plainName(file)} has ${count(file.size / 1024 / 1024)} MiB; files may have 8.`);
        continue;
      }
      try {
        const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
        this.add({ name: file.name, text });
      } catch {
        this.handlers.onNotice(`${plainName(file)} is no text in UTF-8; the model reads text only.`);
      }
    }
  }

  add(file) {
    this.files.push(file);
    this.showFiles();
    this.field.focus();
  }

  showFiles() {
    byId('files').replaceChildren(...this.files.map((file, i) => element('li', {},
      element('bdi', { class: 'name' }, file.name), element('span', { class: 'dim' }, `${count(file.text.length)} characters`),
      element('button', { type: 'button', class: 'link', 'aria-label': `Remove ${file.name}`, click: () => this.drop(i) }, '×'))));
    this.fit();
  }

  drop(index) {
    this.files.splice(index, 1);
    this.showFiles();
    this.field.focus();
  }

  // As high as the text, to a limit that the style sets.
  fit() {
    this.field.style.height = 'auto';
    this.field.style.height = `${this.field.scrollHeight}px`;
    const length = this.field.value.length + this.files.reduce((sum, file) => sum + file.text.length, 0);
    setText(byId('count'), length >= 1000 ? `${count(length)} characters` : '');
  }

  set({ content, files }) {
    this.field.value = content;
    this.files = [...(files ?? [])];
    this.showFiles();
    this.field.focus();
  }

  send() {
    const content = this.field.value.trim();
    if (!content && this.files.length === 0) return;
    if (!this.handlers.onSend({ content, files: this.files })) return;
    this.set({ content: '', files: [] });
  }

  setRunning(isRunning) {
    byId('stop').hidden = !isRunning;
    byId('send').hidden = isRunning;
  }

  setEditing(isEditing) {
    byId('editing').hidden = !isEditing;
  }
}
