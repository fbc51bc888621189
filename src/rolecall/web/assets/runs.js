// Runs: scores, rows in pages, one row with everything known about it; two runs or two models compared.
import { html, t, ask, send, useAsk, useEndless, EndlessList, Select, Problem, Text, Facts, useKeys, useState, useEffect, Tabs, number } from './lib.js';
import { PromptView } from './prompt.js';

const FILTERS = ['dataset', 'model', 'outcome', 'verdict', 'q'];
const keyOf = (one) => JSON.stringify([one.dataset, one.model, one.row]);
const badgeOf = (one) => {
  if (one.outcome !== 'ok' && !['correct', 'wrong'].includes(one.verdict)) return [one.outcome.replace('_', ' '), 'bad'];
  const also = one.outcome === 'ok' ? '' : ` (${one.outcome.replace('_', ' ')})`;
  return { correct: [`✓ correct${also}`, 'correct'], wrong: [`✗ wrong${also}`, 'wrong'], scored: [`score ${Number((one.score ?? 0).toPrecision(3))}`, ''] }[one.verdict] || [one.verdict, ''];
};
const Badge = ({ one }) => { const [words, kind] = badgeOf(one); return html`<span class=${`badge ${kind}`}>${words}</span>`; };

const Scores = ({ scores, change }) => (!scores.lines.length ? html`<p class="note">No scores yet.</p>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${t('Scores')}><table class="scores">
  <thead><tr><th scope="col">dataset</th>${scores.models.map((model) => html`<th scope="col"><bdi>${model}</bdi></th>`)}</tr></thead>
  <tbody>${scores.lines.map((line) => html`<tr key=${line.dataset + line.metric}><th scope="row"><bdi>${line.dataset}</bdi><small>${line.metric}</small></th>
    ${line.cells.map((cell, at) => (cell ? html`<td><button type="button" class="plain" onClick=${() => change({ dataset: line.dataset, model: scores.models[at], outcome: '', verdict: '', at: '' })}><b>${cell.score}</b></button> <i>${cell.interval}</i>
      ${cell.scored ? html`<small>${cell.scored} scored</small>` : null}${cell.rest ? html`<small class="missing">${cell.rest}</small>` : null}${cell.error ? html`<small class="missing">${cell.error}</small>` : null}</td>` : html`<td></td>`))}</tr>`)}</tbody></table></div>`);

const Answer = ({ name, text, query }) => html`<div><h4>${name}</h4>${text ? html`<${Text} text=${text} query=${query} />` : html`<p class="say empty">empty</p>`}</div>`;

const Label = ({ address, wanted, value }) => {
  const [label, setLabel] = useState(value);
  const [error, setError] = useState('');
  const set = (next) => send('label', { run: Number(address.run || 0), ...wanted, label: next }).then(() => setLabel(next), (failed) => setError(failed.message));
  return html`<div class="bar label" role="group" aria-label="Your label"><span class="soft">Your label</span>
    ${['correct', 'wrong'].map((name) => html`<button type="button" aria-pressed=${label === name ? 'true' : 'false'} onClick=${() => set(label === name ? '' : name)}>${name}</button>`)}<${Problem} error=${error} /></div>`;
};

const RowDetail = ({ address, wanted, session, change }) => {
  const { found, error } = useAsk('run_row', { run: address.run || 0, ...wanted });
  if (error) return html`<${Problem} error=${error} />`;
  if (!found) return html`<p class="note">${t('Loading …')}</p>`;
  const query = address.q || '';
  const above = html`<div class="outcome"><${Badge} one=${found} />${found.reason && found.outcome !== 'ok' ? html`<p class="note missing">${found.reason}</p>` : null}
    <${Label} key=${JSON.stringify(wanted)} address=${address} wanted=${wanted} value=${found.label} />
    <div class="answers"><${Answer} name=${t('Gold')} text=${found.gold} /><${Answer} name=${t('Extracted')} text=${found.extracted} /></div>
    ${found.replies.map((reply, at) => html`<${Answer} name=${found.replies.length > 1 ? `${t('Reply')} ${at + 1}` : t('Reply')} text=${reply} query=${query} />`)}
    ${found.reasoning.map((thought) => html`<details><summary>${t('Reasoning')} (${number(thought.length)})</summary><${Text} text=${thought} query=${query} /></details>`)}
    ${found.details ? html`<details open=${found.details.length < 600}><summary>${t('Details')}</summary><${Text} text=${found.details} /></details>` : null}
    <h4>${t('Prompt')}</h4></div>`;
  const beside = html`<h3>About this row</h3><${Facts} facts=${found.facts} />
    ${found.others.length ? html`<h3>The same row</h3><div class="others">${found.others.map((one) => html`<button type="button" onClick=${() => change({ at: keyOf(one), model: '' })}><bdi>${one.model}</bdi> <${Badge} one=${one} /></button>`)}</div>` : null}`;
  if (!found.prompts.length) return html`<div class="workbench"><section class="main"><h2 class="title"><bdi>${found.dataset} × ${found.model} · row ${found.row}</bdi></h2>${above}<p class="note">The request was not kept.</p></section><aside class="inspector">${beside}</aside></div>`;
  return html`<${PromptView} prompts=${found.prompts} legend=${session.legend} address=${address} change=${change} query=${query} above=${above} beside=${beside} views=${[['text', t('Text')], ['json', t('JSON')]]} />`;
};

