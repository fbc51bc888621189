// Two runs, or two models of one run: every difference with its interval, and the rows side by side, changed ones first.
import { html, t, ask, useAsk, useKeys, useState, number, metricName } from './lib.js';
import { useEndless, EndlessList, TALLER, stepIn, Select, Problem, Loading, Empty, KeyHints, Drawn, Text } from './parts.js';
import { Badge, Answer, Replies, keyOf } from './run_row.js';
import { drawByOrigin } from './prompt.js';

const SIDES = ['left', 'right'];
const digitsOf = (one) => { const scale = Math.max(...['left', 'right', 'low', 'high'].map((name) => Math.abs(one[name] ?? 0))); return scale <= 1 ? 3 : scale <= 10 ? 2 : 1; };
const plain = (value, digits) => (value == null ? '–' : value.toFixed(digits));
const signed = (value, digits) => (value == null ? '–' : `${value > 0 ? '+' : ''}${value.toFixed(digits)}`.replace('-', '−'));
const chance = (p) => (p == null ? '–' : p < 0.001 ? '<0.001' : p.toFixed(3));

const Differences = ({ found }) => html`<div class="scroll" tabindex="0" role="group" aria-label=${t('Differences')}><table class="differences">
  <thead><tr>${['dataset', 'model', 'metric', 'left', 'right', 'difference', 'p', 'rows', 'flipped'].map((name) => html`<th scope="col">${t(name)}</th>`)}</tr></thead>
  <tbody>${found.differences.map((one) => {
    const digits = digitsOf(one);
    const difference = signed(one.difference, digits);
    return html`<tr><th scope="row"><bdi>${one.dataset}</bdi></th><td><bdi>${one.model}</bdi></td><td>${metricName(one.metric)}</td><td>${plain(one.left, digits)}</td><td>${plain(one.right, digits)}</td>
      <td>${one.p != null && one.p < 0.05 ? html`<b>${difference}</b>` : difference} <i>${one.low == null ? '' : `[${signed(one.low, digits)}, ${signed(one.high, digits)}]`}</i></td>
      <td>${chance(one.p)}</td><td>${number(one.rows)}${one.different_requests ? html`<small class="missing">${t('{n} sent differently (prompt, sampling or model)', { n: one.different_requests })}</small>` : null}${one.different_gold ? html`<small class="missing">${t('{n} with another gold answer', { n: one.different_gold })}</small>` : null}${one.served ? html`<small>${one.served}</small>` : null}${one.differing.length ? html`<small class="missing">${t('other {parts}', { parts: one.differing.join(', ') })}</small>` : null}</td><td>${number(one.flipped)}</td></tr>`;
  })}</tbody></table></div>`;

const KINDS = { score: 'var(--accent, #56b4e9)', gain: '#009e73', loss: '#d55e00' };
const Waterfall = ({ one }) => html`<section class="waterfall" aria-label=${one.name}><h3><bdi>${one.name}</bdi></h3><p>${one.sentence}</p><table><tbody>${one.bars.map((bar) => html`<tr><th scope="row"><bdi>${bar.name}</bdi></th><td>${bar.number}</td>
  <td style="width:60%"><div style=${`height:1em;min-width:2px;background:${KINDS[bar.kind]};margin-left:${100 * bar.start}%;width:${100 * (bar.end - bar.start)}%`}></div></td><td><i>${bar.note}</i></td></tr>`)}</tbody></table>
  ${one.unknown.map((line) => html`<p class="note">${t('Not known: {what}', { what: line })}</p>`)}</section>`;
const Explained = ({ query }) => {
  const { found, error } = useAsk('run_explain', query);
  if (error) return html`<${Problem} error=${error} />`;
  return found ? found.explanations.map((one) => html`<${Waterfall} one=${one} />`) : html`<${Loading} />`;
};
const Why = ({ query }) => {
  const [open, setOpen] = useState(false);
  return html`<details ontoggle=${(event) => setOpen(event.target.open)}><summary>${t('Why they differ')}</summary>${open ? html`<${Explained} query=${query} />` : null}</details>`;
};
const Side = ({ side, run, found, legend }) => html`<section class="side-row" aria-label=${side}><h3><bdi>${run ? `${run}: ` : ''}${found.model}</bdi> <${Badge} one=${found} /></h3>
  ${found.reason && found.outcome !== 'ok' ? html`<p class="why-not">${found.reason}</p>` : null}
  <${Answer} name=${t('Extracted')} text=${found.extracted} /><${Replies} found=${found} />
  ${found.prompts.map((prompt) => html`<details><summary>${t('Prompt')}</summary><${Drawn} deps=${[prompt]} make=${() => drawByOrigin(prompt, legend)} /></details>`)}</section>`;
