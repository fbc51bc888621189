// The parts that views are made of: fields, tabs, facts, texts, and a list that loads on as it is scrolled.
import { html, t, useState, useEffect, useLayoutEffect, useRef } from './lib.js';

// Nodes made by draw.js, inside a component.
export const Drawn = ({ make, deps, after, ...rest }) => {
  const box = useRef();
  useLayoutEffect(() => { box.current.replaceChildren(...[make()].flat()); after?.(box.current); }, deps);
  return html`<div ref=${box} ...${rest}></div>`;
};
const SCROLLS = 600; // a text that is longer may scroll, so it can be reached by keyboard
export const Text = ({ text, query = '', blanks = false, place = null }) => html`<${Drawn} class="say" dir="auto" deps=${[text, query, blanks]}
  ...${text.length > SCROLLS ? { tabindex: 0, role: 'group', 'aria-label': t('Text') } : {}} make=${() => Draw.drawRead(text, place, query.toLowerCase(), blanks)} />`;

export const Problem = ({ error, again }) => (error ? html`<div class="problem" role="alert">
  <div>${error.split('\n').map((line) => html`<p>${line}</p>`)}</div>${again ? html`<button type="button" onClick=${again}>${t('Try again')}</button>` : null}</div>` : null);
export const Loading = ({ lines = 6 }) => html`<div class="loading" role="status"><span class="hidden">${t('Loading …')}</span>
  ${[...Array(lines)].map((_, at) => html`<i key=${at} class=${`w${at % 4}`} aria-hidden="true"></i>`)}</div>`;
export const Empty = ({ title, children }) => html`<div class="nothing"><p><b>${title}</b></p>${children ? html`<p>${children}</p>` : null}</div>`;

export const Select = ({ label, value, options, onchange, all }) => html`<label class="field"><span>${label}</span>
  <select value=${value ?? ''} onChange=${(event) => onchange(event.target.value)}>
    ${all ? html`<option value="">${all}</option>` : null}
    ${options.map((one) => { const [name, words] = Array.isArray(one) ? one : [one, one]; return html`<option value=${name} selected=${String(value ?? '') === String(name)}>${words}</option>`; })}
  </select></label>`;
export const Check = ({ label, checked, onchange }) => html`<label class="check"><input type="checkbox" checked=${checked} onChange=${(event) => onchange(event.target.checked)} />${label}</label>`;
export const Search = ({ value, oninput }) => html`<label class="field"><span>${t('Search')}</span>
  <input id="search" type="search" value=${value} autocomplete="off" spellcheck=${false} onInput=${(event) => oninput(event.target.value)} /></label>`;
export const focusSearch = () => document.getElementById('search')?.focus();
export const RowNumber = ({ label, value, onchange, placeholder = '' }) => html`<label class="field narrow"><span>${label}</span>
  <input type="number" min="0" value=${value} placeholder=${placeholder} onChange=${(event) => onchange(event.target.value)} /></label>`;
export const Facts = ({ facts }) => html`<dl class="known">${facts.map(([name, words]) => html`<dt>${name}</dt><dd>${words}</dd>`)}</dl>`;

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
export const Tabs = ({ label, tabs, value, onchange }) => html`<div class="tabs" role="tablist" aria-label=${label}>
  ${tabs.map(([name, words], at) => html`<button type="button" role="tab" key=${name} aria-selected=${value === name ? 'true' : 'false'} tabindex=${value === name ? 0 : -1}
    onClick=${() => onchange(name)} onKeyDown=${(event) => {
      if (!STEPS[event.key]) return;
      event.preventDefault();
      const next = (at + STEPS[event.key] + tabs.length) % tabs.length;
      onchange(tabs[next][0]);
      event.currentTarget.parentNode.children[next].focus();
    }}>${words}</button>`)}</div>`;