const RunRows = ({ session, address, change, run }) => {
  const [typed, setTyped] = useState(address.q || '');
  const filters = Object.fromEntries(FILTERS.map((name) => [name, address[name] || '']));
  useEffect(() => { const wait = setTimeout(() => { if (typed !== (address.q || '')) change({ q: typed }, { replace: true }); }, 250); return () => clearTimeout(wait); }, [typed]);
  const list = useEndless(async (cursor) => {
    const found = await ask('run_rows', { run: address.run || 0, ...filters, after: cursor });
    return { items: found.rows.map((one) => ({ ...one, key: keyOf(one) })), cursor: found.after };
  }, [JSON.stringify([address.run || 0, filters])]);
  const open = address.at || list.items[0]?.key;
  let wanted = null;
  try { const [dataset, model, row] = JSON.parse(open); wanted = { dataset, model, row }; } catch { /* no row is open */ }
  const step = (by) => {
    const at = list.items.findIndex((one) => one.key === open);
    const next = list.items[Math.max(0, Math.min(list.items.length - 1, at + by))];
    if (next) change({ at: next.key, n: '' }, { replace: true });
  };
  useKeys({ j: () => step(1), k: () => step(-1), '/': () => document.getElementById('search')?.focus() });
  const set = (name) => (value) => change({ [name]: value, at: '' });
  return html`<div class="explore rows"><nav class="side" aria-label=${t('Rows')}>
      <div class="filters"><${Select} label=${t('Dataset')} all=${t('all')} value=${filters.dataset} options=${run.datasets} onchange=${set('dataset')} />
        <${Select} label=${t('Model')} all=${t('all')} value=${filters.model} options=${run.models} onchange=${set('model')} />
        <${Select} label=${t('Outcome')} all=${t('all')} value=${filters.outcome} options=${run.outcomes} onchange=${set('outcome')} />
        <${Select} label=${t('Verdict')} all=${t('all')} value=${filters.verdict} options=${run.verdicts} onchange=${set('verdict')} /></div>
      <label class="field">${t('Search')}<input id="search" type="search" value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => setTyped(event.target.value)} /></label>
      <${EndlessList} list=${list} label=${t('Rows')} selected=${open} empty=${t('No matching rows.')} onselect=${(one) => change({ at: one.key, n: '' }, { replace: true })}
        item=${(one) => html`<div class="head"><bdi>${one.dataset} · ${one.row} · ${one.model}</bdi><${Badge} one=${one} /></div><div><bdi>${one.answer || one.replyCell || ''}</bdi>${one.goldCell ? html` <span class="soft">· gold ${one.goldCell}</span>` : null}</div>`} />
      <p class="keys"><kbd>j</kbd> <kbd>k</kbd> ${t('Rows')} · <kbd>/</kbd> ${t('Search')}</p></nav>
    <div class="content">${wanted ? html`<${RowDetail} key=${open} address=${address} wanted=${wanted} session=${session} change=${change} />` : null}</div></div>`;
};

