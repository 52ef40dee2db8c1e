// Fields of the windows: what is wrong with a value is said below it, in the page's own words.
import { byId, setText } from './elements.js';

// The place of a field's complaint is the element with its id and "-problem".
export function complain(field, text) {
  const place = byId(`${field.id}-problem`);
  setText(place, text);
  place.hidden = !text;
  if (text) field.setAttribute('aria-invalid', 'true');
  else field.removeAttribute('aria-invalid');
}

// What a number field's value should be; empty where it is that. (A browser's own test of a step fails
// beside great numbers.)
export function numberProblem(field) {
  const { min, max, value, validity } = field;
  const isWhole = field.step === '1';
  const kind = isWhole ? 'A whole number' : 'A number';
  if (isWhole && value !== '' && !Number.isInteger(Number(value))) return min && Number(min) > -1e6 ? `${kind} from ${min} on.` : `${kind}.`;
  if (validity.valid || (isWhole && !validity.badInput && !validity.rangeUnderflow && !validity.rangeOverflow)) return '';
  if (max && Number(max) < 1e6) return `${kind} from ${min} to ${max}.`;
  return min && Number(min) > -1e6 ? `${kind} from ${min} on.` : `${kind} of at most 15 digits.`;
}
