// Start a run of a config: what it would send and cost first, then the run itself, watched until it has results.
import { html, t, send, ask, useState, useEffect } from './lib.js';
import { Select, Problem, Loading } from './parts.js';
import { NoConfig } from './explore.js';

const WATCH = 700; // ms between looks at a run that has been started
const dollars = (value) => `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(2)}`;

const Watched = ({ number, change }) => {
  const [state, setState] = useState({ printed: '' });
  const [error, setError] = useState('');
  useEffect(() => {
    if (state.run != null) { dispatchEvent(new Event('runsadded')); change({ view: 'runs', run: state.run, show: '' }); return undefined; }
    if (state.code != null || error) return undefined;
    const timer = setTimeout(() => ask('started', { number }).then(setState, (failed) => setError(failed.message)), WATCH);
    return () => clearTimeout(timer);
  }, [state, error]);
  return html`<${Problem} error=${error} />${state.code == null ? html`<p class="note" role="status">${t('Starting …')}</p>` : html`<p class="why-not" role="alert">${t('The run has ended before it had results.')}</p>`}
    ${state.printed ? html`<pre class="say" tabindex="0">${state.printed}</pre>` : null}`;
};

export const Start = ({ session, address, change }) => {
  const [options, setOptions] = useState({ dataset: '', model: '', limit: '', max_cost: '' });
  const [plan, setPlan] = useState({});
  const [number, setNumber] = useState(null);
  const at = Number(address.config || 0);
  const config = session.configs[at];
  const given = { ...options, limit: options.limit && Number(options.limit), max_cost: options.max_cost && Number(options.max_cost) };
  const key = JSON.stringify([at, given]);
  useEffect(() => setPlan({}), [key]);
  if (!config) return html`<${NoConfig} />`;
  if (config.error) return html`<${Problem} error=${config.error} />`;
  const set = (name) => (value) => setOptions({ ...options, [name]: value });
  const work = () => { setPlan({ busy: true }); send('plan', { config: at, options: given }).then((found) => setPlan({ found }), (error) => setPlan({ error: error.message })); };
  const start = () => send('start', { config: at, options: given }).then(({ started }) => setNumber(started), (error) => setPlan({ error: error.message }));
  const { found } = plan;
  return html`<section class="start" aria-label=${t('Start a run')}><h2><bdi>${config.name}</bdi></h2>
    <div class="pickers"><${Select} label=${t('Dataset')} all=${t('all')} value=${options.dataset} options=${config.datasets.map((one) => one.abbr)} onchange=${set('dataset')} />
      <${Select} label=${t('Model')} all=${t('all')} value=${options.model} options=${config.models.map((one) => one.abbr)} onchange=${set('model')} />
      <label class="field"><span>${t('Rows of each dataset')}</span><input type="number" min="1" value=${options.limit} placeholder=${t('all')} onChange=${(event) => set('limit')(event.target.value)} /></label>
      <label class="field"><span>${t('At most US$')}</span><input type="number" min="0" step="any" value=${options.max_cost} onChange=${(event) => set('max_cost')(event.target.value)} /></label></div>
    <div class="bar"><button type="button" onClick=${work} disabled=${plan.busy || number != null}>${t('Show the plan')}</button>
      <button type="button" class="primary" onClick=${start} disabled=${!found || number != null}>${found ? (found.price == null ? t('Start') : t('Start, for at most {price}', { price: dollars(found.price) })) : t('Start')}</button></div>
    <${Problem} error=${plan.error} />${plan.busy ? html`<${Loading} lines=${3} />` : null}
    ${found ? html`<ul class="plan">${found.lines.map((line) => html`<li>${line}</li>`)}</ul><p class="note">${t('Results go to {folder}. The run continues if this page is closed.', { folder: found.out })}</p>${found.note ? html`<p class="note">${found.note}</p>` : null}` : null}
    ${number == null ? null : html`<${Watched} number=${number} change=${change} />`}</section>`;
};
