// What people add to a run: a name, a note and tags; control of a run under way; scores over versions; slices and sweeps.
import { html, t, send, useAsk, useState, number } from './lib.js';
import { Problem, Loading } from './parts.js';

// ── name, note, tags ─────────────────────────────────────────────────────────────────────────────────────────────
export const nameOf = (run) => run.own_name || run.name;
export const Tags = ({ tags = [] }) => tags.map((tag) => html`<span class="tag"><bdi>${tag}</bdi></span> `);
export const Notes = ({ at, run, onsaved }) => {
  const [error, setError] = useState('');
  const save = (event) => {
    event.preventDefault();
    send('note', { run: at, options: Object.fromEntries(new FormData(event.target)) }).then(() => { setError(''); onsaved(); }, (failed) => setError(failed.message));
  };
  return html`<section class="notes" aria-label=${t('Name, note and tags')}><details><summary>${run.own_note ? html`<bdi>${run.own_note}</bdi>` : t('Name, note and tags')} <${Tags} tags=${run.own_tags} /></summary>
    <form class="bar" onSubmit=${save}><label class="field"><span>${t('Name')}</span><input name="name" value=${run.own_name} /></label>
      <label class="field"><span>${t('Tags')}</span><input name="tags" value=${run.own_tags.join(', ')} /></label>
      <label class="field wide"><span>${t('Note')}</span><input name="note" value=${run.own_note} /></label><button class="primary">${t('Save')}</button></form><${Problem} error=${error} /></details></section>`;
};

// ── control of a run under way ───────────────────────────────────────────────────────────────────────────────────
export const Control = ({ at, run, onchanged }) => {
  const [error, setError] = useState('');
  const set = (options) => send('control', { run: at, options }).then(() => { setError(''); onchanged(); }, (failed) => setError(failed.message));
  const { paused, concurrency, dropped } = run.control;
  return html`<div class="bar control" role="group" aria-label=${t('Control')}><button type="button" onClick=${() => set({ paused: !paused })}>${paused ? t('Resume') : t('Pause')}</button>
    <label class="field narrow"><span>${t('Requests at once')}</span><input type="number" min="1" value=${concurrency || ''} onChange=${(event) => event.target.value && set({ concurrency: Number(event.target.value) })} /></label>
    ${run.asked.filter((model) => !dropped.includes(model)).map((model) => html`<button type="button" class="quiet" onClick=${() => set({ drop: model })}>${t('Let go of {name}', { name: model })}</button>`)}<${Problem} error=${error} /></div>`;
};

// ── scores over versions ─────────────────────────────────────────────────────────────────────────────────────────
const [WIDE, TALL, EDGE] = [72, 20, 3];
export const Dot = ({ at }) => html`<svg class="dot" width="8" height="8" aria-hidden="true"><circle class=${`c${at % 7}`} cx="4" cy="4" r="3" /></svg>`;
export const Sparkline = ({ series, label }) => {
  const every = series.flat().filter(Number.isFinite);
  const most = Math.max(...series.map((points) => points.length));
  if (most < 2 || !every.length) return null;
  const [low, high] = [Math.min(...every), Math.max(...every)];
  const x = (at) => EDGE + (at / (most - 1)) * (WIDE - 2 * EDGE);
  const y = (value) => TALL - EDGE - ((value - low) / (high - low || 1)) * (TALL - 2 * EDGE);
  const lines = series.map((points) => points.map((value, at) => [x(at), y(value)]).filter(([, height]) => Number.isFinite(height)));
  return html`<svg class="spark" width=${WIDE} height=${TALL} role="img" aria-label=${label}><title>${label}</title>${lines.map((points, at) => (points.length > 1 ? html`<polyline class=${`c${at % 7} line`} fill="none" points=${points.map((point) => point.join(',')).join(' ')} />
    <circle class=${`c${at % 7}`} cx=${points[points.length - 1][0]} cy=${points[points.length - 1][1]} r="2.5" />` : null))}</svg>`;
};

// ── slices and sweeps ────────────────────────────────────────────────────────────────────────────────────────────
const OURS = 3; // length, place of the answer, and class come after the columns of the rows
const Table = ({ table }) => html`<h3><bdi>${table.title}</bdi></h3><div class="scroll" tabindex="0" role="group" aria-label=${table.title}><table class="scores slices"><thead><tr>${table.heads.map((head, at) => html`<th scope="col" class=${at >= table.numbers_from ? 'number' : ''}><bdi>${at < (table.words ?? Infinity) ? t(head) : head}</bdi></th>`)}</tr></thead>
  <tbody>${table.rows.map((row) => html`<tr>${row.map((cell, at) => (at ? html`<td class=${at >= table.numbers_from ? 'number' : ''}><bdi>${cell}</bdi></td>` : html`<th scope="row"><bdi>${cell}</bdi></th>`))}</tr>`)}</tbody></table></div>`;
const Sliced = ({ at, by }) => {
  const { found, error } = useAsk('run_slices', { run: at, by: by.join('\n') });
  if (error) return html`<${Problem} error=${error} />`;
  if (!found) return html`<${Loading} />`;
  return html`${found.tables.map((table) => html`<${Table} key=${table.title} table=${table} />`)}${found.notes.map((note) => html`<${Problem} error=${note} />`)}
    ${found.tables.length || found.notes.length ? null : html`<p class="note">${t('No scores yet.')}</p>`}`;
};
export const Slices = ({ at, run, address, change }) => {
  const by = (address.by || '').split('\n').filter((column) => run.columns.includes(column));
  const toggle = (column) => change({ by: (by.includes(column) ? by.filter((one) => one !== column) : [...by, column]).join('\n') });
  return html`<section class="sliced" aria-label=${t('Slices')}><div class="bar" role="group" aria-label=${t('Scores by')}><span class="soft">${t('Scores by')}</span>
      ${run.columns.map((column, at) => html`<button type="button" aria-pressed=${by.includes(column) ? 'true' : 'false'} onClick=${() => toggle(column)}><bdi>${at < run.columns.length - OURS ? column : t(column)}</bdi></button>`)}</div>
    ${by.length ? html`<${Sliced} key=${by.join()} at=${at} by=${by} />` : html`<p class="note">${t('Choose columns of the rows, their length, the place of the answer, or classes of answers.')}</p>`}</section>`;
};
export const Swept = ({ swept }) => html`<section class="swept" aria-label=${t('Sweep')}>${swept.map((one) => {
  const variants = Object.entries(one.variants || {});
  const most = Math.max(...variants.map(([, score]) => score), 1e-9);
  const factor = one.percent ? 100 : 1;
  return html`<h3><bdi>${one.dataset} × ${one.model}</bdi> <small>${number(one.rows)} ${t('rows')}</small></h3><p><bdi>${one.line}</bdi></p><table class="scores sweep"><tbody>${variants.map(([name, score]) => html`<tr><th scope="row"><bdi>${name}</bdi></th>
    <td class="number">${(factor * score).toFixed(1)}</td><td class="meter"><div class="c0" style=${`width:${Math.max(0, 100 * (score / most))}%`}></div></td></tr>`)}</tbody></table>`;
})}</section>`;