// Copies a text; where the browser has no clipboard (a page that is not on loopback), the text is shown to be copied.
export const Copy = ({ text, label }) => {
  const [said, setSaid] = useState('');
  const copy = async () => {
    const written = typeof text === 'function' ? text() : text;
    try { await navigator.clipboard.writeText(written); setSaid(t('Copied')); } catch { prompt(label, written); }
    setTimeout(() => setSaid(''), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy}><span aria-live="polite">${said || label}</span></button>`;
};

// ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────
// `load(cursor)` gives { items, cursor, end }: a cursor of null ends the list, and `end` is where a list that grows goes on.
const NONE = { items: [], cursor: undefined, end: undefined, error: '', busy: true, about: null };
const SHORT = 300;
export const useEndless = (load, deps) => {
  const [state, setState] = useState(NONE);
  const turn = useRef(0);
  const busy = useRef(false);
  const fetchMore = async (from, before) => {
    const mine = turn.current;
    busy.current = true;
    setState((old) => ({ ...old, busy: true }));
    try {
      const found = await load(from);
      if (mine === turn.current) setState({ items: [...before, ...found.items], cursor: found.cursor, end: found.end, error: '', busy: false, about: found.about });
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ ...old, error: error.message, busy: false, cursor: null }));
    }
    if (mine === turn.current) busy.current = false;
  };
  useEffect(() => { turn.current += 1; busy.current = false; setState(NONE); fetchMore(undefined, []); }, deps);
  const more = () => { if (!busy.current && state.cursor != null) fetchMore(state.cursor, state.items); };
  // Takes in what was added to a list that was loaded to its end: a short list is read again, since additions may be anywhere.
  const readAgain = async () => {
    const mine = turn.current;
    busy.current = true;
    let [items, found] = [[], null];
    try {
      do { found = await load(found?.cursor); items = [...items, ...found.items]; } while (found.cursor != null && items.length < 2 * SHORT);
      if (mine === turn.current) setState((old) => ({ ...old, items, cursor: found.cursor, end: found.end, about: found.about }));
    } catch { /* the next turn tries again */ }
    if (mine === turn.current) busy.current = false;
  };
  const grow = () => {
    if (busy.current || state.cursor !== null || state.error) return;
    if (state.items.length <= SHORT) readAgain(); else fetchMore(state.end, state.items);
  };
  const replace = (key, item) => setState((old) => ({ ...old, items: old.items.map((one) => (one.key === key ? item : one)) }));
  return { ...state, more, grow, replace };
};

// Only the items that can be seen are in the page, so that a list of any length scrolls smoothly. All are equally high.
const HEIGHT = 60;
export const TALLER = 78; // with a line for the question
const MARGIN = 8;
const JUMPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity };
export const stepIn = (list, selected, by) => {
  const at = list.items.findIndex((one) => one.key === selected);
  return list.items[Math.max(0, Math.min(list.items.length - 1, at + by))];
};
export const EndlessList = ({ list, label, selected, onselect, item, empty, total, height = HEIGHT }) => {
  const box = useRef();
  const [top, setTop] = useState(0);
  const hear = () => {
    const node = box.current;
    setTop(Math.floor(node.scrollTop / height));
    if (node.scrollTop + node.clientHeight > node.scrollHeight - 10 * height) list.more();
  };
  const at = list.items.findIndex((one) => one.key === selected);
  useLayoutEffect(() => { // only the list is scrolled, not the page
    const node = box.current;
    if (at < 0) return;
    if (at * height < node.scrollTop) node.scrollTop = at * height;
    else if ((at + 1) * height > node.scrollTop + node.clientHeight) node.scrollTop = (at + 1) * height - node.clientHeight;
  }, [selected, at < 0]);
  useEffect(hear, [list.items.length, list.cursor]);
  const seen = Math.ceil((box.current?.clientHeight || 800) / height) + 2 * MARGIN;
  const first = Math.max(0, Math.min(top - MARGIN, list.items.length - seen));
  const shown = list.items.slice(first, first + seen);
  const ids = `${label.replace(/\W+/g, '-')}-item`;
  const press = (event) => {
    const by = JUMPS[event.key];
    if (!by) return;
    event.preventDefault();
    const next = stepIn(list, selected, Math.max(-list.items.length, Math.min(list.items.length, by)));
    if (next) onselect(next);
  };
  return html`<div class="list" role="listbox" tabindex="0" aria-label=${label} ref=${box} onScroll=${hear} aria-busy=${list.busy ? 'true' : 'false'}
    aria-activedescendant=${at >= first && at < first + seen ? `${ids}-${at}` : null} onKeyDown=${press}>
    <div style=${{ height: `${first * height}px` }} role="presentation"></div>
    ${shown.map((one, number_) => html`<div class="item" role="option" key=${one.key} id=${`${ids}-${first + number_}`} aria-posinset=${first + number_ + 1} aria-setsize=${total ?? -1}
      aria-selected=${one.key === selected ? 'true' : 'false'} onClick=${() => onselect(one)}>${item(one)}</div>`)}
    <div style=${{ height: `${Math.max(0, list.items.length - first - shown.length) * height}px` }} role="presentation"></div>
    ${!list.items.length ? html`<p class="note" role="presentation">${list.error || (list.busy || list.cursor ? t('Loading …') : empty)}</p>` : null}
  </div>`;
};
export const KeyHints = ({ keys }) => html`<p class="keys">${keys.map(([key, words], at) => html`${at ? ' · ' : ''}${key.split(' ').map((one) => html`<kbd>${one}</kbd> `)}${words}`)}</p>`;
