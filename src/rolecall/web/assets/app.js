// The page: which view is open, and what all of them share.
import { html, render, t, useAddress, useAsk, go, addressOf, useKeys, useState, Problem, Select } from './lib.js';
import { Explore } from './explore.js';
import { Edit } from './edit.js';
import { Compare } from './compare.js';
import { Lint } from './lint.js';
import { Runs } from './runs.js';

const VIEWS = [['explore', t('Explore'), Explore], ['edit', t('Edit'), Edit], ['compare', t('Compare'), Compare], ['lint', t('Lint'), Lint], ['runs', t('Runs'), Runs]];
const KEYS = [['1 – 9', 'open a view'], ['j  k', t('next and previous row')], ['[  ]', t('next and previous model')], ['/', t('search')], ['w', 'show whitespace'], ['f', 'fold examples'], ['Esc', 'leave a field'], ['?', 'this list']];

const App = () => {
  const address = useAddress();
  const [help, setHelp] = useState(false);
  const { found: session, error } = useAsk('session', {});
  const change = (wanted, options) => go(wanted, options);
  useKeys({ '?': () => setHelp(!help), Escape: () => setHelp(false), ...Object.fromEntries(VIEWS.map(([name], at) => [String(at + 1), () => change({ view: name })])) });
  if (!session) return html`<main><${Problem} error=${error} />${error ? null : html`<p class="note">${t('Loading …')}</p>`}</main>`;
  const shown = VIEWS.filter(([name]) => (name === 'runs' ? session.runs.length : session.configs.length));
  const [, , View] = shown.find(([name]) => name === address.view) || shown[0];
  const config = Number(address.config || 0);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>Skip to content</a>
    <header class="top"><h1>rolecall</h1>
      <nav aria-label="Views">${shown.map(([name, words, one]) => html`<a href=${addressOf({ ...address, view: name })} aria-current=${one === View ? 'page' : null} onClick=${(event) => { event.preventDefault(); change({ view: name }); }}>${words}</a>`)}</nav>
      ${session.configs.length > 1 ? html`<${Select} label=${t('Config')} value=${config} options=${session.configs.map((one, at) => [at, one.name])} onchange=${(at) => change({ config: at, dataset: '', model: '', row: '', n: '', q: '' })} />` : html`<span class="soft">${session.configs[0]?.name || ''}</span>`}
      <button type="button" class="help" aria-expanded=${help ? 'true' : 'false'} onClick=${() => setHelp(!help)}>${t('Keyboard')}</button></header>
    ${help ? html`<div class="keyboard" role="dialog" aria-label=${t('Keyboard')}><dl class="known">${KEYS.map(([key, words]) => html`<dt><kbd>${key}</kbd></dt><dd>${words}</dd>`)}</dl></div>` : null}
    <main id="main" tabindex="-1"><${View} session=${session} address=${address} change=${change} /></main>`;
};
render(html`<${App} />`, document.getElementById('app'));
