// Explore: datasets × models × rows, and the request of one of them.
import { html, t, ask, useAsk, useEndless, EndlessList, Select, Problem, useKeys, useState, useEffect, countOf } from './lib.js';
import { PromptView } from './prompt.js';
import { Try } from './try.js';

export const useChosen = (session, address) => {
  const config = session.configs[Number(address.config || 0)] || session.configs[0];
  const dataset = config?.datasets.find((one) => one.abbr === address.dataset) || config?.datasets[0];
  const model = config?.models.find((one) => one.abbr === address.model) || config?.models[0];
  return { config, dataset, model };
};

export const useRowList = (address, config, dataset) => useEndless(async (cursor) => {
  if (!dataset) return { items: [], cursor: null };
  const found = await ask('rows', { config: address.config || 0, dataset, after: cursor, q: address.q });
  return { items: found.rows.map((one) => ({ ...one, key: one.row })), cursor: found.after, about: found };
}, [config?.path, dataset, address.q]);

export const Explore = ({ session, address, change }) => {
  const { config, dataset, model } = useChosen(session, address);
  const [typed, setTyped] = useState(address.q || '');
  const list = useRowList(address, config, dataset?.abbr);
  const row = Number(address.row || 0);
  const full = { ...address, dataset: dataset?.abbr, model: model?.abbr, row };
  const { found, error } = useAsk('prompts', { config: address.config || 0, dataset: dataset?.abbr, model: model?.abbr, row }, Boolean(dataset));
  useEffect(() => { const wait = setTimeout(() => { if (typed !== (address.q || '')) change({ q: typed }, { replace: true }); }, 200); return () => clearTimeout(wait); }, [typed]);
  const step = (by) => {
    const at = list.items.findIndex((one) => one.row === row);
    const next = list.items[Math.max(0, Math.min(list.items.length - 1, at + by))];
    if (next) change({ row: next.row, n: '' }, { replace: true });
  };
  const turn = (by) => {
    const at = config.models.findIndex((one) => one === model);
    if (config.models.length) change({ model: config.models[(at + by + config.models.length) % config.models.length].abbr, n: '' }, { replace: true });
  };
  useKeys({ j: () => step(1), k: () => step(-1), ']': () => turn(1), '[': () => turn(-1), '/': () => document.getElementById('search')?.focus(),
    w: () => change({ blanks: address.blanks === '1' ? '' : '1' }), f: () => change({ fold: address.fold === '1' ? '' : '1' }) });
  if (!config) return html`<p class="note">No config was opened. Start the page with one: <code>rolecall web config.py</code></p>`;
  if (config.error) return html`<${Problem} error=${config.error} />`;
  return html`<div class="explore">
    <nav class="side" aria-label=${t('Rows')}>
      <${Select} label=${t('Dataset')} value=${dataset.abbr} options=${config.datasets.map((one) => one.abbr)} onchange=${(abbr) => change({ dataset: abbr, row: '', n: '', q: '' })} />
      ${model ? html`<${Select} label=${t('Model')} value=${model.abbr} options=${config.models.map((one) => one.abbr)} onchange=${(abbr) => change({ model: abbr, n: '' })} />` : null}
      <label class="field">${t('Search')}<input id="search" type="search" value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => setTyped(event.target.value)} /></label>
      <p class="count" role="status">${list.about ? `${address.q ? `${list.items.length}${list.cursor != null ? '+' : ''} / ` : ''}${countOf(list.about.total, 'row')}` : ''}</p>
      <${EndlessList} list=${list} label=${t('Rows')} selected=${row} empty=${t('No matching rows.')} onselect=${(one) => change({ row: one.row, n: '' }, { replace: true })}
        item=${(one) => html`<div><span class="number">${one.row}</span> <bdi>${one.text}</bdi></div>`} />
      <p class="keys"><kbd>j</kbd> <kbd>k</kbd> ${t('Rows')} · <kbd>[</kbd> <kbd>]</kbd> ${t('Model')} · <kbd>/</kbd> ${t('Search')} · <kbd>?</kbd> ${t('Keyboard')}</p>
    </nav>
    <div class="content"><${Problem} error=${error} />
      ${found ? html`<${PromptView} prompts=${found.prompts} values=${found.values} legend=${session.legend} address=${full} change=${change} query=${address.q || ''} above=${model ? html`<${Try} where=${{ config: Number(address.config || 0), dataset: dataset.abbr, model: model.abbr }} row=${row} number=${Number(address.n || 0)} edits=${[]} request=${found.prompts[Number(address.n || 0)]?.request} />` : null} />` : error ? null : html`<p class="note">${t('Loading …')}</p>`}
    </div></div>`;
};
