// Runs: the list of runs with scores, one run with its rows, and two runs or models compared.
import { html, t, ask, useAsk, useKeys, useState, useEffect, useTyped, countOf, number, tellCounts, tellTime, metricName } from './lib.js';
import { useEndless, EndlessList, TALLER, stepIn, Select, Search, focusSearch, Problem, Loading, Empty, Tabs, KeyHints, RowNumber } from './parts.js';
import { Badge, RowDetail, keyOf } from './run_row.js';
import { RunCompare } from './run_compare.js';
import { LabelQueue } from './label.js';
import { nameOf, Tags, Notes, Control, Sparkline, Dot, Slices, Swept } from './run_notes.js';

const FILTERS = ['dataset', 'model', 'outcome', 'verdict', 'q', 'first', 'against'];
const NO_FILTERS = { ...Object.fromEntries(FILTERS.map((name) => [name, ''])), at: '' };
const LIVE = 2000; // how often a run in progress is read again (ms), and others, in case they go on
const IDLE = 15000;

// ── scores ───────────────────────────────────────────────────────────────────────────────────────────────────────
const Cell = ({ cell, onclick, ondiffer }) => (cell ? html`<td><button type="button" class="plain" onClick=${onclick}><b>${cell.score}</b></button> <i>${cell.interval}</i>
  ${cell.scored ? html`<small>${t('{n} scored', { n: cell.scored })}</small>` : null}${cell.rest ? html`<small class="missing">${tellCounts(cell.rest)}</small>` : null}
  ${cell.readings ? html`<small class="missing"><button type="button" class="plain" onClick=${ondiffer}>${cell.readings}</button></small>` : null}
  ${cell.error ? html`<small class="missing">${cell.error}</small>` : null}</td>` : html`<td></td>`);