const digitsOf = (one) => { const scale = Math.max(Math.abs(one.left ?? 0), Math.abs(one.right ?? 0), Math.abs(one.low ?? 0), Math.abs(one.high ?? 0)); return scale <= 1 ? 3 : scale <= 10 ? 2 : 1; };
const plain = (value, digits) => (value == null ? '–' : value.toFixed(digits));
const signed = (value, digits) => (value == null ? '–' : `${value > 0 ? '+' : ''}${value.toFixed(digits)}`.replace('-', '−'));
const RunCompare = ({ session, address, change, run }) => {
  const sides = ['left', 'right'];
  const defaults = session.runs.length > 1 ? { right_run: 1 } : { left_model: run.models[0], right_model: run.models[1] || run.models[0] };
  const query = Object.fromEntries(sides.flatMap((side) => [[`${side}_run`, address[`${side}_run`] ?? defaults[`${side}_run`] ?? 0], [`${side}_model`, address[`${side}_model`] ?? defaults[`${side}_model`] ?? '']]));
  const { found, error, busy } = useAsk('run_compare', query);
  const flips = found ? found.differences.flatMap((one) => one.flips) : [];
  return html`<div class="compare"><div class="choosers">${sides.map((side) => html`<fieldset class="chooser"><legend>${side === 'left' ? t('Left') : t('Right')}</legend>
      <${Select} label="Run" value=${query[`${side}_run`]} options=${session.runs.map((one, at) => [at, one.name])} onchange=${(value) => change({ [`${side}_run`]: value })} />
      <${Select} label=${t('Model')} all=${t('all')} value=${query[`${side}_model`]} options=${run.models} onchange=${(value) => change({ [`${side}_model`]: value || ' ' })} /></fieldset>`)}</div>
    <${Problem} error=${error} />${busy ? html`<p class="note">${t('Loading …')}</p>` : null}
    ${found ? html`<div class="scroll" tabindex="0" role="region" aria-label="Differences"><table><thead><tr>${['dataset', 'model', 'metric', 'left', 'right', 'difference', 'p', 'rows', 'flipped'].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${found.differences.map((one) => html`<tr><th scope="row"><bdi>${one.dataset}</bdi></th><td><bdi>${one.model}</bdi></td><td>${one.metric}</td><td>${plain(one.left, digitsOf(one))}</td><td>${plain(one.right, digitsOf(one))}</td>
        <td>${one.p != null && one.p < 0.05 ? html`<b>${signed(one.difference, digitsOf(one))}</b>` : signed(one.difference, digitsOf(one))} <i>${one.low == null ? '' : `[${signed(one.low, digitsOf(one))}, ${signed(one.high, digitsOf(one))}]`}</i></td>
        <td>${one.p == null ? '–' : one.p < 0.001 ? '<0.001' : one.p.toFixed(3)}</td><td>${number(one.rows)}</td><td>${number(one.flipped)}</td></tr>`)}</tbody></table></div>
      <h3>Changed rows</h3>${flips.length ? html`<ul class="findings">${flips.map(([left, right]) => html`<li><button type="button" class="finding" onClick=${() => change({ view: 'runs', show: 'rows', run: query.right_run, at: keyOf(right), dataset: '', model: '', outcome: '', verdict: '', q: '' })}>
        <bdi>${left.dataset} · row ${left.row}</bdi> <span class="side-by-side"><span><${Badge} one=${left} /> <bdi>${left.model}: ${left.answer}</bdi></span><span><${Badge} one=${right} /> <bdi>${right.model}: ${right.answer}</bdi></span></span>${left.goldCell ? html`<span class="soft">gold ${left.goldCell}</span>` : null}</button></li>`)}</ul>` : html`<p class="note">No row changed.</p>`}` : null}</div>`;
};

export const Runs = ({ session, address, change }) => {
  const [turn, setTurn] = useState(0);
  const { found: run, error } = useAsk('run', { run: address.run || 0, turn });
  useEffect(() => { if (!run?.live) return undefined; const wait = setTimeout(() => setTurn(turn + 1), 3000); return () => clearTimeout(wait); }, [run]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!run) return html`<p class="note">${t('Loading …')}</p>`;
  const show = address.show || 'rows';
  return html`<div class="runs"><div class="bar">
      ${session.runs.length > 1 ? html`<${Select} label="Run" value=${address.run || 0} options=${session.runs.map((one, at) => [at, one.name])} onchange=${(at) => change({ run: at, at: '', dataset: '', model: '' })} />` : null}
      <h2><bdi>${run.name}</bdi></h2><span class="soft">${run.created}</span>${run.live ? html`<span class="live" role="status">● live</span>` : null}
      ${run.agreement ? html`<span class="soft">${run.agreement.agree} of ${run.agreement.rows} labels agree [${Math.round(100 * run.agreement.low)} %, ${Math.round(100 * run.agreement.high)} %]</span>` : null}
      <${Tabs} label="What of the run is shown" tabs=${[['rows', t('Rows')], ['compare', t('Compare')]]} value=${show} onchange=${(name) => change({ show: name })} /></div>
    ${show === 'rows' ? html`<details class="table" open=${address.table !== '0'} onToggle=${(event) => change({ table: event.target.open ? '' : '0' }, { replace: true })}><summary>${t('Scores')}</summary><${Scores} scores=${run.scores} change=${change} /></details>
    <${RunRows} session=${session} address=${address} change=${change} run=${run} />` : html`<${RunCompare} session=${session} address=${address} change=${change} run=${run} />`}</div>`;
};