const Both = ({ query, item, session }) => {
  const asked = SIDES.map((side) => useAsk('run_row', { run: query[`${side}_run`], ...item[side] }));
  const error = asked.map((one) => one.error).find(Boolean);
  if (error) return html`<${Problem} error=${error} />`;
  if (!asked.every((one) => one.found)) return html`<${Loading} />`;
  const [left, right] = asked.map((one) => one.found);
  const nameOf = (run) => (query.left_run === query.right_run ? '' : session.runs[run].name);
  const same = JSON.stringify(left.prompts.map((one) => one.request)) === JSON.stringify(right.prompts.map((one) => one.request));
  return html`<h2 class="title"><bdi>${tellPlace(item, ` · ${t('row')} `)}</bdi></h2><p class="note">${same ? t('Both were sent the same prompt.') : t('The prompts differ.')}</p>
    <${Answer} name=${t('Gold')} text=${left.gold || right.gold} /><div class="two"><${Side} side=${t('Left')} run=${nameOf(query.left_run)} found=${left} legend=${session.legend} /><${Side} side=${t('Right')} run=${nameOf(query.right_run)} found=${right} legend=${session.legend} /></div>`;
};

// Runs of other harnesses name and number rows in their own way, so each side has its own place.
const placeOf = ({ dataset, model, row }) => ({ dataset, model, row });
const asItem = (left, right) => ({ key: `${keyOf(left)}→${right.model}`, left: placeOf(left), right: placeOf(right), cells: [left, right] });
const tellPlace = ({ left, right }, between) => [...new Set([left, right].map((one) => `${one.dataset}${between}${one.row}`))].join(' ↔ ');
const findCounterpart = (found, one) => {
  const place = found.aligned ? found.aligned[one.dataset] : one;
  const row = found.aligned ? place?.rows?.[one.row] : one.row;
  const pair = found.differences.find((other) => other.dataset === place?.dataset && other.left_model === one.model);
  return pair && row != null ? { dataset: place.dataset, model: pair.right_model, row } : null;
};
const ComparedRows = ({ session, address, change, query, found }) => {
  const flips = found.differences.flatMap((one) => one.flips.map(([left, right]) => asItem(left, right)));
  const known = new Set(flips.map((one) => one.key));
  const list = useEndless(async (cursor) => { // the changed rows, then all others of the left side
    const page = cursor === undefined && flips.length ? { rows: [], after: '' } : await ask('run_rows', { run: query.left_run, model: query.left_model, after: cursor || '' });
    const others = page.rows.map((one) => [one, findCounterpart(found, one)]).filter(([, other]) => other).map(([one, other]) => ({ ...asItem(one, other), cells: [one] })).filter((one) => !known.has(one.key));
    return { items: cursor === undefined ? [...flips, ...others] : others, cursor: page.after };
  }, [JSON.stringify(query), found]);
  const open = list.items.find((one) => one.key === address.pair) || list.items[0];
  const select = (one) => { if (one) change({ pair: one.key }, { replace: true }); };
  useKeys({ j: () => select(stepIn(list, open?.key, 1)), k: () => select(stepIn(list, open?.key, -1)) });
  return html`<div class="explore rows"><nav class="side" aria-label=${t('Rows')}><p class="count" role="status">${flips.length ? t('{n} changed rows first', { n: number(flips.length) }) : t('No row changed.')}</p>
      <${EndlessList} height=${TALLER} list=${list} label=${t('Rows')} selected=${open?.key} empty=${t('No row changed.')} onselect=${select}
        item=${(one) => html`<div class="head"><bdi>${tellPlace(one, ' · ')}</bdi></div>${one.cells[0].questionCell ? html`<div class="line"><bdi>${one.cells[0].questionCell}</bdi></div>` : null}<div class="line flip">${one.cells.map((cell) => html`<${Badge} one=${cell} />`)}</div>`} />
      <${KeyHints} keys=${[['j k', t('Rows')]]} /></nav>
    <div class="content">${open ? html`<${Both} key=${open.key} query=${query} item=${open} session=${session} />` : null}</div></div>`;
};

