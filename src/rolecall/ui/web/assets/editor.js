// A text area that offers names as you type: columns after `{`, and in source also roles and types after their key.
import { html, t, useState, useRef } from './lib.js';

const idOf = (path) => `field-${JSON.stringify(path).replace(/\W+/g, '-')}`;
// What may follow the text before the cursor: [the pattern of what is being typed, the names, what closes them].
const offersOf = (names) => [
  [/\{(\w*)$/, names.columns, '}'],
  ...(names.isSource ? [[/['"]?\brole['"]?\s*[=:]\s*'([\w-]*)$/, names.roles, "'"], [/['"]?\btype['"]?\s*[=:]\s*'([\w-]*)$/, names.types, "'"]] : []),
];
const find = (names, before) => {
  for (const [pattern, known, close] of offersOf(names)) {
    const typed = pattern.exec(before);
    const fits = typed ? known.filter((one) => one.toLowerCase().startsWith(typed[1].toLowerCase()) && one !== typed[1]) : [];
    if (fits.length) return { names: fits, at: 0, from: before.length - typed[1].length, close };
  }
  return null;
};

export const Editor = ({ path, label, value, names, onchange, rows }) => {
  const box = useRef();
  const [offer, setOffer] = useState(null);
  const id = idOf(path);
  const look = () => setOffer(find(names, box.current.value.slice(0, box.current.selectionStart)));
  const take = (name) => {
    const node = box.current;
    const rest = node.value.slice(node.selectionStart);
    const next = `${node.value.slice(0, offer.from)}${name}${offer.close}${rest.startsWith(offer.close) ? rest.slice(1) : rest}`;
    const cursor = offer.from + name.length + offer.close.length;
    setOffer(null);
    onchange(next);
    requestAnimationFrame(() => { node.focus(); node.selectionStart = node.selectionEnd = cursor; });
  };
  const hear = (event) => {
    if (!offer) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setOffer({ ...offer, at: (offer.at + step + offer.names.length) % offer.names.length }); }
    if (event.key === 'Enter' || event.key === 'Tab') { event.preventDefault(); take(offer.names[offer.at]); }
    if (event.key === 'Escape') { event.stopPropagation(); setOffer(null); }
  };
  return html`<div class="editor"><label for=${id}>${label}</label>
    <textarea id=${id} ref=${box} rows=${rows || Math.min(14, Math.max(2, value.split('\n').length + 1))} spellcheck=${false} value=${value} autocomplete="off" dir="auto"
      role="combobox" aria-autocomplete="list" aria-expanded=${offer ? 'true' : 'false'} aria-controls=${`${id}-offer`} aria-activedescendant=${offer ? `${id}-${offer.at}` : null}
      onInput=${(event) => { onchange(event.target.value); look(); }} onKeyDown=${hear} onBlur=${() => setTimeout(() => setOffer(null), 150)}></textarea>
    <ul class="offer" id=${`${id}-offer`} role="listbox" aria-label=${t('Names')} hidden=${!offer}>${(offer?.names || []).map((name, at) => html`<li role="option" id=${`${id}-${at}`} aria-selected=${at === offer.at ? 'true' : 'false'}
      onMouseDown=${(event) => { event.preventDefault(); take(name); }}>${name}</li>`)}</ul></div>`;
};

// The role of a speech: a field that offers the roles the model knows.
export const RoleField = ({ path, value, roles, onchange }) => {
  const id = idOf(path);
  return html`<span class="role-field"><input id=${id} list=${`${id}-list`} aria-label=${t('Role')} value=${value} size=${Math.max(7, value.length)} spellcheck=${false} autocomplete="off"
    onInput=${(event) => onchange(event.target.value)} /><datalist id=${`${id}-list`}>${roles.map((role) => html`<option value=${role} />`)}</datalist></span>`;
};
