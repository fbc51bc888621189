// Edit: the parts of a prompt as a form or as source; the prompt, its size, its cost and the findings follow as you type.
import { html, t, ask, send, useState, useEffect, useRef, useMemo, useKeys, countOf, number } from './lib.js';
import { Problem, Select, Facts, Loading, Tabs, Copy, RowNumber, useEndless, EndlessList } from './parts.js';
import { PromptView } from './prompt.js';
import { useChosen, NoConfig } from './explore.js';
import { Finding } from './lint.js';
import { Try } from './try.js';
import { Editor, RoleField } from './editor.js';
import { Aligned } from './compare.js';

const GROUPS = { prompt_template: t('Prompt template'), ice_template: t('Example template'), retriever: t('Retriever and examples'), inferencer: t('Inferencer and sampling'), meta_template: t('Meta template') };
const ROOTS = { prompt_template: ['dataset', 'infer_cfg', 'prompt_template'], ice_template: ['dataset', 'infer_cfg', 'ice_template'], retriever: ['dataset', 'infer_cfg', 'retriever'],
  inferencer: ['dataset', 'infer_cfg', 'inferencer'], meta_template: ['model', 'meta_template'] };
const keyOf = (path) => JSON.stringify(path);
const isInside = (key, root) => key.startsWith(keyOf(root).slice(0, -1)) && key !== keyOf(root);
const PAUSE = 700; // key presses in one field closer together than this (ms) are undone together

// The edits and their history. An edit of a whole part replaces the edits inside it.
const useEdits = (start) => {
  const [state, setState] = useState({ past: [], now: {}, future: [], last: ['', 0] });
  useEffect(() => setState({ past: [], now: {}, future: [], last: ['', 0] }), [start]);
  const set = (path, value, original) => setState((old) => {
    const key = keyOf(path);
    const next = Object.fromEntries(Object.entries(old.now).filter(([one]) => !isInside(one, path)));
    next[key] = value;
    if (value === original) delete next[key];
    const isSame = old.last[0] === key && Date.now() - old.last[1] < PAUSE;
    return { past: isSame ? old.past : [...old.past.slice(-200), old.now], now: next, future: [], last: [key, Date.now()] };
  });
  const move = (from, to) => setState((old) => (old[from].length ? { ...old, now: old[from][old[from].length - 1], [from]: old[from].slice(0, -1), [to]: [...old[to], old.now], last: ['', 0] } : old));
  return { edits: state.now, set, undo: () => move('past', 'future'), redo: () => move('future', 'past'), clear: () => setState((old) => ({ past: [...old.past, old.now], now: {}, future: [], last: ['', 0] })), canUndo: state.past.length > 0, canRedo: state.future.length > 0 };
};

// The training rows, to choose examples from.
const TrainingRows = ({ where, chosen, onchange }) => {
  const list = useEndless(async (cursor) => {
    const found = await ask('rows', { config: where.config, dataset: where.dataset, split: 'train', after: cursor });
    return { items: found.rows.map((one) => ({ ...one, key: one.row })), cursor: found.after, about: found };
  }, [where.config, where.dataset]);
  const toggle = ({ row }) => onchange(chosen.includes(row) ? chosen.filter((one) => one !== row) : [...chosen, row]);
  return html`<details class="training"><summary>${t('Choose from the training rows')}${list.about ? ` (${number(list.about.total)})` : ''}</summary>
    <${EndlessList} list=${list} label=${t('Training rows')} selected=${null} empty=${t('No training rows.')} onselect=${toggle}
      item=${(one) => html`<div class="line"><span class="number">${chosen.includes(one.row) ? '✓ ' : ''}${one.row}</span><bdi>${one.text}</bdi></div>`} /></details>`;
};
const readNumbers = (text) => { try { const found = JSON.parse(text.replace(/[()]/g, (one) => (one === '(' ? '[' : ']'))); return Array.isArray(found) ? found : []; } catch { return []; } };

