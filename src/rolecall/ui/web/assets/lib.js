// What every view stands on: components, words in two languages, requests to the server, the address and the keys.
import { h, render, Fragment, options } from './vendor/preact.js';
import { useState, useEffect, useLayoutEffect, useRef, useMemo } from './vendor/hooks.js';
import htm from './vendor/htm.js';
import { CHINESE } from './chinese.js';

export const html = htm.bind(h);
export { render, Fragment, useState, useEffect, useLayoutEffect, useRef, useMemo };

// ── texts from data ──────────────────────────────────────────────────────────────────────────────────────────────
// Control characters and those that change the direction of text are written out wherever a component shows a text.
// (Prompts and replies are drawn by draw.js, which does so itself.)
const TURNS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const writeOut = (child) => (typeof child === 'string' ? child.replace(TURNS, (one) => `U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`) : Array.isArray(child) ? child.map(writeOut) : child);
const before = options.vnode;
options.vnode = (node) => { if (typeof node.type === 'string' && node.props.children != null) node.props.children = writeOut(node.props.children); before?.(node); };

// ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────
const LANGUAGE = 'rolecall-language';
const recall = () => { try { return localStorage.getItem(LANGUAGE); } catch { return null; } };
const wanted = new URLSearchParams(location.search).get('lang') || recall() || navigator.language || 'en';
export const isChinese = /^zh\b/i.test(wanted);
document.documentElement.lang = isChinese ? 'zh' : 'en';
export const chooseLanguage = (name) => {
  try { localStorage.setItem(LANGUAGE, name); } catch { /* the address says it, too */ }
  location.href = `./?lang=${name}${location.hash}`;
};
// Words of the page; `{name}` is filled with a value. Every text given to `t` has a line in chinese.js.
export const t = (words, values = {}) => {
  const found = (isChinese && CHINESE[words]) || words;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
};
export const number = (value) => value.toLocaleString('en');
export const countOf = (count, noun) => (isChinese ? t(`{n} ${noun}`, { n: number(count) }) : `${number(count)} ${noun}${count === 1 ? '' : 's'}`);
// Texts that the server puts together from numbers and nouns, such as `2,424 characters in 3 messages`. Sentences stay as they are.
export const tellCounts = (text) => {
  if (!isChinese) return text;
  const told = text.replace(/\b(characters?) in (?=\d)/g, '$1，').replace(/([\d,]+) (character|message|token|row)s?\b/g, (_, count, noun) => t(`{n} ${noun}`, { n: count }))
    .replace(/\b(not asked|not scored|too long|truncated by the server|thinking exhausted|failed|filtered|unparsed|training rows?)\b/g, (words) => t(words.replace(/row$/, 'rows')));
  return /[a-z]{2,} [a-z]{2,}/i.test(told) ? text : told;
};
export const metricName = (name) => name.split(', ').map((part) => t(part)).join(isChinese ? '，' : ', ');
export const tellTime = (text) => {
  const when = new Date(text);
  if (Number.isNaN(when.getTime())) return text;
  const two = (value) => String(value).padStart(2, '0');
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${two(when.getHours())}:${two(when.getMinutes())}`;
};
Draw.language.translate = t;

// ── requests: to the server; in the playground, to a worker ─────────────────────────────────────────────────────────
export class ServerError extends Error {}
const readAnswer = async (answer) => {
  const body = await answer.text();
  let found;
  try { found = JSON.parse(body); } catch { throw new ServerError(body || `HTTP ${answer.status}`); }
  if (!answer.ok) throw new ServerError(found.error || `HTTP ${answer.status}`);
  return found;
};
const reach = async (path, options) => {
  try {
    return await (globalThis.askWorker || fetch)(path, isChinese ? { ...options, headers: { ...options?.headers, 'Accept-Language': 'zh' } } : options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError(t('The server does not answer. Is `rolecall web` still running?'));
  }
};
export const ask = async (path, query = {}, options = {}) => {
  const given = Object.entries(query).filter(([, value]) => value != null && value !== '');
  return readAnswer(await reach(`api/${path}?${new URLSearchParams(given)}`, options));
};
const POST = { method: 'POST', headers: { 'Content-Type': 'application/json' } };
export const send = async (path, body, options = {}) => readAnswer(await reach(`api/${path}`, { ...POST, ...options, body: JSON.stringify(body) }));
// Calls `hear` with each line of the answer as it comes.
export const stream = async (path, body, signal, hear) => {
  const answer = await reach(`api/${path}`, { ...POST, signal, body: JSON.stringify(body) });
  if (!answer.ok) return readAnswer(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split('\n');
    rest = lines.pop();
    lines.filter(Boolean).forEach((line) => hear(JSON.parse(line)));
  }
  return null;
};

// What a request gives: the answer, or why there is none, or neither yet. The last answer stays until the next is there.
export const useAsk = (path, query, wantedNow = true) => {
  const [state, setState] = useState({ found: null, error: '', busy: true });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify([path, query, wantedNow, turn]);
  useEffect(() => {
    if (!wantedNow) return undefined;
    const stop = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    ask(path, query, { signal: stop.signal }).then(
      (found) => setState({ found, error: '', busy: false }),
      (error) => { if (error.name !== 'AbortError') setState({ found: null, error: error.message, busy: false }); });
    return () => stop.abort();
  }, [key]);
  return { ...state, again: () => setTurn(turn + 1) };
};

// ── the address: `#view?name=value`, so that what is seen can be linked to ───────────────────────────────────────
export const readAddress = () => {
  const [view, query = ''] = location.hash.slice(1).split('?');
  return { view: view || (globalThis.askWorker ? 'playground' : 'explore'), ...Object.fromEntries(new URLSearchParams(query)) };
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
// A field whose text goes into the address a moment after the last key press.
export const useTyped = (value, onchange, wait = 200) => {
  const [typed, setTyped] = useState(value);
  const said = useRef(value);
  useEffect(() => { if (value !== said.current) { said.current = value; setTyped(value); } }, [value]);
  useEffect(() => {
    const timer = setTimeout(() => { if (typed !== value) { said.current = typed; onchange(typed); } }, wait);
    return () => clearTimeout(timer);
  }, [typed]);
  return [typed, setTyped];
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
