// Explore: datasets × models × rows, and the request of one of them.
import { html, t, ask, useAsk, useKeys, useTyped, useState, countOf } from './lib.js';
import { useEndless, EndlessList, stepIn, Select, Search, focusSearch, Problem, Loading, Empty, KeyHints, RowNumber } from './parts.js';
import { PromptView } from './prompt.js';
import { Try } from './try.js';
import { Finding } from './lint.js';

export const useChosen = (session, address) => {
  const config = session.configs[Number(address.config || 0)] || session.configs[0];
  const dataset = config?.datasets.find((one) => one.abbr === address.dataset) || config?.datasets[0];
  const model = config?.models.find((one) => one.abbr === address.model) || config?.models[0];
  return { config, dataset, model };
};

export const NoConfig = () => html`<${Empty} title=${t('No config is open.')}>${t('Start the page with one:')} <code>rolecall web config.py</code></${Empty}>`;

export const LintBeside = ({ where, config, change }) => {
  const { found, error, busy } = useAsk('lint', where);
  const findings = found?.findings || [];
  return html`<h3>${t('Lint')}</h3>${error ? html`<p class="note missing">${error}</p>` : busy && !found ? html`<p class="note">${t('Loading …')}</p>`
    : findings.length ? html`<ul class="findings">${findings.map((one) => html`<${Finding} finding=${one} config=${config} change=${change} short />`)}</ul>` : html`<p class="note">${t('Nothing found.')}</p>`}`;
};

export const Explore = ({ session, address, change }) => {
  const { config, dataset, model } = useChosen(session, address);
  const [typed, setTyped] = useTyped(address.q || '', (q) => change({ q, mark: '' }, { replace: true }));
  const list = useEndless(async (cursor) => {
    if (!dataset) return { items: [], cursor: null };
    const found = await ask('rows', { config: address.config || 0, dataset: dataset.abbr, after: cursor, q: address.q });
    return { items: found.rows.map((one) => ({ ...one, key: one.row })), cursor: found.after, about: found };
  }, [config?.path, dataset?.abbr, address.q]);
  const [wide, setWide] = useState(false);
  const row = Number(address.row || 0);
  const full = { ...address, dataset: dataset?.abbr, model: model?.abbr, row };
  const where = { config: Number(address.config || 0), dataset: dataset?.abbr, model: model?.abbr };
  const { found, error, again } = useAsk('prompts', { ...where, row }, Boolean(dataset));
  const open = (one) => { if (one) change({ row: one.row, n: '', mark: '' }, { replace: true }); };
  const turn = (by) => {
    const at = config.models.findIndex((one) => one === model);
    if (config.models.length) change({ model: config.models[(at + by + config.models.length) % config.models.length].abbr, n: '' }, { replace: true });
  };
  useKeys({ j: () => open(stepIn(list, row, 1)), k: () => open(stepIn(list, row, -1)), ']': () => turn(1), '[': () => turn(-1), '/': focusSearch,
    w: () => change({ blanks: address.blanks === '1' ? '' : '1' }), f: () => change({ fold: address.fold === '1' ? '' : '1' }) });
  if (!config) return html`<${NoConfig} />`;
  if (config.error) return html`<${Problem} error=${config.error} />`;
  if (!dataset) return html`<${Empty} title=${t('The config has no datasets.')} />`;
  const request = Number(address.n || 0);
  const trial = found && model && !session.playground ? html`<${Try} where=${where} row=${row} number=${request} edits=${[]} request=${found.prompts[request]?.request} judge=${found.prompts[request]?.judge ? found.prompts[request].model : ''} />` : null;
  return html`<div class="explore">
    <nav class=${`side${wide ? ' open' : ''}`} aria-label=${t('Rows')}>
      <div class="pickers"><${Select} label=${t('Dataset')} value=${dataset.abbr} options=${config.datasets.map((one) => one.abbr)} onchange=${(abbr) => change({ dataset: abbr, row: '', n: '', q: '', mark: '' })} />
        ${model ? html`<${Select} label=${t('Model')} value=${model.abbr} options=${config.models.map((one) => one.abbr)} onchange=${(abbr) => change({ model: abbr, n: '' })} />` : null}</div>
      <div class="pickers"><${Search} value=${typed} oninput=${setTyped} /><${RowNumber} label=${t('Row')} value=${row} onchange=${(value) => change({ row: value, n: '', mark: '' })} /></div>
      <button type="button" class="quiet unfold" aria-expanded=${wide ? 'true' : 'false'} onClick=${() => setWide(!wide)}>${t('Rows')}</button>
      <p class="count" role="status">${list.about ? `${address.q ? `${list.items.length}${list.cursor != null ? '+' : ''} / ` : ''}${countOf(list.about.total, 'row')}` : ''}</p>
      <${EndlessList} list=${list} label=${t('Rows')} selected=${row} total=${address.q ? null : list.about?.total} empty=${t('No matching rows.')} onselect=${open}
        item=${(one) => html`<div class="line"><span class="number">${one.row}</span> <bdi>${one.text}</bdi></div>`} />
      <${KeyHints} keys=${[['j k', t('Rows')], ['[ ]', t('Model')], ['/', t('Search')], ['?', t('Keyboard')]]} />
    </nav>
    <div class="content"><${Problem} error=${error} again=${again} />
      ${found?.unworded ? html`<${Empty} title=${t('This row has no request.')}>${found.unworded}</${Empty}>` : null}
      ${found ? html`<${PromptView} prompts=${found.prompts} values=${found.values} legend=${session.legend} address=${full} change=${change} query=${address.q || ''} above=${trial}
        beside=${html`<${LintBeside} where=${where} config=${config} change=${change} />`} />` : error ? null : html`<${Loading} lines=${12} />`}
    </div></div>`;
};
