// One row's requests: as text by origin, as messages, as tokens, or as JSON. Explore, Edit and Runs show it.
import { html, t, useState, useEffect, useAsk, countOf, tellCounts, addressOf } from './lib.js';
import { Drawn, Text, Tabs, Check, Facts, Problem, Loading, Copy } from './parts.js';

export const titleOf = (one) => [`${one.dataset} × ${one.model || t('no model')}`, `${t('row')} ${one.row}`, one.mode,
  one.label != null ? `${t('label')} ${one.label}` : '', one.turn != null ? `${t('turn')} ${one.turn}` : '', one.judge ? t('judge') : ''].filter(Boolean).join(' · ');
const labelOf = ([meaning, name, shot]) => [shot ? `${t('example')} ${shot}` : '', t(meaning || 'as sent'), name || ''].filter(Boolean).join(' · ');
const nameOf = (one, at) => {
  if (one.judge) return one.turn != null ? `${t('judge')} · ${t('turn')} ${one.turn}` : t('judge');
  if (one.turn != null) return `${t('turn')} ${one.turn}`;
  return one.label != null ? `${t('label')} ${one.label}` : `${t('request')} ${at + 1}`;
};
const factsOf = (facts) => facts.map(([name, words]) => [t(name), tellCounts(words)]);

