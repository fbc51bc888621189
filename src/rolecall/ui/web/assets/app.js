// The page: which view is open, and what all of them share.
import { html, render, t, useAddress, useAsk, go, addressOf, useKeys, useState, useEffect, useRef, isChinese, chooseLanguage } from './lib.js';
import { Problem, Loading, Select } from './parts.js';
import { Explore } from './explore.js';
import { Edit } from './edit.js';
import { Compare } from './compare.js';
import { Lint } from './lint.js';
import { Runs } from './runs.js';
import { Calls } from './calls.js';
import { Start } from './start.js';
import { Playground } from './playground.js';

const VIEWS = [['playground', t('Playground'), Playground], ['explore', t('Explore'), Explore], ['edit', t('Edit'), Edit], ['compare', t('Compare'), Compare], ['lint', t('Lint'), Lint], ['start', t('Start'), Start], ['runs', t('Runs'), Runs], ['calls', t('Calls'), Calls]];
const KEYS = [['1 – 7', t('open a view')], ['j  k', t('next and previous row')], ['[  ]', t('next and previous model')], ['/', t('search')], ['w', t('show whitespace')], ['f', t('fold examples')],
  ['u  r', t('undo and redo, in Edit')], ['d', t('only differences, in Compare')], ['Esc', t('leave a field')], ['?', t('this list')]];

const Keyboard = ({ close }) => {
  const box = useRef();
  useEffect(() => box.current.focus(), []);
  return html`<div class="keyboard" role="dialog" aria-modal="false" aria-label=${t('Keyboard')} tabindex="-1" ref=${box}><dl class="known">${KEYS.map(([key, words]) => html`<dt><kbd>${key}</kbd></dt><dd>${words}</dd>`)}</dl>
    <button type="button" onClick=${close}>${t('Close')}</button></div>`;
};

const App = () => {
  const address = useAddress();
  const [help, setHelp] = useState(false);
  const { found: session, error, again } = useAsk('session', { paste: address.paste });
  useEffect(() => { addEventListener('runsadded', again); return () => removeEventListener('runsadded', again); });
  const shown = session ? VIEWS.filter(([name]) => (name === 'playground' ? session.playground : name === 'runs' ? session.runs.length : name === 'start' ? session.configs.length && !globalThis.askWorker : name === 'calls' ? session.calls : session.configs.length)) : [];
  useKeys({ '?': () => setHelp(!help), Escape: () => setHelp(false), ...Object.fromEntries(shown.map(([name], at) => [String(at + 1), () => go({ view: name })])) });
  const [name, words, View] = shown.find(([one]) => one === address.view) || shown[0] || [];
  const config = session?.configs[Number(address.config || 0)];
  const badRow = name === 'runs' ? null : [address.row, address.left_row, address.right_row].find((row) => row && !/^-?\d{1,15}$/.test(row));
  const title = name === 'runs' ? session.runs[Number(address.run || 0)]?.name : config?.name;
  useEffect(() => { document.title = [title, words, 'rolecall'].filter(Boolean).join(' · '); }, [title, words]);
  if (!session) return html`<main><${Problem} error=${error} again=${again} />${error ? null : html`${globalThis.askWorker ? html`<p class="note">${t('Starting Python in this browser …')}</p>` : null}<${Loading} lines=${10} />`}</main>`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>${t('Skip to content')}</a>
    <header class="top"><h1>rolecall</h1>
      <nav aria-label=${t('Views')}>${shown.map(([one, said]) => html`<a href=${addressOf({ ...address, view: one })} aria-current=${one === name ? 'page' : null} onClick=${(event) => { event.preventDefault(); go({ view: one }); }}>${said}</a>`)}${session.benches.map((bench, at) => html`<a href=${`bench/${at}`}>${t('Speed')}: <bdi>${bench}</bdi></a>`)}</nav>
      <div class="tools">${session.configs.length > 1 && !['runs', 'compare'].includes(name) ? html`<${Select} label=${t('Config')} value=${address.config || 0} options=${session.configs.map((one, at) => [at, one.name])} onchange=${(at) => go({ config: at, dataset: '', model: '', row: '', n: '', q: '', mark: '' })} />`
        : html`<span class="soft name">${name === 'runs' ? '' : config?.name || ''}</span>`}
      <button type="button" class="quiet" lang=${isChinese ? 'en' : 'zh'} onClick=${() => chooseLanguage(isChinese ? 'en' : 'zh')}>${isChinese ? 'English' : '中文'}</button>
      <button type="button" class="quiet help" aria-expanded=${help ? 'true' : 'false'} onClick=${() => setHelp(!help)}>${t('Keyboard')}</button></div></header>
    ${help ? html`<${Keyboard} close=${() => setHelp(false)} />` : null}
    <main id="main" tabindex="-1">${badRow ? html`<${Problem} error=${t("The link's row number is not a whole number: {row}", { row: badRow })} /><button type="button" onClick=${() => go({ row: '', left_row: '', right_row: '' })}>${t('Clear')}</button>` : View ? html`<${View} key=${name === 'playground' ? name : session.playground?.link} session=${session} address=${address} change=${go} />` : null}</main>`;
};
document.getElementById('app').replaceChildren(); // the playground's note on how to serve it
render(html`<${App} />`, document.getElementById('app'));
