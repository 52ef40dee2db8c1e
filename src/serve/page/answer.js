// One answer: what is asked of the server, and what comes back.
import { streamJson } from './api.js';

const path = 'v1/chat/completions';

// What the model reads: files first, so that questions of one text share their beginning.
export function contentOf(message) {
  const files = (message.files ?? []).map((file) => `${file.name}:\n\n${file.text}`);
  return [...files, message.content].filter((text) => text).join('\n\n');
}

export function requestOf(conversation, settings, model) {
  const messages = [];
  if (settings.system.trim()) messages.push({ role: 'system', content: settings.system });
  for (const message of conversation.messages) {
    if (message.role !== 'user' && !message.content) continue;
    // Two tabs may have had one question answered: the later answer counts.
    if (message.role === 'assistant' && messages.at(-1)?.role === 'assistant') messages.pop();
    messages.push({ role: message.role, content: contentOf(message) });
  }
  const body = { messages, stream: true, stream_options: { include_usage: true }, return_progress: true };
  if (model) body.model = model;
  for (const name of ['temperature', 'top_p', 'max_tokens', 'seed']) {
    if (settings[name] !== '' && Number.isFinite(Number(settings[name]))) body[name] = Number(settings[name]);
  }
  return body;
}

// Reads an answer. `hears` is told of it: onId(id), onProgress({total, cached, processed, rate, left}),
// onText(whole text so far). Returns {text, figures}; figures are the server's. Throws ApiError or
// AbortError, with what came so far in `error.answer`.
export async function readAnswer(body, signal, hears) {
  const answer = { text: '', figures: null };
  let reason = null;
  let usage = null;
  let timings = null;
  let first = null;
  try {
    for await (const event of streamJson(path, body, signal)) {
      if (event.id && answer.id !== event.id) {
        answer.id = event.id;
        hears.onId(event.id);
      }
      if (event.prompt_progress) {
        const now = performance.now();
        first ??= { at: now, processed: event.prompt_progress.processed };
        hears.onProgress(withRate(event.prompt_progress, first, now));
      }
      if (event.usage) ({ usage, timings } = event);
      const choice = event.choices?.[0];
      if (choice?.finish_reason) reason = choice.finish_reason;
      if (choice?.delta?.content) {
        answer.text += choice.delta.content;
        hears.onText(answer.text);
      }
    }
  } catch (error) {
    error.answer = answer;
    throw error;
  }
  answer.figures = figuresOf(usage, timings, reason);
  return answer;
}

// The rate since the first word of progress; unknown until there are two.
function withRate(progress, first, now) {
  const seconds = (now - first.at) / 1000;
  const read = progress.processed - first.processed;
  const perSecond = seconds > 0.05 && read > 0 ? read / seconds : null;
  return { ...progress, rate: perSecond, left: perSecond ? (progress.total - progress.processed) / perSecond : null };
}

function figuresOf(usage, timings, reason) {
  if (!usage) return null;
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const generated = usage.completion_tokens;
  const figures = { prompt: usage.prompt_tokens, cached, generated, reason };
  if (timings) {
    figures.queue = timings.queue_seconds;
    figures.first = timings.first_token_seconds;
    if (timings.prefill_seconds > 0) figures.prefillRate = (usage.prompt_tokens - cached) / timings.prefill_seconds;
    if (timings.decode_seconds > 0) figures.decodeRate = Math.max(generated - 1, 0) / timings.decode_seconds;
  }
  return figures;
}