const Field = ({ field, value, valueAt, names, set }) => {
  const change = (next) => set(field.path, next, field.original);
  if (field.kind === 'choice') {
    const none = field.own ? t('its own') : t('none');
    return html`<label class="option"><span>${field.label}</span><select onChange=${(event) => change(event.target.value)} value=${value}>
      <option value="" selected=${!value}>${none}</option>${field.choices.map((one) => html`<option value=${one} selected=${one === value}>${one}</option>`)}</select></label>`;
  }
  if (field.kind === 'option') {
    return html`<label class="option"><span>${field.label}</span><input value=${value} placeholder=${field.effective || t('not set')} spellcheck=${false} autocomplete="off" onInput=${(event) => change(event.target.value)} /></label>`;
  }
  const role = field.rolePath ? html`<${RoleField} path=${field.rolePath} value=${valueAt(field.rolePath, field.role)} roles=${names.roles} onchange=${(next) => set(field.rolePath, next, field.originalRole)} />` : null;
  return html`<div class="speech">${role}<${Editor} path=${field.path} label=${`${field.role && !role ? `${field.role} · ` : ''}${field.label}`} value=${value} names=${names} onchange=${change} /></div>`;
};

const Group = ({ group, found, edits, set, where }) => {
  const [mode, setMode] = useState('form');
  const root = ROOTS[group];
  const whole = edits[keyOf(root)];
  const valueAt = (path, otherwise) => (typeof edits[keyOf(path)] === 'string' ? edits[keyOf(path)] : otherwise);
  const own = found.fields.filter((field) => field.group === group);
  if (!own.length && !found.sources[group]) return null;
  const types = (group === 'retriever' && own.find((field) => field.kind === 'choice')?.choices) || [];
  const names = { columns: found.columns, roles: found.roles, types, isSource: mode === 'source' };
  const source = whole?.source ?? found.sources[group];
  const examples = own.find((field) => field.label === 'fix_id_list' && group === 'retriever');
  return html`<fieldset><legend>${GROUPS[group]}</legend>
    <${Tabs} label=${GROUPS[group]} tabs=${[['form', t('Form')], ['source', t('Source')]]} value=${mode} onchange=${setMode} />
    ${mode === 'source' ? html`<${Editor} path=${root} label=${t('As in a config: values and dict(…)')} value=${source} names=${names} rows=${12} onchange=${(text) => set(root, { source: text })} />`
      : html`${own.map((field) => html`<${Field} key=${keyOf(field.path)} field=${field} value=${valueAt(field.path, field.value)} valueAt=${valueAt} names=${names} set=${set} />`)}
        ${examples ? html`<${TrainingRows} where=${where} chosen=${readNumbers(valueAt(examples.path, examples.value))} onchange=${(chosen) => set(examples.path, JSON.stringify(chosen), examples.original)} />` : null}`}</fieldset>`;
};

const Source = ({ source, config, save, close }) => html`<div class="source"><${Problem} error=${source.error} />${source.source ? html`<pre class="say" tabindex="0">${source.source}</pre>
  <div class="bar"><${Copy} text=${source.source} label=${t('Copy')} /><button type="button" class="quiet" onClick=${close}>${t('Close')}</button>
    ${save ? html`<form class="bar" onSubmit=${(event) => { event.preventDefault(); save(new FormData(event.target).get('name')); }}>
      <label class="field"><span>${t('New file')}</span><input name="name" value=${`${config.name}_edited${config.suffix}`} /></label><button class="primary">${t('Save')}</button></form>` : null}
    ${source.saved ? html`<span role="status">${t('Saved {file}', { file: source.saved })}</span>` : null}</div>` : null}</div>`;

const dollars = (value) => `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(4)}`;
const Live = ({ found, took, config, change }) => html`<h3>${t('As you type')}</h3><${Facts} facts=${[
    [t('tokens'), found.tokens.map((count) => (count == null ? t('not known here') : number(count))).join(', ')],
    ...(found.costs.some(Boolean) ? [[t('cost'), found.costs.map((one) => (one ? t('{input} input, {most} at most', { input: dollars(one.input), most: dollars(one.most) }) : '–')).join('; ')]] : []),
    [t('lint'), found.findings.length ? countOf(found.findings.length, 'finding') : t('Nothing found.')],
    [t('updated in'), took == null ? '' : `${Math.round(took)} ms`]]} />
  ${found.findings.length ? html`<ul class="findings">${found.findings.map((one) => html`<${Finding} finding=${one} config=${config} change=${change} short />`)}</ul>` : null}`;