const Scores = ({ scores, change }) => {
  const [open, setOpen] = useState({});
  if (!scores.lines.length) return html`<p class="note">${t('No scores yet.')}</p>`;
  const isOpen = (group) => open[group] ?? !scores.fold;
  const lines = scores.lines.filter((line) => !line.group || isOpen(line.group));
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${t('Scores')}><table class="scores">
    <thead><tr><th scope="col">${t('dataset')}</th>${scores.models.map((model) => html`<th scope="col"><bdi>${model}</bdi></th>`)}</tr></thead>
    <tbody>${lines.map((line) => html`<tr key=${line.dataset + line.metric} class=${`${line.group ? `member depth-${line.depth}` : ''}${line.isGroup ? ' group' : ''}`.trim()}><th scope="row">
      ${line.isGroup && !line.group ? html`<button type="button" class="fold" aria-expanded=${isOpen(line.dataset) ? 'true' : 'false'} aria-label=${t('Datasets of {name}', { name: line.dataset })}
        onClick=${() => setOpen({ ...open, [line.dataset]: !isOpen(line.dataset) })}>${isOpen(line.dataset) ? '▾' : '▸'}</button>` : null}<bdi>${line.dataset}</bdi><small>${metricName(line.metric)}</small></th>
      ${line.cells.map((cell, at) => html`<${Cell} cell=${cell} onclick=${() => change({ ...NO_FILTERS, dataset: line.isGroup ? '' : line.dataset, model: scores.models[at] })}
        ondiffer=${() => change({ ...NO_FILTERS, dataset: line.dataset, model: scores.models[at], verdict: 'readings differ' })} />`)}</tr>`)}</tbody></table></div>`;
};

// ── the list of runs ─────────────────────────────────────────────────────────────────────────────────────────────
const linesOf = (run) => (run.error ? [] : run.scores.models.map((model, at) => ({ model,
  cells: Object.fromEntries(run.scores.lines.filter((line) => !line.group).map((line) => [`${line.dataset}\n${line.metric}`, line.cells[at]])) })));
const valueOf = (line, column) => Number.parseFloat((line.cells[column]?.score || '').replace(/,/g, ''));
const fits = (run, typed) => typed.toLowerCase().split(/\s+/).every((word) => [run.name, run.path, run.own_name || '', run.own_note || '', ...(run.own_tags || []), ...(run.datasets || []), ...(run.models || [])].some((text) => text.toLowerCase().includes(word)));
const MOST_COLUMNS = 12;
const VARIANT = / \[[\w-]+=.*\]\n/; // a wording of a sweep
// The scores of a column over the runs, oldest first: a line for each model.
const overVersions = (runs, models, column) => {
  const lines = [...runs].reverse().flatMap(({ run }) => linesOf(run));
  return models.map((model) => lines.filter((line) => line.model === model && line.cells[column]).map((line) => valueOf(line, column)));
};
const RunList = ({ change }) => {
  const [turn, setTurn] = useState(0);
  const [order, setOrder] = useState('');
  const [typed, setTyped] = useState('');
  const [picked, setPicked] = useState([]);
  const { found, error, again } = useAsk('runs', { turn });
  useEffect(() => { if (!found) return undefined; const wait = setTimeout(() => setTurn(turn + 1), found.runs.some((run) => run.live) ? LIVE : IDLE); return () => clearTimeout(wait); }, [found]);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!found) return html`<${Loading} />`;
  const runs = found.runs.map((run, at) => ({ run, at })).filter(({ run }) => fits(run, typed)).sort((a, b) => (b.run.created || '').localeCompare(a.run.created || ''));
  const used = new Map();
  runs.forEach(({ run }) => linesOf(run).forEach((line) => Object.keys(line.cells).filter((column) => !VARIANT.test(column)).forEach((column) => used.set(column, (used.get(column) || 0) + 1))));
  const columns = [...used.keys()].sort((a, b) => used.get(b) - used.get(a)).slice(0, MOST_COLUMNS);
  const lines = runs.flatMap(({ run, at }) => (run.error ? [{ run, at, model: '', cells: {} }] : (linesOf(run).length ? linesOf(run) : [{ model: '', cells: {} }]).map((line) => ({ run, at, ...line }))));
  if (order) lines.sort((a, b) => (valueOf(b, order) || -Infinity) - (valueOf(a, order) || -Infinity));
  const models = [...new Set(lines.map((line) => line.model).filter(Boolean))];
  const pick = (at, on) => setPicked((old) => [...old.filter((one) => one !== at), ...(on ? [at] : [])].slice(-2));
  return html`<div class="run-list"><div class="bar heading"><h2>${runs.length < found.runs.length ? `${runs.length} / ` : ''}${countOf(found.runs.length, 'run')}</h2>
      ${found.runs.length > 1 ? html`<${Search} value=${typed} oninput=${setTyped} />` : null}
      <button type="button" disabled=${picked.length < 2} onClick=${() => change({ run: picked[0], show: 'compare', left_run: picked[0], right_run: picked[1], left_model: '', right_model: '' })}>${t('Compare the two ticked')}</button></div>
    <div class="scroll" tabindex="0" role="group" aria-label=${t('Runs')}><table class="scores"><thead><tr><th scope="col"><span class="hidden">${t('Compare')}</span></th><th scope="col">${t('run')}</th><th scope="col">${t('model')}</th>
      ${columns.map((column) => { const [dataset, metric] = column.split('\n'); return html`<th scope="col" aria-sort=${order === column ? 'descending' : null}><button type="button" class="plain" onClick=${() => setOrder(order === column ? '' : column)}><bdi>${dataset}</bdi>${order === column ? ' ↓' : ''}</button><small>${metricName(metric)}</small><${Sparkline} series=${overVersions(runs, models, column)} label=${t('{name}, oldest run first', { name: dataset })} /></th>`; })}</tr></thead>
      <tbody>${lines.map(({ run, at, model, cells }, number_) => {
        const isFirst = order || lines[number_ - 1]?.at !== at;
        return html`<tr key=${`${at}-${model}`}><td class="tick">${isFirst && !run.error ? html`<input type="checkbox" aria-label=${t('Compare {name}', { name: run.name })} checked=${picked.includes(at)} onChange=${(event) => pick(at, event.target.checked)} />` : null}</td>
          <th scope="row">${isFirst ? html`<a href=${`#runs?run=${at}`}><bdi>${nameOf(run)}</bdi></a> ${run.live ? html`<span class="live">● ${t('live')}</span>` : null}<small>${run.error ? html`<span class="missing">${run.error}</span>` : html`${run.own_name ? html`<bdi>${run.name}</bdi> · ` : null}${tellTime(run.created)}`}</small><${Tags} tags=${run.own_tags} />` : null}</th>
          <td>${models.length > 1 && model ? html`<${Dot} at=${models.indexOf(model)} /> ` : null}<bdi>${model}</bdi></td>${columns.map((column) => html`<${Cell} cell=${cells[column]} onclick=${() => change({ ...NO_FILTERS, run: at, dataset: column.split('\n')[0], model })}
            ondiffer=${() => change({ ...NO_FILTERS, run: at, dataset: column.split('\n')[0], model, verdict: 'readings differ' })} />`)}</tr>`;
      })}</tbody></table></div></div>`;
};

// ── the rows of a run ────────────────────────────────────────────────────────────────────────────────────────────
const RunRows = ({ session, address, change, run, turn }) => {
  const [typed, setTyped] = useTyped(address.q || '', (q) => change({ q, at: '' }, { replace: true }), 250);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, address[name] || '']));
  const list = useEndless(async (cursor) => {
    const found = await ask('run_rows', { run: address.run || 0, ...filters, after: cursor });
    return { items: found.rows.map((one) => ({ ...one, key: keyOf(one) })), cursor: found.after, end: found.end };
  }, [JSON.stringify([address.run || 0, filters])]);
  useEffect(() => { if (turn) list.grow(); }, [turn]);
  const open = address.at || list.items[0]?.key;
  let wanted = null;
  try { const [dataset, model, row] = JSON.parse(open); wanted = { dataset, model, row }; } catch { /* no row is open */ }
  const select = (one) => { if (one) change({ at: one.key, n: '' }, { replace: true }); };
  useKeys({ j: () => select(stepIn(list, open, 1)), k: () => select(stepIn(list, open, -1)), '/': focusSearch,
    w: () => change({ blanks: address.blanks === '1' ? '' : '1' }), f: () => change({ fold: address.fold === '1' ? '' : '1' }) });
  const set = (name) => (value) => change({ [name]: value, at: '' });
  const against = session.runs.flatMap((one, at) => (String(at) === String(address.run || 0) ? [] : [[`${at}:`, one.name]]));
  const models = run.models.length > 1 ? run.models.map((model) => [`${address.run || 0}:${model}`, model]) : [];
  const isFiltered = FILTERS.some((name) => filters[name]);
  return html`<div class="explore rows"><nav class="side" aria-label=${t('Rows')}>
      <details class="filter-box" open><summary>${t('Filters')}</summary>
      <div class="filters"><${Select} label=${t('Dataset')} all=${t('all')} value=${filters.dataset} options=${run.datasets} onchange=${set('dataset')} />
        <${Select} label=${t('Model')} all=${t('all')} value=${filters.model} options=${run.models} onchange=${set('model')} />
        <${Select} label=${t('Outcome')} all=${t('all')} value=${filters.outcome} options=${run.outcomes.map(([name, words]) => [name, t(words)])} onchange=${set('outcome')} />
        <${Select} label=${t('Verdict')} all=${t('all')} value=${filters.verdict} options=${run.verdicts.map((name) => [name, t(name)])} onchange=${set('verdict')} />
        ${against.length + models.length ? html`<${Select} label=${t('Flipped against')} all="–" value=${filters.against} options=${[...models, ...against]} onchange=${set('against')} />` : null}
        <${RowNumber} label=${t('From row')} value=${filters.first} placeholder="0" onchange=${set('first')} /></div>
        ${isFiltered ? html`<button type="button" class="quiet clear" onClick=${() => { setTyped(''); change(NO_FILTERS); }}>${t('Clear')}</button>` : null}</details>
      <${Search} value=${typed} oninput=${setTyped} />
      <${EndlessList} height=${TALLER} list=${list} label=${t('Rows')} selected=${open} empty=${isFiltered ? t('No matching rows.') : t('No rows yet.')} onselect=${select}
        item=${(one) => html`<div class="head"><bdi>${one.dataset} · ${one.row} · ${one.model}</bdi><${Badge} one=${one} /></div>${one.questionCell ? html`<div class="line"><bdi>${one.questionCell}</bdi></div>` : null}<div class="line${one.questionCell ? ' soft' : ''}"><bdi>${one.answer || one.replyCell || one.reasonCell || ''}</bdi>${one.goldCell ? html`<span class="soft">${t('gold')} ${one.goldCell}</span>` : null}</div>`} />
      <${KeyHints} keys=${[['j k', t('Rows')], ['/', t('Search')], ['?', t('Keyboard')]]} /></nav>
    <div class="content">${wanted ? html`<${RowDetail} key=${open} run=${Number(address.run || 0)} address=${address} wanted=${wanted} session=${session} change=${change}
      onasked=${(row) => list.replace(open, { ...row, key: open })} />` : list.busy ? html`<${Loading} />` : html`<${Empty} title=${isFiltered ? t('No matching rows.') : t('No rows yet.')} />`}</div></div>`;
};

// ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────
const Scan = ({ counts, change }) => (counts.length ? html`<details class="table"><summary>${t('Replies')}</summary><div class="scroll" tabindex="0"><table class="scores"><thead><tr>${[t('scanner'), t('dataset'), t('model'), t('replies'), '%', t('rows')].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>
  ${counts.map((count) => html`<tr><th scope="row"><bdi>${count.name}</bdi></th><td><bdi>${count.dataset}</bdi></td><td><bdi>${count.model}</bdi></td><td>${count.hits} / ${count.total}</td><td>${count.share}</td>
    <td>${count.rows.map((hit) => html`<button type="button" class="plain" title=${hit.excerpt} onClick=${() => change({ ...NO_FILTERS, at: JSON.stringify([count.dataset, count.model, hit.row]) })}>${hit.row}</button> `)}</td></tr>`)}</tbody></table></div></details>` : null);
const Run = ({ session, address, change }) => {
  const [turn, setTurn] = useState(0);
  const { found: run, error, again } = useAsk('run', { run: address.run || 0, turn });
  useEffect(() => { if (!run) return undefined; const wait = setTimeout(() => setTurn(turn + 1), run.live ? LIVE : IDLE); return () => clearTimeout(wait); }, [run]);
  useEffect(() => { const hear = () => setTurn((old) => old + 1); addEventListener('labelled', hear); return () => removeEventListener('labelled', hear); }, []);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!run) return html`<${Loading} />`;
  const show = ['compare', 'label', 'slices', 'sweep'].includes(address.show) ? address.show : 'rows';
  const at = Number(address.run || 0);
  const readAgain = () => setTurn((old) => old + 1);
  const canCompare = session.runs.length > 1 || run.models.length > 1;
  const done = Object.values(run.last).reduce((sum, row) => sum + row + 1, 0);
  return html`<div class="runs"><div class="bar heading">
      ${session.runs.length > 1 ? html`<a href="#runs" onClick=${(event) => { event.preventDefault(); change({ ...NO_FILTERS, run: '', show: '' }); }}>← ${t('All runs')}</a>` : null}
      <h2><bdi>${nameOf(run)}</bdi></h2><span class="soft">${tellTime(run.created)}</span>
      ${run.live ? html`<span class="live" role="status">● ${t('live')} · ${t('{n} so far', { n: countOf(done, 'row') })}</span>` : null}${run.labelled ? html`<span class="soft">${t('{n} labelled', { n: number(run.labelled) })}</span>` : null}${run.damage ? html`<span class="note missing" role="status">${run.damage}</span>` : null}
      <${Tabs} label=${t('What of the run is shown')} tabs=${[['rows', t('Rows')], ...(canCompare ? [['compare', t('Compare')]] : []), ['slices', t('Slices')], ...(run.swept.length ? [['sweep', t('Sweep')]] : []), ['label', t('Label')]]} value=${show} onchange=${(name) => change({ show: name })} /></div>
    <${Notes} key=${`${at}${run.own_name}${run.own_note}${run.own_tags}`} at=${at} run=${run} onsaved=${readAgain} />${run.live ? html`<${Control} at=${at} run=${run} onchanged=${readAgain} />` : null}
    ${show === 'rows' ? html`<details class="table" open=${address.table !== '0'} onToggle=${(event) => change({ table: event.target.open ? '' : '0' }, { replace: true })}><summary>${t('Scores')}</summary><${Scores} scores=${run.scores} change=${change} />${run.remarks.map((line) => html`<p class="note">${line}</p>`)}</details><${Scan} counts=${run.scan} change=${change} />
      <${RunRows} key=${address.run || 0} session=${session} address=${address} change=${change} run=${run} turn=${turn} />` : show === 'label' ? html`<${LabelQueue} session=${session} address=${address} change=${change} run=${run} />` : show === 'slices' ? html`<${Slices} at=${at} run=${run} address=${address} change=${change} />` : show === 'sweep' ? html`<${Swept} swept=${run.swept} />` : html`<${RunCompare} session=${session} address=${address} change=${change} />`}</div>`;
};
export const Runs = (props) => (props.session.runs.length > 1 && (props.address.run == null || props.address.run === '') ? html`<${RunList} ...${props} />` : html`<${Run} ...${props} />`);
