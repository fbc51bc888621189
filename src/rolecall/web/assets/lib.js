// What every view uses: components, the address, requests to the server, and words in two languages.
import { h, render, Fragment } from './vendor/preact.js';
import { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from './vendor/hooks.js';
import htm from './vendor/htm.js';
import { CHINESE } from './chinese.js';

export const html = htm.bind(h);
export { render, Fragment, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback };

const chinese = /^zh\b/i.test(new URLSearchParams(location.search).get('lang') || navigator.language || '');
document.documentElement.lang = chinese ? 'zh' : 'en';
export const t = (words) => (chinese && CHINESE[words]) || words;
export const number = (value) => value.toLocaleString('en');
export const countOf = (count, noun) => (chinese ? `${number(count)} ${t(noun)}` : `${number(count)} ${noun}${count === 1 ? '' : 's'}`);

// ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────
export class ServerError extends Error {}
export const ask = async (path, query = {}, options = {}) => {
  const given = Object.entries(query).filter(([, value]) => value != null && value !== '');
  const answer = await fetch(`/api/${path}?${new URLSearchParams(given)}`, options);
  const body = await answer.text();
  let found;
  try { found = JSON.parse(body); } catch { throw new ServerError(body || `HTTP ${answer.status}`); }
  if (!answer.ok) throw new ServerError(found.error || `HTTP ${answer.status}`);
  return found;
};
export const send = (path, body) => ask(path, {}, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

// What a request gives: the answer, or why there is none, or neither yet. The last answer stays until the next is there.
export const useAsk = (path, query, wanted = true) => {
  const [state, setState] = useState({ found: null, error: '', busy: true });
  const key = JSON.stringify([path, query, wanted]);
  useEffect(() => {
    if (!wanted) return undefined;
    const stop = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    ask(path, query, { signal: stop.signal }).then(
      (found) => setState({ found, error: '', busy: false }),
      (error) => { if (error.name !== 'AbortError') setState({ found: null, error: error.message, busy: false }); });
    return () => stop.abort();
  }, [key]);
  return state;
};

// ── the address: `#view?name=value`, so that what is seen can be linked to ───────────────────────────────────────
export const readAddress = () => {
  const [view, query = ''] = location.hash.slice(1).split('?');
  return { view: view || 'explore', ...Object.fromEntries(new URLSearchParams(query)) };
};
export const addressOf = ({ view, ...query }) => {
  const given = Object.entries(query).filter(([, value]) => value != null && value !== '');
  return `#${view}${given.length ? `?${new URLSearchParams(given)}` : ''}`;
};
export const go = (change, { replace = false } = {}) => {
  const next = addressOf({ ...readAddress(), ...change });
  if (next === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', next);
  dispatchEvent(new Event('addresschange'));
};
export const useAddress = () => {
  const [address, setAddress] = useState(readAddress());
  useEffect(() => {
    const read = () => setAddress(readAddress());
    for (const name of ['addresschange', 'hashchange', 'popstate']) addEventListener(name, read);
    return () => { for (const name of ['addresschange', 'hashchange', 'popstate']) removeEventListener(name, read); };
  }, []);
  return address;
};

// ── keys: a view names its keys; typing in a field is left alone ─────────────────────────────────────────────────
export const useKeys = (keys) => {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const hear = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
        if (event.key === 'Escape') event.target.blur();
        return;
      }
      const act = latest.current[event.key];
      if (act) { event.preventDefault(); act(); }
    };
    document.addEventListener('keydown', hear);
    return () => document.removeEventListener('keydown', hear);
  }, []);
};

// ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────
// Nodes made by draw.js, inside a component.
export const Drawn = ({ make, deps, ...rest }) => {
  const box = useRef();
  useLayoutEffect(() => { box.current.replaceChildren(...[make()].flat()); }, deps);
  return html`<div ref=${box} ...${rest}></div>`;
};
export const Text = ({ text, query = '', blanks = false }) => html`<${Drawn} class="say" dir="auto" deps=${[text, query, blanks]}
  make=${() => Draw.drawLong(text, query.toLowerCase(), blanks)} />`;