// The run that belongs to another: of the same config by its name, with the most datasets and models in common, the nearest before it.
const stemOf = (run) => run.name.replace(/-\d+$/, '');
const inCommon = (left, right, name) => (left[name] || []).filter((one) => (right[name] || []).includes(one)).length;
const findCompanion = (runs, own) => {
  const mine = runs[own];
  const kinship = (run) => [inCommon(mine, run, 'datasets') * 2 + inCommon(mine, run, 'models') + (stemOf(run) === stemOf(mine) ? 1 : 0), run.created <= mine.created ? 1 : 0, run.created];
  const others = runs.map((run, at) => ({ at, rank: kinship(run) })).filter(({ at }) => at !== own && !runs[at].error);
  others.sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1] || String(b.rank[2]).localeCompare(String(a.rank[2])));
  return others.length && others[0].rank[0] > 1 ? others[0].at : own;
};

export const RunCompare = ({ session, address, change }) => {
  const { found: all, error: missing } = useAsk('runs', {});
  if (missing) return html`<${Problem} error=${missing} />`;
  if (!all) return html`<${Loading} />`;
  const own = Number(address.run || 0);
  const modelsOf = (run) => all.runs[run]?.models || [];
  const companion = findCompanion(all.runs, own);
  const [older, newer] = [companion, own].sort((a, b) => String(all.runs[a].created).localeCompare(String(all.runs[b].created)) || a - b);
  const left = Number(address.left_run || (address.right_run && address.right_run !== String(own) ? own : older));
  const right = Number(address.right_run || (address.left_run && address.left_run !== String(own) ? own : newer));
  const isOne = left === right;
  const pick = (side, run, at) => (address[`${side}_model`] ? address[`${side}_model`].trim() : isOne ? modelsOf(run)[at] || modelsOf(run)[0] : '');
  const query = { left_run: left, left_model: pick('left', left, 0), right_run: right, right_model: pick('right', right, 1) };
  return html`<div class="compare"><div class="choosers">${SIDES.map((side) => html`<fieldset class="chooser"><legend>${side === 'left' ? t('Left') : t('Right')}</legend>
      <${Select} label=${t('Run')} value=${query[`${side}_run`]} options=${session.runs.map((one, at) => [at, one.name])} onchange=${(value) => change({ [`${side}_run`]: value, [`${side}_model`]: '', pair: '' })} />
      <${Select} label=${t('Model')} all=${isOne ? null : t('all')} value=${query[`${side}_model`]} options=${modelsOf(query[`${side}_run`])} onchange=${(value) => change({ [`${side}_model`]: value || ' ', pair: '' })} /></fieldset>`)}</div>
    <${Compared} session=${session} address=${address} change=${change} query=${query} /></div>`;
};
const Compared = ({ session, address, change, query }) => {
  const { found, error, busy, again } = useAsk('run_compare', query);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!found) return html`<${Loading} />`;
  const apart = [['only_left', t('Only on the left: {pairs}')], ['only_right', t('Only on the right: {pairs}')]].filter(([name]) => found[name].length);
  return html`${busy ? html`<p class="note">${t('Loading …')}</p>` : null}
    ${found.differences.length ? html`<${Differences} found=${found} />${found.aligned ? html`<details><summary>${t('Rows are aligned by content. How the two differ')}</summary><${Text} text=${found.notes.join('\n')} /></details>` : null}${query.left_run === query.right_run ? null : html`<${Why} query=${query} />`}<${ComparedRows} session=${session} address=${address} change=${change} query=${query} found=${found} />` : html`<${Empty} title=${t('The two have no dataset in common.')} />`}
    ${apart.map(([name, said]) => html`<p class="note">${said.replace('{pairs}', found[name].map((pair) => pair.join(' × ')).join(', '))}</p>`)}`;
};