export const Edit = ({ session, address, change }) => {
  const { config, dataset, model } = useChosen(session, address);
  const [result, setResult] = useState({ found: null, error: '', took: null });
  const [source, setSource] = useState(null);
  const originals = useRef({});
  const row = Number(address.row || 0);
  const where = { config: Number(address.config || 0), dataset: dataset?.abbr, model: model?.abbr ?? null };
  const place = JSON.stringify(where);
  const { edits, set, undo, redo, clear, canUndo, canRedo } = useEdits(place);
  const list = useMemo(() => Object.entries(edits).map(([key, value]) => [JSON.parse(key), value]), [edits]);
  const request = Number(address.n || 0);
  const compares = address.as === 'changes';
  useEffect(() => { originals.current = {}; setResult({ found: null, error: '', took: null }); setSource(null); }, [place]);
  useEffect(() => setSource(null), [edits]);
  useEffect(() => {
    if (!dataset) return undefined;
    const stop = new AbortController();
    const began = performance.now();
    send('edit', { ...where, row, edits: list, ...(compares ? { compare: request } : {}) }, { signal: stop.signal }).then(
      (found) => {
        if (!list.length) for (const field of found.fields) { originals.current[keyOf(field.path)] = field.value; if (field.rolePath) originals.current[keyOf(field.rolePath)] = field.role; }
        const fields = found.fields.map((field) => ({ ...field, original: originals.current[keyOf(field.path)], originalRole: field.rolePath && originals.current[keyOf(field.rolePath)] }));
        setResult({ found: { ...found, fields }, error: '', took: performance.now() - began });
      },
      (error) => { if (error.name !== 'AbortError') setResult((old) => ({ ...old, error: error.message, took: null })); });
    return () => stop.abort();
  }, [place, row, list, compares, request]);
  useKeys({ u: undo, r: redo, w: () => change({ blanks: address.blanks === '1' ? '' : '1' }), f: () => change({ fold: address.fold === '1' ? '' : '1' }) });
  if (!config) return html`<${NoConfig} />`;
  if (config.error) return html`<${Problem} error=${config.error} />`;
  const make = (name) => send('save', { ...where, edits: list, name }).then(setSource, (error) => setSource({ error: error.message }));
  const { found } = result;
  const trial = found && model && !session.playground ? html`<${Try} where=${where} row=${row} number=${request} edits=${list} request=${found.prompts[request]?.request} />` : null;
  const changes = found?.changes ? html`<${Aligned} found=${found.changes} titles=${[t('Before'), t('After')]} />` : html`<p class="note">${t('Nothing is edited yet.')}</p>`;
  return html`<div class="edit"><section class="fields" aria-label=${t('Editable parts')}><h2 class="hidden">${t('Edit')}</h2>
      <div class="pickers"><${Select} label=${t('Dataset')} value=${dataset.abbr} options=${config.datasets.map((one) => one.abbr)} onchange=${(abbr) => change({ dataset: abbr, row: '', n: '' })} />
        ${model ? html`<${Select} label=${t('Model')} value=${model.abbr} options=${config.models.map((one) => one.abbr)} onchange=${(abbr) => change({ model: abbr, n: '' })} />` : null}
        <${RowNumber} label=${t('Row')} value=${row} onchange=${(value) => change({ row: value, n: '' })} /></div>
      <div class="bar actions"><button type="button" disabled=${!canUndo} onClick=${undo}>${t('Undo')}</button><button type="button" disabled=${!canRedo} onClick=${redo}>${t('Redo')}</button>
        <button type="button" disabled=${!list.length} onClick=${clear}>${t('Revert all')}</button>
        <button type="button" class="primary" disabled=${!list.length} onClick=${() => make('')}>${t('Show as config')}</button><span class="soft" role="status">${list.length ? countOf(list.length, 'edit') : ''}</span></div>
      ${source ? html`<${Source} source=${source} config=${config} save=${session.playground ? null : make} close=${() => setSource(null)} />` : null}
      ${found ? Object.keys(GROUPS).map((group) => html`<${Group} key=${group} group=${group} found=${found} edits=${edits} set=${set} where=${where} />`) : result.error ? null : html`<${Loading} lines=${10} />`}</section>
    <div class="content"><${Problem} error=${result.error} />
      ${found ? html`<${PromptView} prompts=${found.prompts} legend=${session.legend} address=${{ ...address, ...where, row }} change=${change} above=${trial} tokens=${false}
        also=${[['changes', t('Changes'), changes]]} beside=${html`<${Live} found=${found} took=${result.took} config=${config} change=${change} />`} />` : null}</div></div>`;
};
