// Edit: the texts and options of a prompt; the prompt, its size and the findings follow as you type.
import { html, t, send, useAsk, useState, useEffect, useRef, useMemo, Problem, Select, Facts, countOf, number } from './lib.js';
import { PromptView } from './prompt.js';
import { useChosen } from './explore.js';
import { Try } from './try.js';

const GROUPS = { prompt_template: 'Prompt template', ice_template: 'Example template', retriever: 'Retriever', inferencer: 'Inferencer', meta_template: 'Meta template' };
const keyOf = (path) => JSON.stringify(path);

// A text area that offers the row's columns after an opening brace.
const Editor = ({ field, value, columns, onchange }) => {
  const box = useRef();
  const [offer, setOffer] = useState(null);
  const id = `field-${keyOf(field.path).replace(/\W+/g, '-')}`;
  const look = () => {
    const node = box.current;
    const open = /\{(\w*)$/.exec(node.value.slice(0, node.selectionStart));
    const found = open ? columns.filter((one) => one.toLowerCase().startsWith(open[1].toLowerCase())) : [];
    setOffer(found.length ? { names: found, at: 0, from: node.selectionStart - open[1].length } : null);
  };
  const take = (name) => {
    const node = box.current;
    const rest = node.value.slice(node.selectionStart).replace(/^\}/, '');
    const next = `${node.value.slice(0, offer.from)}${name}}${rest}`;
    setOffer(null);
    onchange(next);
    requestAnimationFrame(() => { node.focus(); node.selectionStart = node.selectionEnd = offer.from + name.length + 1; });
  };
  const hear = (event) => {
    if (!offer) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setOffer({ ...offer, at: (offer.at + step + offer.names.length) % offer.names.length }); }
    if (event.key === 'Enter' || event.key === 'Tab') { event.preventDefault(); take(offer.names[offer.at]); }
    if (event.key === 'Escape') { event.stopPropagation(); setOffer(null); }
  };
  return html`<div class="editor"><label for=${id}>${field.label}</label>
    <textarea id=${id} ref=${box} rows=${Math.min(12, Math.max(2, value.split('\n').length + 1))} spellcheck=${false} value=${value}
      role="combobox" aria-autocomplete="list" aria-expanded=${offer ? 'true' : 'false'} aria-controls=${`${id}-offer`}
      onInput=${(event) => { onchange(event.target.value); look(); }} onKeyDown=${hear} onBlur=${() => setTimeout(() => setOffer(null), 150)}></textarea>
    <ul class="offer" id=${`${id}-offer`} role="listbox" aria-label="Columns" hidden=${!offer}>${(offer?.names || []).map((name, at) => html`<li role="option" aria-selected=${at === offer.at ? 'true' : 'false'} onMouseDown=${(event) => { event.preventDefault(); take(name); }}>${name}</li>`)}</ul></div>`;
};

