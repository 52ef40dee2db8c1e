// Asking the server: the key, errors in words, and streams of events.

const KEY = 'baton.key';

export function savedKey() {
  return sessionStorage.getItem(KEY) ?? '';
}

// Whether a server may have it: keys are visible characters of ASCII. Others cannot even be sent.
export const isPossibleKey = (key) => /^[!-~]*$/.test(key);

export function saveKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

// What went wrong, for people: `message` says what happened, `advice` what to do.
export class ApiError extends Error {
  constructor(status, message, advice, code = '') {
    super(message);
    Object.assign(this, { status, advice, code });
  }
}

function explain(status, error, retryAfter) {
  const message = error?.message ?? `The server answered with status ${status}.`;
  const code = error?.code ?? '';
  const sentence = message[0].toUpperCase() + message.slice(1) + (/[.!?]$/.test(message) ? '' : '.');
  if (status === 401) {
    const had = savedKey() !== '';
    return new ApiError(401, had ? 'The server does not take this API key.' : 'This server wants an API key.',
      'Enter a key; whoever runs the server has it.', code);
  }
  if (code === 'context_length_exceeded') {
    return new ApiError(status, sentence,
      'Shorten the message, start a new conversation, or have the server started with a larger --ctx.', code);
  }
  if (status === 429) {
    return new ApiError(status, sentence, `The server is busy. Try again${retryAfter ? ` in ${retryAfter} s` : ' in a moment'}.`, code);
  }
  if (status === 503) return new ApiError(status, sentence, 'Try again in a moment.', code);
  if (status === 413) return new ApiError(status, sentence, 'The text is too large for one request; shorten it.', code);
  return new ApiError(status, sentence, '', code);
}

const gone = () => new ApiError(0, 'The server does not answer.',
  'It may have been stopped, or the network is down. The conversation is kept; try again once it is back.', 'gone');

// The response of a request that succeeded. Throws ApiError, or what an abort throws.
async function ask(path, options) {
  const headers = { ...options.headers };
  const key = savedKey();
  if (!isPossibleKey(key)) {
    throw new ApiError(401, 'No server takes this API key: it has characters that no key has.', 'Enter it again; whoever runs the server has it.');
  }
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw gone();
  }
  if (response.ok) return response;
  let body = null;
  try {
    body = await response.json();
  } catch {
    // A proxy's own words say less than the status.
  }
  throw explain(response.status, body?.error, response.headers.get('Retry-After'));
}

export async function getJson(path, signal) {
  const response = await ask(path, { signal });
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw gone();
  }
}

// The events of a streamed answer, as objects, until [DONE]. Ends of events may lie anywhere in what
// the network brings.
export async function* streamJson(path, body, signal) {
  const response = await ask(path, {
    method: 'POST', signal, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' },
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw gone();
    }
    if (piece.done) throw new ApiError(0, 'The answer broke off.', 'The server may have been stopped. Try again.', 'gone');
    buffer += piece.value;
    const events = buffer.split('\n\n');
    buffer = events.pop();
    for (const event of events) {
      if (!event.startsWith('data: ')) continue;
      const data = event.slice('data: '.length);
      if (data === '[DONE]') return;
      const json = JSON.parse(data);
      if (json.error) throw explain(json.error.code === 'draining' ? 503 : 500, json.error, null);
      yield json;
    }
  }
}
