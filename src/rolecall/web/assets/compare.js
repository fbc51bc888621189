// Compare: two requests side by side, aligned line by line, what differs marked.
import { html, t, useAsk, Select, Problem, useKeys, Check, countOf } from './lib.js';

const SIDES = ['left', 'right'];
const Chooser = ({ side, session, address, change }) => {
  const config = session.configs[Number(address[`${side}_config`] || 0)] || session.configs[0];
  const set = (name) => (value) => change({ [`${side}_${name}`]: value });
  return html`<fieldset class="chooser"><legend>${side === 'left' ? t('Left') : t('Right')}</legend>
    ${session.configs.length > 1 ? html`<${Select} label=${t('Config')} value=${address[`${side}_config`] || 0} options=${session.configs.map((one, at) => [at, one.name])} onchange=${set('config')} />` : null}
    <${Select} label=${t('Dataset')} value=${address[`${side}_dataset`] || config.datasets[0]?.abbr} options=${config.datasets.map((one) => one.abbr)} onchange=${set('dataset')} />
    ${config.models.length ? html`<${Select} label=${t('Model')} value=${modelOf(side, config, address)} options=${config.models.map((one) => one.abbr)} onchange=${set('model')} />` : null}
    <label class="field">${t('Row')}<input type="number" min="0" value=${address[`${side}_row`] || address.row || 0} onChange=${(event) => set('row')(event.target.value)} /></label></fieldset>`;
};
const modelOf = (side, config, address) => address[`${side}_model`] || config.models[side === 'right' ? Math.min(1, config.models.length - 1) : 0]?.abbr;

const Pieces = ({ pieces, kind }) => (pieces || []).map(([text, differs]) => (differs ? html`<mark class=${kind}>${Draw.drawText(text).map((node) => node.textContent).join('')}</mark>` : Draw.drawText(text).map((node) => node.textContent).join('')));

export const Compare = ({ session, address, change }) => {
  const query = Object.fromEntries(SIDES.flatMap((side) => {
    const config = session.configs[Number(address[`${side}_config`] || 0)] || session.configs[0];
    return [[`${side}_config`, address[`${side}_config`] || 0], [`${side}_dataset`, address[`${side}_dataset`] || config?.datasets[0]?.abbr],
      [`${side}_model`, config ? modelOf(side, config, address) : ''], [`${side}_row`, address[`${side}_row`] || address.row || 0]];
  }));
  const ready = session.configs.length && !session.configs.some((one) => one.error);
  const { found, error } = useAsk('diff', query, Boolean(ready));
  const step = (by) => { const row = Math.max(0, Number(address.left_row || address.row || 0) + by); change({ row, left_row: row, right_row: row }, { replace: true }); };
  useKeys({ j: () => step(1), k: () => step(-1) });
  if (!ready) return html`<${Problem} error=${session.configs.find((one) => one.error)?.error || 'No config was opened.'} />`;
  const differing = found ? found.changes.filter(([left, right]) => JSON.stringify(left) !== JSON.stringify(right)) : [];
  const changes = found && (address.only === '1' ? differing : found.changes);
  return html`<div class="compare"><h2 class="hidden">${t('Compare')}</h2>
    <div class="choosers">${SIDES.map((side) => html`<${Chooser} side=${side} session=${session} address=${address} change=${change} />`)}</div>
    <div class="bar"><p class="count" role="status">${found ? (found.same ? t('The requests are identical.') : `${differing.length} of ${countOf(found.changes.length, 'line')} differ`) : ''}</p>
      <${Check} label="Only differences" checked=${address.only === '1'} onchange=${(on) => change({ only: on ? '1' : '' })} /></div>
    <${Problem} error=${error} />
    ${found ? html`<div class="say pair" tabindex="0" role="region" aria-label="Both requests, aligned">
      ${found.titles.map((title) => html`<h3><bdi>${title}</bdi></h3>`)}
      ${changes.map(([left, right]) => [[left, 'left'], [right, 'right']].map(([pieces, side]) => html`<div class=${`line${pieces == null ? ' gap' : ''}`}><${Pieces} pieces=${pieces} kind=${side} /></div>`))}</div>` : null}</div>`;
};