export const Problem = ({ error }) => (error ? html`<div class="problem" role="alert">${error.split('\n').map((line) => html`<p>${line}</p>`)}</div>` : null);
export const Select = ({ label, value, options, onchange, all }) => html`<label class="field">${label}
  <select value=${value ?? ''} onChange=${(event) => onchange(event.target.value)}>
    ${all ? html`<option value="">${all}</option>` : null}
    ${options.map((one) => { const [name, words] = Array.isArray(one) ? one : [one, one]; return html`<option value=${name} selected=${String(value ?? '') === String(name)}>${words}</option>`; })}
  </select></label>`;
export const Tabs = ({ label, tabs, value, onchange }) => html`<div class="tabs" role="tablist" aria-label=${label}>
  ${tabs.map(([name, words]) => html`<button type="button" role="tab" key=${name} id=${`tab-${name}`} aria-selected=${value === name ? 'true' : 'false'}
    tabindex=${value === name ? 0 : -1} onClick=${() => onchange(name)}
    onKeyDown=${(event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const at = (tabs.findIndex(([one]) => one === name) + step + tabs.length) % tabs.length;
      onchange(tabs[at][0]);
      event.currentTarget.parentNode.children[at].focus();
    }}>${words}</button>`)}</div>`;
export const Check = ({ label, checked, onchange }) => html`<label class="check"><input type="checkbox" checked=${checked} onChange=${(event) => onchange(event.target.checked)} />${label}</label>`;
export const Facts = ({ facts }) => html`<dl class="known">${facts.map(([name, words]) => html`<dt>${name}</dt><dd>${words}</dd>`)}</dl>`;

// A list that loads on as it is scrolled: `load(cursor)` gives { items, cursor }, a cursor of null ends it.
export const useEndless = (load, deps) => {
  const [state, setState] = useState({ items: [], cursor: undefined, error: '', busy: false, about: null });
  const turn = useRef(0);
  const busy = useRef(false);
  const fetchMore = async (from, before) => {
    const mine = turn.current;
    busy.current = true;
    setState((old) => ({ ...old, busy: true }));
    try {
      const found = await load(from);
      if (mine === turn.current) setState({ items: [...before, ...found.items], cursor: found.cursor, error: '', busy: false, about: found.about });
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ ...old, error: error.message, busy: false, cursor: null }));
    }
    if (mine === turn.current) busy.current = false;
  };
  useEffect(() => { turn.current += 1; busy.current = false; setState({ items: [], cursor: undefined, error: '', busy: true, about: null }); fetchMore(undefined, []); }, deps);
  const more = () => { if (!busy.current && state.cursor != null) fetchMore(state.cursor, state.items); };
  return { ...state, more };
};
export const EndlessList = ({ list, label, selected, onselect, item, empty }) => {
  const box = useRef();
  const hear = () => { const node = box.current; if (node.scrollTop + node.clientHeight > node.scrollHeight - 600) list.more(); };
  useEffect(() => { // only the list is scrolled, not the page
    const node = box.current.querySelector('[aria-selected=true]');
    if (!node) return;
    const [outer, inner] = [box.current.getBoundingClientRect(), node.getBoundingClientRect()];
    if (inner.top < outer.top) box.current.scrollTop -= outer.top - inner.top;
    else if (inner.bottom > outer.bottom) box.current.scrollTop += inner.bottom - outer.bottom;
  }, [selected, list.items.length]);
  useEffect(hear, [list.items.length, list.cursor]);
  const step = (by) => {
    const at = list.items.findIndex((one) => one.key === selected);
    const next = list.items[Math.max(0, Math.min(list.items.length - 1, at + by))];
    if (next) onselect(next);
  };
  return html`<div class="list" role="listbox" tabindex="0" aria-label=${label} ref=${box} onScroll=${hear} aria-busy=${list.busy ? 'true' : 'false'}
    aria-activedescendant=${selected != null ? `item-${selected}` : null}
    onKeyDown=${(event) => { const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key]; if (by) { event.preventDefault(); step(by === -Infinity ? -list.items.length : by === Infinity ? list.items.length : by); } }}>
    ${list.items.map((one) => html`<div class="item" role="option" key=${one.key} id=${`item-${one.key}`} aria-selected=${one.key === selected ? 'true' : 'false'} onClick=${() => onselect(one)}>${item(one)}</div>`)}
    ${!list.items.length ? html`<p class="item soft" role="presentation">${list.error || (list.busy ? t('Loading …') : empty)}</p>` : null}
  </div>`;
};
