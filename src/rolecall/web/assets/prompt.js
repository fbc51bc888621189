// One row's requests: as text by origin, as messages, as tokens, or as JSON. Other views use it, too.
import { html, t, useState, useEffect, Drawn, Text, Tabs, Check, Facts, Problem, useAsk, countOf } from './lib.js';

const VIEWS = [['text', t('Text')], ['tokens', t('Tokens')], ['json', t('JSON')]];

const mediaOf = (prompt) => prompt.blocks.flatMap((block) => block.spans.filter((span) => span.media).map((span) => span.text));
const MEDIA = { image: ['img', /^data:image\/(png|jpeg|gif|webp|bmp|avif)[;,]/], audio: ['audio', /^data:audio\//], video: ['video', /^data:video\//] };
const Media = ({ prompt, address }) => {
  const found = mediaOf(prompt);
  if (!found.length) return null;
  return html`<div class="media">${found.map((source, at) => {
    const served = source.startsWith('data:') ? source : `/api/media?${new URLSearchParams({ config: address.config || 0, dataset: prompt.dataset, model: prompt.model || '', row: prompt.row, number: address.n || 0, at })}`;
    const kind = Object.entries(MEDIA).find(([, [, pattern]]) => pattern.test(source))?.[0]
      || (/\.(png|jpe?g|gif|webp|bmp|avif)$/i.test(source) ? 'image' : /\.(wav|mp3|ogg|flac|m4a)$/i.test(source) ? 'audio' : /\.(mp4|webm|mov)$/i.test(source) ? 'video' : '');
    if (/^https?:/i.test(source) || !kind) return html`<p class="note">${source.slice(0, 200)}</p>`;
    if (kind === 'image') return html`<img src=${served} alt=${`picture ${at + 1} of this request`} loading="lazy" />`;
    return kind === 'audio' ? html`<audio controls src=${served}></audio>` : html`<video controls src=${served}></video>`;
  })}</div>`;
};

const Tokens = ({ address, number }) => {
  const { found, error, busy } = useAsk('tokens', { config: address.config || 0, dataset: address.dataset, model: address.model, row: address.row || 0, number });
  if (error) return html`<${Problem} error=${error} />`;
  if (!found) return html`<p class="note">${busy ? t('Loading …') : ''}</p>`;
  if (found.unknown) return html`<p class="note">${found.unknown}</p>`;
  return html`<div><${Facts} facts=${found.facts} />
    <${Drawn} class="say tokens" deps=${[found]} make=${() => found.tokens.slice(0, 20000).map(([id, piece, style, label, crosses], at) =>
      Draw.make('span', { class: `s${style} token t${at % 2}${crosses ? ' crosses' : ''}`, title: `${id} · ${label}${crosses ? ' · spans two origins' : ''}` }, ...Draw.drawText(piece), Draw.make('sub', {}, String(id))))} /></div>`;
};

const Explanation = ({ span, prompt }) => {
  if (!span) return html`<p class="note">${t('Click a part of the prompt to see where it comes from.')}</p>`;
  const why = prompt.explanations[span.why];
  if (!why) return null;
  const facts = [
    ['origin', why.meaning], ['part', why.label],
    why.role && ['role', why.role], why.column && ['column', why.column], why.fallback && ['fallback', why.fallback],
    why.file && ['file', why.file], why.place && ['in the config', why.place],
    why.shot && ['example', `${why.shot.number}, training row ${why.shot.row}`],
    ['length', countOf(span.text.length, 'character')],
  ].filter(Boolean);
  return html`<div><${Facts} facts=${facts} />
    ${why.value != null ? html`<h4>value</h4><${Text} text=${why.value} />` : null}
    ${why.shot ? Object.entries(why.shot.values).map(([name, text]) => html`<h4>${name}</h4><${Text} text=${text} />`) : null}</div>`;
};

export const PromptView = ({ prompts, values = {}, legend, address, change, query = '', beside = null, above = null, views = VIEWS }) => {
  const [span, setSpan] = useState(null);
  const number = Math.min(Number(address.n || 0), prompts.length - 1);
  const prompt = prompts[Math.max(0, number)];
  useEffect(() => setSpan(null), [prompt]);
  if (!prompt) return html`<p class="note">${t('Loading …')}</p>`;
  const view = views.some(([name]) => name === address.as) ? address.as : 'text';
  const which = (one, at) => (one.judge ? `judge${one.turn != null ? ` of turn ${one.turn}` : ''}` : one.turn != null ? `turn ${one.turn}` : one.label != null ? `label ${one.label}` : `request ${at + 1}`);
  return html`<div class="workbench">
    <section class="main" aria-label=${t('Prompt')}>
      <div class="bar">
        <${Tabs} label="How the request is shown" tabs=${views} value=${view} onchange=${(as) => change({ as })} />
        <${Check} label=${t('Fold examples')} checked=${address.fold === '1'} onchange=${(on) => change({ fold: on ? '1' : '' })} />
        <${Check} label=${t('Show whitespace')} checked=${address.blanks === '1'} onchange=${(on) => change({ blanks: on ? '1' : '' })} />
      </div>
      ${prompts.length > 1 ? html`<${Tabs} label="Requests of this row" tabs=${prompts.map((one, at) => [String(at), which(one, at)])} value=${String(number)} onchange=${(n) => change({ n })} />` : null}
      <h2 class="title"><bdi>${prompt.title}</bdi></h2>
      ${above}
      <${Media} prompt=${prompt} address=${address} />
      ${view === 'text' ? html`<${Drawn} deps=${[prompt, address.fold, address.blanks, query]} make=${() => Draw.drawPrompt(prompt, legend, {
        query: query.toLowerCase(), blanks: address.blanks === '1', fold: address.fold === '1',
        onspan: (chosen, node) => { document.querySelectorAll('.chosen').forEach((one) => one.classList.remove('chosen')); node.classList.add('chosen'); setSpan(chosen); } })} />` : null}
      ${view === 'tokens' ? html`<${Tokens} address=${address} number=${number} />` : null}
      ${view === 'json' ? html`<${Text} text=${JSON.stringify(prompt.request, null, 2)} query=${query} />` : null}
    </section>
    <aside class="inspector" aria-label="Details">
      <h3>${t('Where it comes from')}</h3><div aria-live="polite"><${Explanation} span=${span} prompt=${prompt} /></div>
      ${prompt.facts.length ? html`<h3>${t('About this request')}</h3><${Facts} facts=${prompt.facts} />` : null}
      ${beside}
      ${Object.keys(values).length ? html`<h3>${t('The row')}</h3>` : null}
      ${Object.entries(values).map(([name, text]) => html`<h4>${name}</h4><${Text} text=${text} query=${query} />`)}
    </aside></div>`;
};
