// Playground: paste rows and a template, pick models, and see the prompts. Everything pasted is part of the address.
import { html, t, useState, useEffect, useRef, useAsk } from './lib.js';
import { Problem, Select, RowNumber, Loading, Copy } from './parts.js';
import { PromptView } from './prompt.js';
import { Editor } from './editor.js';
import { useChosen, LintBeside } from './explore.js';

const PAUSE = 300; // ms after the last key press
const pack = async (pasted) => {
  const stream = new Blob([JSON.stringify(pasted)]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
};
// The form as it is typed, and the address that follows it; a link that is opened fills the form.
const usePasted = ({ pasted, link }, change) => {
  const [typed, setTyped] = useState(pasted);
  const packed = useRef(link);
  useEffect(() => { if (link !== packed.current) { packed.current = link; setTyped(pasted); } }, [link]);
  useEffect(() => {
    if (JSON.stringify(typed) === JSON.stringify(pasted)) return undefined;
    const timer = setTimeout(async () => { packed.current = await pack(typed); change({ paste: packed.current }, { replace: true }); }, PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  return [typed, (name) => (value) => setTyped((before) => ({ ...before, [name]: value }))];
};

const Line = ({ label, value, onchange, placeholder = '' }) => html`<label class="field"><span>${label}</span>
  <input value=${value} placeholder=${placeholder} spellcheck=${false} autocomplete="off" onInput=${(event) => onchange(event.target.value)} /></label>`;
const Requests = ({ session, address, change, where }) => {
  const { config, row } = where;
  const query = { config: 0, dataset: where.dataset, model: where.model };
  const { found, error } = useAsk('prompts', { ...query, row, paste: session.playground.link });
  if (!found) return error ? html`<${Problem} error=${error} />` : html`<${Loading} lines=${12} />`;
  return html`<${PromptView} prompts=${found.prompts} values=${found.values} legend=${session.legend} address=${{ ...address, ...query, row }} change=${change}
    beside=${html`<${LintBeside} where=${{ ...query, paste: session.playground.link }} config=${config} change=${change} />`} />`;
};

export const Playground = ({ session, address, change }) => {
  const { error, names, columns, config: source } = session.playground;
  const [typed, set] = usePasted(session.playground, change);
  const { config, dataset, model } = useChosen(session, address);
  const row = Number(address.row || 0);
  const models = typed.models.split(',').map((name) => name.trim()).filter(Boolean);
  return html`<div class="edit"><section class="fields" aria-label=${t('Editable parts')}><h2 class="hidden">${t('Playground')}</h2>
      <p class="note">${t('Everything runs in this browser. The link holds what you paste; nothing is sent.')}</p>
      <${Editor} path=${['rows']} label=${t('Rows: JSON lines, JSON or CSV')} value=${typed.rows} rows=${9} names=${{ columns: [] }} onchange=${set('rows')} />
      <${Editor} path=${['template']} label=${t('Template')} value=${typed.template} rows=${6} names=${{ columns }} onchange=${set('template')} />
      <div class="pickers"><${Line} label=${t('Column of the answer')} value=${typed.answer} onchange=${set('answer')} />
        <${Line} label=${t('Choices')} value=${typed.choices} placeholder="A,B,C,D" onchange=${set('choices')} /></div>
      <div class="pickers"><${Line} label=${t('Models')} value=${typed.models} onchange=${set('models')} />
        <${Select} label=${t('Add a model')} value="" all="…" options=${names.filter((name) => !models.includes(name))} onchange=${(name) => set('models')([...models, name].join(', '))} /></div>
      ${source ? html`<details><summary>${t('As a config')}</summary><${Copy} text=${source} label=${t('Copy')} /><pre class="say" tabindex="0">${source}</pre></details>` : null}</section>
    <div class="content"><${Problem} error=${error} />
      ${dataset ? html`<div class="pickers">${model ? html`<${Select} label=${t('Model')} value=${model.abbr} options=${config.models.map((entry) => entry.abbr)} onchange=${(abbr) => change({ model: abbr, n: '' })} />` : null}
        <${RowNumber} label=${t('Row')} value=${row} onchange=${(value) => change({ row: value, n: '' })} /></div>
        <${Requests} session=${session} address=${address} change=${change} where=${{ config, dataset: dataset.abbr, model: model?.abbr, row }} />` : null}</div></div>`;
};
