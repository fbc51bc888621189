// Compare: two requests side by side, aligned line by line, what differs marked. They scroll together.
import { html, t, useAsk, useKeys, countOf } from './lib.js';
import { Select, Problem, Check, Loading, RowNumber } from './parts.js';
import { NoConfig } from './explore.js';
import { titleOf } from './prompt.js';

const SIDES = ['left', 'right'];
const plain = (text) => Draw.drawText(text).map((node) => node.textContent).join('');
const Pieces = ({ pieces, kind }) => (pieces || []).map(([text, differs]) => (differs ? html`<mark class=${kind}>${plain(text)}</mark>` : plain(text)));
export const Aligned = ({ found, titles, changes = found.changes }) => html`<div class="say pair" tabindex="0" role="group" aria-label=${t('Both requests, aligned')}>
  ${(titles || found.sides.map(titleOf)).map((title) => html`<h3><bdi>${title}</bdi></h3>`)}
  ${changes.map(([left, right]) => [[left, 'left'], [right, 'right']].map(([pieces, side]) => html`<div class=${`cell${pieces == null ? ' gap' : ''}`} dir="auto"><${Pieces} pieces=${pieces} kind=${side} /></div>`))}</div>`;

// What a side shows: of the address, or the first that makes sense (two configs, else two models, else two datasets).
const defaultsOf = (session, side) => {
  const isRight = side === 'right';
  const config = isRight && session.configs.length > 1 ? 1 : 0;
  const { models = [], datasets = [] } = session.configs[config] || {};
  const second = isRight && session.configs.length < 2;
  return { config, model: (second && models[1]) || models[0], dataset: (second && models.length < 2 && datasets[1]) || datasets[0] };
};
const sideOf = (session, address, side) => {
  const given = address[`${side}_config`];
  const config = session.configs[Number(given ?? defaultsOf(session, side).config)] || session.configs[0];
  const usual = given == null ? defaultsOf(session, side) : { model: config.models[0], dataset: config.datasets[0] };
  const dataset = config.datasets.find((one) => one.abbr === address[`${side}_dataset`]) || usual.dataset || config.datasets[0];
  const model = config.models.find((one) => one.abbr === address[`${side}_model`]) || usual.model || config.models[0];
  return { config: session.configs.indexOf(config), dataset: dataset?.abbr, model: model?.abbr, row: address[`${side}_row`] || address.row || 0, number: address[`${side}_number`] || 0 };
};
const Chooser = ({ side, session, chosen, change }) => {
  const config = session.configs[chosen.config];
  const set = (name) => (value) => change({ [`${side}_${name}`]: value, ...(name === 'config' ? { [`${side}_dataset`]: '', [`${side}_model`]: '' } : {}) });
  return html`<fieldset class="chooser"><legend>${side === 'left' ? t('Left') : t('Right')}</legend>
    ${session.configs.length > 1 ? html`<${Select} label=${t('Config')} value=${chosen.config} options=${session.configs.map((one, at) => [at, one.name])} onchange=${set('config')} />` : null}
    <${Select} label=${t('Dataset')} value=${chosen.dataset} options=${config.datasets.map((one) => one.abbr)} onchange=${set('dataset')} />
    ${config.models.length ? html`<${Select} label=${t('Model')} value=${chosen.model} options=${config.models.map((one) => one.abbr)} onchange=${set('model')} />` : null}
    <${RowNumber} label=${t('Row')} value=${chosen.row} onchange=${set('row')} /><${RowNumber} label=${t('Request')} value=${chosen.number} onchange=${set('number')} /></fieldset>`;
};

const MOST_LINES = 4000;
export const Compare = ({ session, address, change }) => {
  const broken = session.configs.find((one) => one.error);
  const isReady = Boolean(session.configs.length && !broken);
  const sides = isReady ? Object.fromEntries(SIDES.map((side) => [side, sideOf(session, address, side)])) : {};
  const query = Object.fromEntries(Object.entries(sides).flatMap(([side, chosen]) => Object.entries(chosen).map(([name, value]) => [`${side}_${name}`, value])));
  const { found, error, busy, again } = useAsk('diff', query, isReady);
  const step = (by) => { const row = Math.max(0, Number(sides.left.row) + by); change({ row, left_row: row, right_row: row }, { replace: true }); };
  useKeys({ j: () => step(1), k: () => step(-1), d: () => change({ only: address.only === '1' ? '' : '1' }) });
  if (!session.configs.length) return html`<${NoConfig} />`;
  if (broken) return html`<${Problem} error=${broken.error} />`;
  const differing = found ? found.changes.filter(([left, right]) => JSON.stringify(left) !== JSON.stringify(right)) : [];
  const changes = found && (address.only === '1' ? differing : found.changes);
  const swap = () => change(Object.fromEntries(SIDES.flatMap((side) => Object.entries(sides[side === 'left' ? 'right' : 'left']).map(([name, value]) => [`${side}_${name}`, value]))));
  return html`<div class="compare"><h2 class="hidden">${t('Compare')}</h2>
    <div class="choosers">${SIDES.map((side) => html`<${Chooser} side=${side} session=${session} chosen=${sides[side]} change=${change} />`)}</div>
    <div class="bar"><p class="count" role="status">${found ? (found.same ? t('The requests are identical.') : t('{n} of {lines} differ', { n: differing.length, lines: countOf(found.changes.length, 'line') })) : ''}</p>
      <${Check} label=${t('Only differences')} checked=${address.only === '1'} onchange=${(on) => change({ only: on ? '1' : '' })} />
      <button type="button" class="quiet" onClick=${swap}>${t('Swap sides')}</button></div>
    <${Problem} error=${error} again=${again} />
    ${busy && !found ? html`<${Loading} lines=${10} />` : null}
    ${found ? html`<${Aligned} found=${found} changes=${changes.slice(0, MOST_LINES)} />` : null}
    ${changes?.length > MOST_LINES ? html`<p class="note">${t('The first {n} lines are shown.', { n: MOST_LINES.toLocaleString('en') })}</p>` : null}</div>`;
};