// ── media ────────────────────────────────────────────────────────────────────────────────────────────────────────
const KINDS = {
  image: [/^data:image\/(png|jpeg|gif|webp|bmp|avif)[;,]/i, /\.(png|jpe?g|gif|webp|bmp|avif)$/i],
  audio: [/^data:audio\//i, /\.(wav|mp3|ogg|oga|opus|flac|m4a|aac)$/i],
  video: [/^data:video\//i, /\.(mp4|m4v|webm|ogv|mov)$/i],
};
const kindOf = (source) => Object.keys(KINDS).find((kind) => KINDS[kind].some((pattern) => pattern.test(source)));
const Medium = ({ kind, src, label }) => {
  const [broken, setBroken] = useState(false);
  useEffect(() => setBroken(false), [src]);
  if (broken) return html`<p class="note missing">${t('{what} cannot be shown.', { what: label })}</p>`;
  const shared = { src, onError: () => setBroken(true) };
  if (kind === 'image') return html`<img alt=${label} loading="lazy" ...${shared} />`;
  return kind === 'audio' ? html`<audio controls preload="metadata" aria-label=${label} ...${shared}></audio>` : html`<video controls preload="metadata" aria-label=${label} ...${shared}></video>`;
};
const Media = ({ prompt, config, request }) => {
  const found = prompt.blocks.flatMap((block) => block.spans.filter((span) => span.media).map((span) => span.text));
  if (!found.length) return null;
  const words = { image: t('picture'), audio: t('sound'), video: t('film') };
  return html`<div class="media">${found.map((source, at) => {
    const kind = kindOf(source);
    if (!kind || /^https?:/i.test(source)) return html`<p class="note">${source.slice(0, 200)}</p>`;
    const query = { config, dataset: prompt.dataset, model: prompt.model || '', row: prompt.row, number: request, at };
    const src = source.startsWith('data:') ? source : `api/media?${new URLSearchParams(query)}`;
    return html`<${Medium} key=${`${prompt.row}-${at}`} kind=${kind} src=${src} label=${`${words[kind]} ${at + 1}`} />`;
  })}</div>`;
};

// ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────
const MOST_TOKENS = 20000;
const Tokens = ({ address, request }) => {
  const query = { config: address.config || 0, dataset: address.dataset, model: address.model, row: address.row || 0, number: request };
  const { found, error, again } = useAsk('tokens', query);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!found) return html`<${Loading} />`;
  if (found.unknown) return html`<p class="note">${t("Not known here: the model's tokenizer is not on this machine.")}</p>`;
  return html`<div><${Facts} facts=${factsOf(found.facts)} />
    <${Drawn} class="say tokens" deps=${[found]} make=${() => found.tokens.slice(0, MOST_TOKENS).map(([id, piece, style, label, crosses], at) =>
      Draw.make('span', { class: `s${style} token t${at % 2}${crosses ? ' crosses' : ''}`, title: [id, labelOf(label), crosses ? t('spans two origins') : ''].filter(Boolean).join(' · ') },
        ...Draw.drawText(piece), Draw.make('sub', {}, String(id))))} />
    ${found.tokens.length > MOST_TOKENS ? html`<p class="note">${t('The first {n} tokens are shown.', { n: MOST_TOKENS.toLocaleString('en') })}</p>` : null}</div>`;
};

// ── where a part comes from ──────────────────────────────────────────────────────────────────────────────────────
const Explanation = ({ span, prompt }) => {
  if (!span) return html`<p class="note">${t('Click a part of the prompt to see where it comes from.')}</p>`;
  const why = prompt.explanations[span.why];
  if (!why) return html`<p class="note">${labelOf(span.label)}</p>`;
  const facts = [
    [t('origin'), t(why.meaning)],
    why.role && [t('role'), why.role], why.column && [t('column'), why.column],
    why.fallback && [t('fallback'), t('{role} is spoken as {other}', { role: why.fallback[0], other: why.fallback[1] })],
    why.named && [t('meta template'), why.named],
    why.file && [t('file'), why.file], why.place && [t('in the config'), why.place],
    why.shot && [t('example'), t('{n}, training row {row}', { n: why.shot.number, row: why.shot.row })],
    [t('length'), countOf(span.text.length, 'character')],
  ].filter(Boolean);
  return html`<div><${Facts} facts=${facts} />
    ${why.value != null ? html`<h4>${t('value')}</h4><${Text} text=${why.value} />` : null}
    ${why.shot ? Object.entries(why.shot.values).map(([name, text]) => html`<h4>${name}</h4><${Text} text=${text} />`) : null}</div>`;
};

// ── the view ─────────────────────────────────────────────────────────────────────────────────────────────────────
const choose = (node) => {
  document.querySelectorAll('.chosen').forEach((one) => one.classList.remove('chosen'));
  node.classList.add('chosen');
};
const withLabels = (prompt) => ({ ...prompt, note: prompt.note && t(prompt.note),
  blocks: prompt.blocks.map((block) => ({ ...block, spans: block.spans.map((span) => ({ ...span, label: labelOf(span.label) })) })) });
export const drawByOrigin = (prompt, legend, options) => Draw.drawPrompt(withLabels(prompt), legend.map(([group, meaning, style]) => [group, t(meaning), style]), options);
const sentAsMessages = (prompt) => Array.isArray(prompt.request) && prompt.request.some((one) => one && typeof one === 'object');

export const PromptView = ({ prompts, values = {}, legend, address, change, query = '', beside = null, above = null, also = [], tokens = true, link = address }) => {
  const [span, setSpan] = useState(null);
  const [over, setOver] = useState(null);
  const request = Math.max(0, Math.min(Number(address.n || 0), prompts.length - 1));
  const prompt = prompts[request];
  useEffect(() => { setSpan(null); setOver(null); }, [prompt]);
  if (!prompt) return null;
  const views = [['text', sentAsMessages(prompt) ? t('Messages') : t('Text')], ...(tokens ? [['tokens', t('Tokens')]] : []), ['json', t('JSON')], ...also.map(([name, words]) => [name, words])];
  const view = views.some(([name]) => name === address.as) ? address.as : 'text';
  const mark = address.mark || query;
  return html`<div class="workbench">
    <section class="main" aria-label=${t('Prompt')}>
      <div class="bar heading"><h2 class="title"><bdi>${titleOf(prompt)}</bdi></h2><${Copy} text=${() => new URL(addressOf(link), location.href).href} label=${t('Copy link')} /></div>
      ${above}
      ${prompts.length > 1 ? html`<${Tabs} label=${t('Requests of this row')} tabs=${prompts.map((one, at) => [String(at), nameOf(one, at)])} value=${String(request)} onchange=${(n) => change({ n })} />` : null}
      <div class="bar"><${Tabs} label=${t('How the request is shown')} tabs=${views} value=${view} onchange=${(as) => change({ as })} />
        <${Check} label=${t('Fold examples')} checked=${address.fold === '1'} onchange=${(on) => change({ fold: on ? '1' : '' })} />
        <${Check} label=${t('Show whitespace')} checked=${address.blanks === '1'} onchange=${(on) => change({ blanks: on ? '1' : '' })} /></div>
      <${Media} prompt=${prompt} config=${address.config || 0} request=${request} />
      ${view === 'text' ? html`<${Drawn} deps=${[prompt, address.fold, address.blanks, mark]} after=${(box) => { if (address.mark) box.querySelector('mark')?.scrollIntoView({ block: 'center' }); }}
        make=${() => drawByOrigin(prompt, legend, { query: mark.toLowerCase(), blanks: address.blanks === '1', fold: address.fold === '1',
          onhover: setOver, onspan: (chosen, node) => { choose(node); setSpan(chosen); } })} />` : null}
      ${view === 'tokens' ? html`<${Tokens} address=${address} request=${request} />` : null}
      ${view === 'json' ? html`<div class="raw"><${Copy} text=${() => JSON.stringify(prompt.request, null, 2)} label=${t('Copy')} /><${Text} text=${JSON.stringify(prompt.request, null, 2)} query=${mark} blanks=${address.blanks === '1'} /></div>` : null}
      ${also.find(([name]) => name === view)?.[2]}
    </section>
    <aside class="inspector" aria-label=${t('Details')}>
      <h3>${t('Where it comes from')}</h3><div aria-live=${over ? 'off' : 'polite'} class="why"><${Explanation} span=${over || span} prompt=${prompt} /></div>
      ${beside}
      ${prompt.facts.length ? html`<h3>${t('About this request')}</h3><${Facts} facts=${factsOf(prompt.facts)} />` : null}
      ${Object.keys(values).length ? html`<h3>${t('The row')}</h3>` : null}
      ${Object.entries(values).map(([name, text]) => html`<h4>${name}</h4><${Text} text=${text} query=${query} />`)}
    </aside></div>`;
};