export const Edit = ({ session, address, change }) => {
  const { config, dataset, model } = useChosen(session, address);
  const [history, setHistory] = useState([{}]);
  const [result, setResult] = useState({ found: null, error: '', took: null });
  const [source, setSource] = useState(null);
  const row = Number(address.row || 0);
  const where = { config: Number(address.config || 0), dataset: dataset?.abbr, model: model?.abbr };
  const { found: fields, error: missing } = useAsk('fields', where, Boolean(dataset));
  const edits = history[history.length - 1];
  const list = useMemo(() => Object.entries(edits).map(([key, value]) => [JSON.parse(key), value]), [edits]);
  const turn = useRef(0);
  useEffect(() => { setHistory([{}]); setSource(null); }, [where.config, where.dataset, where.model]);
  useEffect(() => {
    if (!dataset) return;
    const mine = ++turn.current;
    const began = performance.now();
    send('edit', { ...where, model: where.model ?? null, row, edits: list }).then(
      (found) => { if (mine === turn.current) setResult({ found, error: '', took: performance.now() - began }); },
      (error) => { if (mine === turn.current) setResult((old) => ({ ...old, error: error.message })); });
  }, [JSON.stringify([where, row, list])]);
  if (!config) return html`<p class="note">No config was opened.</p>`;
  if (config.error) return html`<${Problem} error=${config.error} />`;
  const originals = Object.fromEntries((fields?.fields || []).map((field) => [keyOf(field.path), field.value]));
  const set = (field) => (value) => {
    const key = keyOf(field.path);
    const next = { ...edits, [key]: value };
    if (value === originals[key]) delete next[key];
    setSource(null);
    setHistory([...history.slice(-200), next]);
  };
  const columns = fields?.columns || [];
  const make = (name) => send('save', { ...where, model: where.model ?? null, edits: list, name }).then((found) => setSource(found), (error) => setSource({ error: error.message }));
  const groups = Object.keys(GROUPS).map((group) => [group, (fields?.fields || []).filter((field) => field.group === group)]).filter(([, own]) => own.length);
  const { found } = result;
  const beside = found && html`<h3>Live</h3><${Facts} facts=${[
    ['tokens', found.tokens.map((count) => (count == null ? 'not known here' : number(count))).join(', ')],
    ...(found.prices.some((one) => one != null) ? [['price', found.prices.map((one) => (one == null ? '–' : one.toPrecision(2))).join(', ')]] : []),
    ['updated in', result.took == null ? '' : `${Math.round(result.took)} ms`],
    ['lint', found.findings.length ? countOf(found.findings.length, 'finding') : t('Nothing found.')]]} />
    ${found.findings.map((one) => html`<p class=${`note finding-note ${one.severity === 'error' ? 'missing' : ''}`}><b>${one.rule}</b> ${one.message} ${one.remedy}</p>`)}`;
  return html`<div class="edit"><section class="fields" aria-label="Editable parts"><h2 class="hidden">${t('Edit')}</h2>
      <div class="bar"><${Select} label=${t('Dataset')} value=${dataset.abbr} options=${config.datasets.map((one) => one.abbr)} onchange=${(abbr) => change({ dataset: abbr, row: '', n: '' })} />
        ${model ? html`<${Select} label=${t('Model')} value=${model.abbr} options=${config.models.map((one) => one.abbr)} onchange=${(abbr) => change({ model: abbr, n: '' })} />` : null}
        <label class="field narrow">${t('Row')}<input type="number" min="0" value=${row} onChange=${(event) => change({ row: event.target.value, n: '' })} /></label></div>
      <div class="bar"><button type="button" disabled=${history.length < 2} onClick=${() => setHistory(history.slice(0, -1))}>Undo</button>
        <button type="button" disabled=${!list.length} onClick=${() => setHistory([...history, {}])}>Revert all</button>
        <button type="button" disabled=${!list.length} onClick=${() => make('')}>Show as config</button><span class="soft">${list.length ? countOf(list.length, 'edit') : ''}</span></div>
      ${source ? html`<div class="source"><${Problem} error=${source.error} />${source.source ? html`<pre class="say" tabindex="0">${source.source}</pre>
        <div class="bar"><button type="button" onClick=${() => navigator.clipboard.writeText(source.source)}>Copy</button>
        <form class="bar" onSubmit=${(event) => { event.preventDefault(); make(new FormData(event.target).get('name')); }}><label class="field">New file<input name="name" value=${`${config.name}_edited.py`} /></label><button>Save</button></form>
        ${source.saved ? html`<span role="status">Saved ${source.saved}</span>` : null}</div>` : null}</div>` : null}
      <${Problem} error=${missing} />
      ${groups.map(([group, own]) => html`<fieldset key=${group}><legend>${GROUPS[group]}</legend>
        ${own.map((field) => (field.kind === 'text'
          ? html`<${Editor} key=${keyOf(field.path)} field=${field} value=${edits[keyOf(field.path)] ?? field.value} columns=${columns} onchange=${set(field)} />`
          : html`<label class="option" key=${keyOf(field.path)}><span>${field.label}</span><input value=${edits[keyOf(field.path)] ?? field.value} placeholder="not set" spellcheck=${false} onInput=${(event) => set(field)(event.target.value)} /></label>`))}</fieldset>`)}</section>
    <div class="content"><${Problem} error=${result.error} />
      ${found ? html`<${PromptView} prompts=${found.prompts} legend=${session.legend} address=${{ ...address, ...where, row }} change=${change} beside=${beside} above=${html`<${Try} where=${where} row=${row} number=${Number(address.n || 0)} edits=${list} request=${found.prompts[Math.min(Number(address.n || 0), found.prompts.length - 1)]?.request} />`} views=${[['text', t('Text')], ['json', t('JSON')]]} />` : html`<p class="note">${t('Loading …')}</p>`}</div></div>`;
};
